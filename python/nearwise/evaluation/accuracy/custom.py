"""What ``calculate_NAME`` methods are called with, and built-in metrics computed from that."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise.evaluation.accuracy import foreign, labels, rank

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearwise.evaluation.accuracy.calculator import AccuracyCalculator
    from nearwise.evaluation.accuracy.inputs import Inputs
    from nearwise.evaluation.accuracy.relevance import Relevance
    from nearwise.evaluation.accuracy.retrieval import Retrieved

    NDArray = np.ndarray[Any, Any]


def common(inputs: Inputs, compare: Callable[[Any, Any], Any]) -> dict[str, Any]:
    """Return the keywords that every method gets."""
    query_labels, reference_labels = _labels(inputs)
    return {
        "query": foreign.embeddings(inputs.query),
        "reference": foreign.embeddings(inputs.reference),
        "query_labels": foreign.handed(query_labels, inputs.query),
        "reference_labels": foreign.handed(reference_labels, inputs.query),
        "ref_includes_query": inputs.ref_includes_query,
        "label_comparison_fn": compare,
    }


def with_neighbors(inputs: Inputs, relevant: Relevance, found: Retrieved) -> dict[str, Any]:
    """Return the keywords of methods that need neighbours."""
    _, reference_labels = _labels(inputs)
    return {
        **_counts(inputs, relevant),
        "knn_labels": foreign.handed(reference_labels[found.indices], inputs.query),
        "knn_distances": found.distances,
    }


def without_neighbors(inputs: Inputs, relevant: Relevance) -> dict[str, Any]:
    """Return the same where no query has a relevant reference and nothing was searched: zero neighbours each."""
    _, reference_labels = _labels(inputs)
    shape = (len(inputs.query), 0, *reference_labels.shape[1:])
    return {
        **_counts(inputs, relevant),
        "knn_labels": foreign.handed(np.zeros(shape, dtype=reference_labels.dtype), inputs.query),
        "knn_distances": foreign.handed(np.zeros(shape[:2], dtype=np.float32), inputs.query),
    }


def nan_result(classes: int, return_per_class: bool) -> float | list[float]:
    """Return what stands for a metric when no query has a relevant reference."""
    return [math.nan] * classes if return_per_class else math.nan


def rank_metric(
    calculator: AccuracyCalculator,
    name: str,
    *,
    knn_labels: Any,
    query_labels: Any,
    label_counts: tuple[Any, Any],
    not_lone_query_mask: Any,
    ref_includes_query: bool,
    **kwargs: Any,
) -> float | list[float]:
    """Compute a built-in metric from the keywords of a method."""
    values, counts = (foreign.to_numpy(each) for each in label_counts)
    mask = foreign.to_numpy(not_lone_query_mask)
    if not mask.any():
        return nan_result(len(values), calculator.return_per_class)
    own = foreign.to_numpy(query_labels)
    _, classes = labels.rows(own)
    relevant = np.where(mask, counts[classes] - ref_includes_query, 0).astype(np.int64)
    matches = calculator.label_comparison_fn(query_labels[:, None], knn_labels)
    metric = rank.metric(name)
    assert metric is not None, "only names of built-in metrics come here"
    scores = rank.score_matches([metric], None, np.asarray(foreign.to_numpy(matches), dtype=bool), relevant)
    return rank.average(
        scores,
        0,
        classes,
        avg_of_avgs=calculator.avg_of_avgs,
        return_per_class=calculator.return_per_class,
    )


def _counts(inputs: Inputs, relevant: Relevance) -> dict[str, Any]:
    values = relevant.classes
    if labels.is_text(values):
        values = np.unique(_labels(inputs)[0])
    lone = relevant.of_class <= 0
    return {
        "label_counts": (foreign.handed(values, inputs.query), foreign.handed(relevant.counts, inputs.query)),
        "lone_query_labels": foreign.handed(values[lone], inputs.query),
        "not_lone_query_mask": foreign.handed(~lone[relevant.query], inputs.query),
    }


def _labels(inputs: Inputs) -> tuple[NDArray, NDArray]:
    """Return the labels of both sides as numbers: themselves, or the positions of strings among all that occur."""
    own, theirs = inputs.query_labels, inputs.reference_labels
    if not (labels.is_text(own) or labels.is_text(theirs)):
        return own, theirs
    _, numbers = np.unique(np.concatenate([own, theirs]), return_inverse=True)
    return numbers[: len(own)], numbers[len(own) :]
