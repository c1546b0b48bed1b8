"""Neighbours of anchors among their positives and negatives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearwise.errors import ContractError
from nearwise.testers.global_space import GlobalEmbeddingSpaceTester

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from torch import Tensor

    from nearwise.testers.base import EmbeddingsAndLabels
    from nearwise.testers.splits import Evaluation


class GlobalTwoStreamEmbeddingSpaceTester(GlobalEmbeddingSpaceTester):
    """Scores the anchors of a split against its positives and negatives.

    Samples are (anchor, posneg, label), and ``data_and_label_getter`` returns such a triple. A split can be evaluated
    in itself only; the embeddings kept for it are the anchors and below them the others, each with all labels. See
    `BaseTester` for the parameters.

    Examples
    --------
    >>> import torch
    >>> from nearwise.evaluation import AccuracyCalculator
    >>> from nearwise.testers import GlobalTwoStreamEmbeddingSpaceTester
    >>> tester = GlobalTwoStreamEmbeddingSpaceTester(
    ...     accuracy_calculator=AccuracyCalculator(include=["precision_at_1"]), dataloader_num_workers=0
    ... )
    >>> anchors, others = torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([[0.9, 0.1], [0.8, 0.2]])
    >>> tester.test({"val": list(zip(anchors, others, [0, 1]))}, epoch=1, trunk_model=torch.nn.Identity())
    {'val': {'epoch': 1, 'precision_at_1_level0': 1.0}}
    """

    def get_splits_to_compute_embeddings(
        self, dataset_dict: Mapping[str, Any], splits_to_eval: Iterable[Any] | None
    ) -> tuple[list[Evaluation], list[str]]:
        """Return as the base does, if each split is evaluated in itself.

        Raises
        ------
        ContractError
            If a query split has another split among its references.
        """
        pairs, needed = super().get_splits_to_compute_embeddings(dataset_dict, splits_to_eval)
        for query, references in pairs:
            _check_own(query, references)
        return pairs, needed

    def set_reference_and_query(
        self, embeddings_and_labels: EmbeddingsAndLabels, query_split_name: str, reference_split_names: list[str]
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the anchors as query and the others as reference, both with the labels of the split.

        Raises
        ------
        ContractError
            If the reference is another split.
        """
        _check_own(query_split_name, reference_split_names)
        embeddings, labels = embeddings_and_labels[query_split_name]
        half = len(embeddings) // 2
        return embeddings[:half], labels[:half], embeddings[half:], labels[half:]

    def ref_includes_query(self, query_split_name: str, reference_split_names: list[str]) -> bool:
        """Return False: anchors are not among what they are compared with."""
        return False

    def streams_and_labels(self, models: tuple[Any, Any], batch: Any) -> tuple[list[Tensor], Any]:
        """Return the embeddings of a batch's anchors, those of the others, and the labels."""
        anchors, posnegs, labels = self.data_and_label_getter(batch)
        return [self.get_embeddings_for_eval(*models, anchors), self.get_embeddings_for_eval(*models, posnegs)], labels


def _check_own(query: str, references: list[str]) -> None:
    """Raise unless a split is evaluated in itself."""
    if list(references) != [query]:
        raise ContractError(f"two streams are compared within one split: expected [{query!r}], got {references!r}")
