"""The built-in rank metrics: their names, how deep they look, and their values from the core."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearwise import _core
from nearwise._arguments import positive
from nearwise.evaluation.accuracy import foreign
from nearwise.evaluation.accuracy.relevance import EQUALITY

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from nearwise._formula import Formula
    from nearwise.evaluation.accuracy.inputs import Inputs

    NDArray = np.ndarray[Any, Any]

# Public name to the core's; the last two look at the first R alone.
_FULL = {"mean_average_precision": "average_precision", "mean_reciprocal_rank": "reciprocal_rank"}
_AT_R = {"mean_average_precision_at_r": "average_precision_at_r", "r_precision": "r_precision"}
_AT_K = re.compile(r"(precision|recall)_at_([1-9][0-9]*)")
_MOST = 2**63 - 1


class Metric(NamedTuple):
    """A built-in rank metric.

    Attributes
    ----------
    name : str
        What the core calls it.
    at : int or None
        How many neighbours it looks at, where its name says so.
    r : bool
        Whether it looks at the first R only.
    """

    name: str
    at: int | None = None
    r: bool = False

    def cutoff(self, k: int | None) -> int | None:
        """How many neighbours count when `k` are asked for (None: all)."""
        return self.at or k


def metric(name: str) -> Metric | None:
    """Return the built-in rank metric of that public name."""
    if name in _FULL:
        return Metric(_FULL[name])
    if name in _AT_R:
        return Metric(_AT_R[name], r=True)
    at = _AT_K.fullmatch(name)
    return Metric(at[1], int(at[2])) if at and is_at_k(name) else None


def is_at_k(name: str) -> bool:
    """Whether `name` is ``precision_at_<k>`` or ``recall_at_<k>``, of a k that can be counted to."""
    at = _AT_K.fullmatch(name)
    return at is not None and len(at[2]) <= len(str(_MOST)) and int(at[2]) <= _MOST


def depth(metrics: Sequence[Metric], most_relevant: int, available: int) -> int:
    """Return how many neighbours `metrics` need to see when no k is asked for."""
    deepest = 1
    for each in metrics:
        deepest = max(deepest, each.at or (most_relevant if each.r else available))
    return min(deepest, available)


def score_neighbors(
    metrics: Sequence[Metric], k: int | None, indices: NDArray, classes: tuple[NDArray, NDArray], relevant: NDArray
) -> _core.Scores:
    """Score queries by the class numbers (queries, references) of their neighbours."""
    return _core.rank_neighbors(indices, *classes, relevant, _specs(metrics, k))


def score_matches(metrics: Sequence[Metric], k: int | None, matches: NDArray, relevant: NDArray) -> _core.Scores:
    """Score queries by a matrix that says which neighbours match."""
    return _core.rank_matches(matches.view(np.uint8), relevant, _specs(metrics, k))


def score_search(
    metrics: Sequence[Metric],
    k: int | None,
    inputs: Inputs,
    classes: tuple[NDArray, NDArray],
    formula: Formula,
    threads: int,
    progress: Callable[[int, int], object] | None,
) -> _core.Scores:
    """Score queries by the ranks of the references of their class, counted during a search by the core."""
    return _core.rank_all(
        inputs.query.numpy(),
        inputs.reference.numpy(),
        *classes,
        _core.Distance(formula.kind, p=formula.p, power=formula.power, normalize=formula.normalize),
        _specs(metrics, k),
        exclude_self=inputs.ref_includes_query,
        threads=threads,
        progress=progress,
    )


def average(
    scores: _core.Scores, number: int, classes: NDArray, *, avg_of_avgs: bool, return_per_class: bool
) -> float | list[float]:
    """Return the mean of metric `number` over the queries, the mean of the means of classes, or those means."""
    if return_per_class:
        return scores.class_means(number, classes)
    return scores.mean_of_class_means(number, classes) if avg_of_avgs else scores.mean(number)


def precision_at_k(
    knn_labels: Any,
    gt_labels: Any,
    k: int,
    avg_of_avgs: bool = False,
    return_per_class: bool = False,
    label_comparison_fn: Callable[[Any, Any], Any] | None = None,
) -> float | list[float]:
    """Return which part of the first k neighbours have the label of their query; for metrics of your own.

    Parameters
    ----------
    knn_labels : array or tensor of shape (queries, neighbours) or (queries, neighbours, n)
        Labels of the neighbours, nearest first.
    gt_labels : array or tensor of shape (queries,), (queries, 1) or (queries, 1, n)
        Labels of the queries.
    k : int
        How many neighbours count.
    avg_of_avgs, return_per_class : bool, default False
        Return the mean of the means within each class, or a list of these, by ascending label.
    label_comparison_fn : callable, optional
        ``(gt_labels, knn_labels)`` to a boolean array; equality by default.

    Examples
    --------
    >>> import numpy as np
    >>> precision_at_k(np.array([[0, 1, 0], [1, 1, 0]]), np.array([0, 1]), 2)
    0.75
    """
    k = positive("k", k)
    compare = EQUALITY if label_comparison_fn is None else label_comparison_fn
    own = gt_labels[:, None] if gt_labels.ndim < knn_labels.ndim else gt_labels
    matches = np.asarray(foreign.to_numpy(compare(own, knn_labels[:, :k])), dtype=bool)
    _, classes = np.unique(foreign.to_numpy(own)[:, 0], axis=0, return_inverse=True)
    scores = score_matches([Metric("precision", k)], None, matches, np.ones(len(matches), dtype=np.int64))
    return average(
        scores,
        0,
        classes.reshape(-1).astype(np.int64),
        avg_of_avgs=avg_of_avgs,
        return_per_class=return_per_class,
    )


def _specs(metrics: Sequence[Metric], k: int | None) -> list[tuple[str, int | None]]:
    return [(each.name, each.cutoff(k)) for each in metrics]
