"""Testers: from a model and datasets to a table of accuracies.

A tester embeds every dataset split that it needs once, finds the nearest neighbours of one split in others, and returns
``{split: {"epoch": epoch, "<metric>_level<L>": value, ...}}``. `GlobalEmbeddingSpaceTester` serves most uses;
`WithSameParentLabelTester` compares samples within their parent label only, `GlobalTwoStreamEmbeddingSpaceTester`
anchors with their positives and negatives. They need the extra ``nearwise[testers]``.

Examples
--------
>>> import torch
>>> from torch.utils.data import TensorDataset
>>> from nearwise.evaluation import AccuracyCalculator
>>> from nearwise.testers import GlobalEmbeddingSpaceTester
>>> points = torch.tensor([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.1]])
>>> dataset = TensorDataset(points, torch.tensor([0, 0, 1, 1]))
>>> tester = GlobalEmbeddingSpaceTester(
...     accuracy_calculator=AccuracyCalculator(include=("precision_at_1",)), dataloader_num_workers=0
... )
>>> tester.test({"val": dataset}, 1, torch.nn.Identity())
{'val': {'epoch': 1, 'precision_at_1_level0': 1.0}}
"""

try:
    import torch as _torch  # noqa: F401
except ModuleNotFoundError as error:  # pragma: no cover - depends on the environment
    raise ModuleNotFoundError("nearwise.testers needs torch: pip install 'nearwise[testers]'", name="torch") from error

from nearwise.testers.base import BaseTester
from nearwise.testers.global_space import GlobalEmbeddingSpaceTester
from nearwise.testers.labels import LabelMapper
from nearwise.testers.same_parent import WithSameParentLabelTester
from nearwise.testers.two_stream import GlobalTwoStreamEmbeddingSpaceTester

__all__ = [
    "BaseTester",
    "GlobalEmbeddingSpaceTester",
    "GlobalTwoStreamEmbeddingSpaceTester",
    "LabelMapper",
    "WithSameParentLabelTester",
]
