"""`select_threshold`: the score from which on a pair counts as a match.

Examples
--------
>>> import numpy as np
>>> from nearwise.evaluation import match_f1, select_threshold
>>> distances, is_match = np.array([1.0, 2.0, 4.0, 8.0]), np.array([True, True, False, False])
>>> select_threshold(distances, is_match, match_f1, is_inverted=False)
ThresholdSelection(threshold=3.0, value=1.0)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearwise import _core
from nearwise._arguments import checked_threads
from nearwise._arrays import is_tensor
from nearwise.evaluation.threshold_inputs import read_labels, read_scores
from nearwise.evaluation.threshold_metrics import MatchCounts, core_metric

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_PARALLEL = 1 << 17


class ThresholdSelection(NamedTuple):
    """A threshold and what the metric is there.

    Attributes
    ----------
    threshold : float
        Pairs match from here on, the threshold included: distances at most it, similarities at least it. Infinite
        (negative for distances) when it is best to accept nothing.
    value : float
        The metric of the pairs that were given, at this threshold.
    """

    threshold: float
    value: float


def select_threshold(
    scores: Any,
    labels: Any,
    metric: Callable[[MatchCounts], Any],
    *,
    is_inverted: bool,
) -> ThresholdSelection:
    """Choose the threshold of the largest metric.

    The candidates are: accept nothing; accept down to each distinct score, with the midpoint to the next one, rounded
    to the scores' dtype, as threshold (or the score itself if the dtype has no number between); accept everything down
    to the weakest score. Equal scores are never separated, -0.0 and 0.0 are equal, and there is no tolerance: scores
    that differ in the last bit are two scores. Of equal values the candidate with the fewest matches is chosen; for the
    metrics of this package equal means equal as fractions of whole numbers.

    Comparing the same scores, in their own dtype, with the returned threshold gives the very counts behind `value`; the
    threshold may pass through ``float`` and JSON before.

    Parameters
    ----------
    scores : array or tensor of shape (pairs,)
        float16, bfloat16, float32 or float64; finite. Any device; neither modified nor kept.
    labels : array or tensor of shape (pairs,)
        bool, True for a pair that should match; at least one of either kind. May be of another kind than scores.
    metric : callable
        Takes a `MatchCounts`, returns one value per candidate, strictest first; NaN is never chosen. Called once. The
        core computes `match_accuracy`, `match_balanced_accuracy`, `match_f1`, `match_f_beta`, `match_youden` and
        `match_mcc` itself, without an array of candidates.
    is_inverted : bool
        True for similarities (larger is more alike), False for distances.

    Returns
    -------
    ThresholdSelection
        ``(threshold, value)``.

    Raises
    ------
    TypeError
        Scores or labels are neither array nor tensor; `metric` is no callable; `is_inverted` is no bool.
    ValueError
        Scores are not one-dimensional, not floating, not finite or empty; labels are not bool, of another length or of
        one kind only; the metric returns another shape, or NaN for every candidate.

    Examples
    --------
    >>> import numpy as np
    >>> similarities = np.array([0.9, 0.8, 0.7, 0.1], dtype=np.float32)
    >>> labels = np.array([True, False, True, False])
    >>> def recall_without_errors(counts):
    ...     recall = counts.true_positives / (counts.true_positives + counts.false_negatives)
    ...     recall[counts.false_positives > 0] = float("nan")
    ...     return recall
    >>> threshold, value = select_threshold(similarities, labels, recall_without_errors, is_inverted=True)
    >>> round(threshold, 6), value
    (0.85, 0.5)
    """
    known = core_metric(metric)
    if known is None:
        return _by_any_metric(scores, labels, metric, is_inverted)
    values, classes, threads = _inputs(scores, labels, is_inverted)
    name, beta_squared = known
    return ThresholdSelection(*_core.best_threshold(values, classes, name, beta_squared, is_inverted, threads))


def candidates(scores: Any, labels: Any, is_inverted: bool) -> _core.Candidates:
    """Return the sorted candidates of checked inputs; the same errors as `select_threshold`."""
    values, classes, threads = _inputs(scores, labels, is_inverted)
    return _core.Candidates(values, classes, is_inverted, threads)


def _inputs(scores: Any, labels: Any, is_inverted: bool) -> tuple[NDArray[Any], NDArray[np.uint8], int]:
    if is_inverted is not True and is_inverted is not False and not isinstance(is_inverted, np.bool_):
        raise TypeError(f"is_inverted must be a bool, got {is_inverted!r}")
    values = read_scores(scores)
    threads = checked_threads(None) if values.size >= _PARALLEL else 1
    return values, read_labels(labels), threads


def _by_any_metric(
    scores: Any, labels: Any, metric: Callable[[MatchCounts], Any], is_inverted: bool
) -> ThresholdSelection:
    if not callable(metric):
        raise TypeError(f"metric must be a callable that takes MatchCounts, got {metric!r}")
    sweep = candidates(scores, labels, is_inverted)
    # The counts are the metric's to write into: nothing else reads them.
    result = metric(counts_for_metric(sweep))
    values = _as_values(result, len(sweep))
    numbers = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(len(values), dtype=bool)
    if not numbers.any():
        explain = getattr(metric, "unattainable", None)
        reason = explain(MatchCounts(*sweep.counts())) if callable(explain) else "it is NaN for every candidate"
        raise ValueError(f"metric {metric!r} allows no threshold: {reason}")
    best = int(np.argmax(numbers & (values == values[numbers].max())))
    return ThresholdSelection(sweep.threshold(best), float(values[best]))


def counts_for_metric(sweep: _core.Candidates) -> MatchCounts:
    """Return fresh counts: torch tensors where torch is installed, NumPy arrays otherwise."""
    counts = MatchCounts(*sweep.counts())
    try:
        import torch
    except ImportError:
        return counts
    return MatchCounts(*(torch.from_numpy(count) for count in counts))


def _as_values(result: Any, count: int) -> NDArray[Any]:
    if is_tensor(result):
        result = result.detach().cpu()
        result = result.double().numpy() if result.is_floating_point() else result.numpy()
    values = np.asarray(result)
    if values.dtype.kind not in "biuf":
        raise TypeError(f"metric must return real numbers, got {type(result).__name__} of {values.dtype.name}")
    if values.shape != (count,):
        raise ValueError(f"metric must return one value per candidate, shape {(count,)}, got shape {values.shape}")
    return values
