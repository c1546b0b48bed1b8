"""The evaluation names of pytorch-metric-learning 2.9, with its keywords and defaults.

Replace the imports of its ``distances``, ``testers``, ``utils.accuracy_calculator`` and ``utils.inference`` by one from
here; ``utils.logging_presets`` is `nearwise.logging_presets`. What nearwise itself does otherwise than 2.9 on purpose
stays so; the page "Coming from pytorch-metric-learning" of the documentation lists it. This module differs from
`nearwise.evaluation` and `nearwise.distances` in that

- ``DotProductSimilarity()`` normalises, and distances have ``pairwise_distance``;
- `AccuracyCalculator` computes NMI and AMI unless told otherwise, and lets tensors and arrays be mixed;
- `MatchFinder` has ``get_matching_pairs``, and ``is_match`` returns an array, or a bool for one pair;
- testers leave ``_pca<N>`` off the keys of results;
- there is an `InferenceModel`, which does not need Faiss.

It needs torch.

Examples
--------
>>> import torch
>>> from nearwise.compat.pytorch_metric_learning import AccuracyCalculator, CosineSimilarity, CustomKNN
>>> calculator = AccuracyCalculator(include=("precision_at_1",), knn_func=CustomKNN(CosineSimilarity(), batch_size=8))
>>> embeddings = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
>>> calculator.get_accuracy(embeddings, torch.tensor([0, 0, 1, 1]))
{'precision_at_1': 1.0}
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

from nearwise import distances, evaluation, testers
from nearwise.compat._inference import InferenceModel
from nearwise.compat._matching import MatchFinder
from nearwise.evaluation import CustomKNN, FaissKMeans, FaissKNN, precision_at_k
from nearwise.evaluation.accuracy import clustering
from nearwise.testers import LabelMapper

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np

__all__ = [
    "AccuracyCalculator",
    "BaseTester",
    "CosineSimilarity",
    "CustomKNN",
    "DotProductSimilarity",
    "FaissKMeans",
    "FaissKNN",
    "GlobalEmbeddingSpaceTester",
    "GlobalTwoStreamEmbeddingSpaceTester",
    "InferenceModel",
    "LabelMapper",
    "LpDistance",
    "MatchFinder",
    "SNRDistance",
    "WithSameParentLabelTester",
    "get_matching_pairs",
    "precision_at_k",
]


class _Names:
    """Methods of 2.9's distances."""

    is_inverted: Any
    pairwise: Any

    def pairwise_distance(self, query_emb: Any, ref_emb: Any) -> Any:
        """Return ``pairwise(query_emb, ref_emb)``, which, unlike 2.9's, honours normalisation and power."""
        return self.pairwise(query_emb, ref_emb)

    def smallest_dist(self, values: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what is nearest of a tensor: the smallest distances, or the largest similarities."""
        return (values.max if self.is_inverted else values.min)(*args, **kwargs)

    def largest_dist(self, values: Any, *args: Any, **kwargs: Any) -> Any:
        """Return what is farthest of a tensor: the largest distances, or the smallest similarities."""
        return (values.min if self.is_inverted else values.max)(*args, **kwargs)

    def margin(self, x: Any, y: Any) -> Any:
        """Return how much farther `x` is than `y`."""
        return y - x if self.is_inverted else x - y


@dataclass(frozen=True)
class LpDistance(_Names, distances.LpDistance):
    """`nearwise.distances.LpDistance` with the methods of 2.9.

    Examples
    --------
    >>> import torch
    >>> LpDistance(normalize_embeddings=False, p=1)(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0]]))
    tensor([[7.]])
    """

    _formula = distances.LpDistance._formula


@dataclass(frozen=True)
class SNRDistance(_Names, distances.SNRDistance):
    """`nearwise.distances.SNRDistance` with the methods of 2.9."""

    _formula = distances.SNRDistance._formula


@dataclass(frozen=True)
class DotProductSimilarity(_Names, distances.DotProductSimilarity):
    """`nearwise.distances.DotProductSimilarity` with the methods of 2.9, which normalises by default.

    Examples
    --------
    >>> import torch
    >>> DotProductSimilarity()(torch.tensor([[3.0, 4.0]]), torch.tensor([[6.0, 8.0]]))
    tensor([[1.]])
    """

    _: KW_ONLY
    normalize_embeddings: bool = True

    _formula = distances.DotProductSimilarity._formula


@dataclass(frozen=True)
class CosineSimilarity(_Names, distances.CosineSimilarity):
    """`nearwise.distances.CosineSimilarity` with the methods of 2.9."""

    _formula = distances.CosineSimilarity._formula


class AccuracyCalculator(evaluation.AccuracyCalculator):
    """`nearwise.evaluation.AccuracyCalculator` with the defaults of 2.9.

    NMI and AMI belong to the metrics that are computed without `include`, as does their k-means (by Faiss, or by
    scikit-learn where Faiss is missing), so leave them out with ``exclude=("NMI", "AMI")`` if they are not wanted.
    Embeddings and labels may be arrays and tensors in one call. The search is nearwise's own: 2.9's ``FaissKNN()``
    finds the same neighbours but for the order of ties and the rounding of float32.

    Examples
    --------
    >>> AccuracyCalculator(exclude=("NMI", "AMI")).get_curr_metrics()
    ['mean_average_precision', 'mean_average_precision_at_r', 'mean_reciprocal_rank', 'precision_at_1', 'r_precision']
    """

    _mixed = True

    def __init__(
        self,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        avg_of_avgs: bool = False,
        return_per_class: bool = False,
        k: Any = None,
        label_comparison_fn: Callable[[Any, Any], Any] | None = None,
        device: Any = None,
        knn_func: Callable[..., Any] | None = None,
        kmeans_func: Callable[[Any, int], Any] | None = None,
    ) -> None:
        super().__init__(
            include=include,
            exclude=exclude,
            avg_of_avgs=avg_of_avgs,
            return_per_class=return_per_class,
            k=k,
            label_comparison_fn=label_comparison_fn,
            device=device,
            knn_func=knn_func,
            kmeans_func=_kmeans if kmeans_func is None else kmeans_func,
        )


def _kmeans(query: Any, num_clusters: int) -> Any:
    return clustering.default()(query, num_clusters)


def get_matching_pairs(
    distance: Any, query_emb: Any, ref_emb: Any = None, threshold: float | None = None, return_tuples: bool = False
) -> np.ndarray[Any, Any] | list[tuple[int, int]]:
    """Return which pairs match, as `MatchFinder.get_matching_pairs` does for a `distance`.

    Examples
    --------
    >>> import torch
    >>> rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> get_matching_pairs(CosineSimilarity(), rows[:1], rows, threshold=0.9, return_tuples=True)
    [(0, 0), (0, 1)]
    """
    return MatchFinder(distance, threshold).get_matching_pairs(query_emb, ref_emb, return_tuples=return_tuples)


class _Defaults:
    """What the testers of 2.9 do unless told otherwise."""

    def __init__(self, *args: Any, pca_suffix: bool = False, **kwargs: Any) -> None:
        super().__init__(*args, pca_suffix=pca_suffix, **kwargs)  # type: ignore[call-arg]  # of the tester beside it

    def _default_calculator(self) -> Any:
        return AccuracyCalculator()


class BaseTester(_Defaults, testers.BaseTester):
    """`nearwise.testers.BaseTester` with the defaults of 2.9."""


class GlobalEmbeddingSpaceTester(_Defaults, testers.GlobalEmbeddingSpaceTester):
    """`nearwise.testers.GlobalEmbeddingSpaceTester` with the defaults of 2.9."""


class WithSameParentLabelTester(_Defaults, testers.WithSameParentLabelTester):
    """`nearwise.testers.WithSameParentLabelTester` with the defaults of 2.9."""


class GlobalTwoStreamEmbeddingSpaceTester(_Defaults, testers.GlobalTwoStreamEmbeddingSpaceTester):
    """`nearwise.testers.GlobalTwoStreamEmbeddingSpaceTester` with the defaults of 2.9."""
