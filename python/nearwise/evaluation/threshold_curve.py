"""All thresholds at once: counts, rates, and the point where both error rates are equal."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from nearwise._arrays import is_tensor
from nearwise.evaluation.threshold import candidates
from nearwise.evaluation.threshold_metrics import MatchCounts


@dataclass(frozen=True, eq=False)
class ThresholdCurve:
    """Every candidate threshold of a sample, strictest first.

    Attributes
    ----------
    thresholds : array or tensor of shape (candidates,)
        float64. The first, infinite, accepts nothing; the last accepts everything down to the weakest score.
    counts : MatchCounts
        Four arrays or tensors of that shape, float64.
    """

    thresholds: Any
    counts: MatchCounts

    def __len__(self) -> int:
        return len(self.thresholds)

    @property
    def true_match_rate(self) -> Any:
        """Accepted part of the positives, tp / (tp + fn); also called recall or true positive rate."""
        return self.counts.true_positives / (self.counts.true_positives + self.counts.false_negatives)

    @property
    def false_match_rate(self) -> Any:
        """Accepted part of the negatives, fp / (fp + tn); also called false positive rate."""
        return self.counts.false_positives / (self.counts.false_positives + self.counts.true_negatives)

    @property
    def false_non_match_rate(self) -> Any:
        """Rejected part of the positives, fn / (fn + tp)."""
        return self.counts.false_negatives / (self.counts.true_positives + self.counts.false_negatives)

    @property
    def precision(self) -> Any:
        """Positive part of what is accepted, tp / (tp + fp); NaN for the first candidate, which accepts nothing."""
        with np.errstate(invalid="ignore"):
            return self.counts.true_positives / (self.counts.true_positives + self.counts.false_positives)


class EqualErrorRate(NamedTuple):
    """Where false matches are as frequent as false non-matches.

    Attributes
    ----------
    rate : float
        See `equal_error_rate`.
    threshold : float
        The candidate where the two rates are closest.
    """

    rate: float
    threshold: float


def threshold_curve(scores: Any, labels: Any, *, is_inverted: bool) -> ThresholdCurve:
    """Return every candidate that `select_threshold` chooses among, with its counts.

    Parameters
    ----------
    scores : array or tensor of shape (pairs,)
        float16, bfloat16, float32 or float64; finite.
    labels : array or tensor of shape (pairs,)
        bool, True for a pair that should match; at least one of either kind.
    is_inverted : bool
        True for similarities, False for distances.

    Returns
    -------
    ThresholdCurve
        Of one entry more than there are distinct scores; of CPU tensors if `scores` is a tensor, else of NumPy arrays.

    Raises
    ------
    TypeError, ValueError
        As `nearwise.evaluation.select_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> curve = threshold_curve(np.array([1.0, 2.0, 2.0]), np.array([True, False, True]), is_inverted=False)
    >>> curve.thresholds.tolist(), curve.counts.true_positives.tolist(), curve.false_match_rate.tolist()
    ([-inf, 1.5, 2.0], [0.0, 1.0, 2.0], [0.0, 0.0, 1.0])
    """
    sweep = candidates(scores, labels, is_inverted)
    columns: list[Any] = [sweep.thresholds(), *sweep.counts()]
    if is_tensor(scores):
        import torch

        columns = [torch.from_numpy(column) for column in columns]
    return ThresholdCurve(columns[0], MatchCounts(*columns[1:]))


def equal_error_rate(scores: Any, labels: Any, *, is_inverted: bool) -> EqualErrorRate:
    """Return the rate at which false matches and false non-matches are equally frequent.

    Definition: along the candidates the false match rate fp/N rises from 0 to 1 and the false non-match rate fn/P falls
    from 1 to 0. Join neighbouring candidates by straight lines; the equal error rate is where the two broken lines
    cross. (That is the point where the ROC curve, ties joined by straight lines, meets the diagonal
    from (0, 1) to (1, 0).) It is computed in whole numbers and rounded once; the order of rows does not matter.
    The threshold is that of the candidate where the two rates differ least, of two such the one with fewer matches.

    Other definitions differ on small samples: the mean, or the larger, of the two rates at the nearest candidate, and
    the ROC convex hull.

    Parameters
    ----------
    scores, labels, is_inverted
        As `threshold_curve`.

    Returns
    -------
    EqualErrorRate
        ``(rate, threshold)``.

    Raises
    ------
    TypeError, ValueError
        As `nearwise.evaluation.select_threshold`.

    Examples
    --------
    >>> import numpy as np
    >>> scores, labels = np.array([5.0, 4.0, 3.0, 2.0, 1.0]), np.array([True, True, False, True, False])
    >>> equal_error_rate(scores, labels, is_inverted=True)
    EqualErrorRate(rate=0.3333333333333333, threshold=2.5)
    """
    sweep = candidates(scores, labels, is_inverted)
    counts = MatchCounts(*sweep.counts())
    positives = int(counts.false_negatives[0])
    negatives = int(counts.true_negatives[0])

    def difference(index: int) -> int:
        """Return (fp/N - fn/P) · PN; it grows with the index, from -PN to PN."""
        return int(counts.false_positives[index]) * positives - int(counts.false_negatives[index]) * negatives

    low, high = 0, len(sweep) - 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if difference(middle) < 0 else (low, middle)
    before, after = -difference(low), difference(high)
    share = Fraction(before, before + after)
    false_matches = [int(counts.false_positives[index]) for index in (low, high)]
    rate = (false_matches[0] + share * (false_matches[1] - false_matches[0])) / negatives
    return EqualErrorRate(float(rate), sweep.threshold(low if before <= after else high))
