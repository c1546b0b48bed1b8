"""What a threshold can be chosen by: counts per candidate in, one value per candidate out.

Any callable will do that takes a `MatchCounts` and returns one value per candidate, NaN for those that must not be
chosen. The metrics of this module are such callables; the core also knows the unconstrained ones by heart, and compares
their values as exact fractions.
"""

from __future__ import annotations

import math
from fractions import Fraction
from numbers import Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

_LARGEST_TERM = 1 << 61


class MatchCounts(NamedTuple):
    """How many pairs match, rightly and wrongly, at each candidate threshold, strictest first.

    Attributes
    ----------
    true_positives, false_positives, true_negatives, false_negatives : array or tensor of shape (candidates,)
        float64, whole numbers. Torch tensors on the CPU where torch is installed, NumPy arrays otherwise.
    """

    true_positives: Any
    false_positives: Any
    true_negatives: Any
    false_negatives: Any


class CoreMetric(NamedTuple):
    """The core's name of a metric, and β² as a fraction for the one that needs it."""

    name: str
    beta_squared: tuple[int, int] = (1, 1)


def match_accuracy(counts: MatchCounts) -> Any:
    """Fraction of pairs that are decided rightly: (tp + tn) / (tp + fp + tn + fn).

    Parameters
    ----------
    counts : MatchCounts
        Arrays or tensors of any one shape.

    Returns
    -------
    array or tensor
        Of that shape. NaN where there are no pairs.

    Examples
    --------
    >>> import numpy as np
    >>> match_accuracy(MatchCounts(*np.array([[2.0], [1.0], [1.0], [0.0]])))
    array([0.75])
    """
    tp, fp, tn, fn = counts
    return _divided(tp + tn, tp + fp + tn + fn)


def match_balanced_accuracy(counts: MatchCounts) -> Any:
    """Mean of the two classes' accuracies: (tp·N + tn·P) / 2PN with P = tp + fn and N = tn + fp.

    One quotient of whole numbers instead of two, so that equal values are equal numbers (while 2PN < 2^53).

    Parameters
    ----------
    counts : MatchCounts
        Arrays or tensors of any one shape.

    Returns
    -------
    array or tensor
        Of that shape. NaN where a class is empty.

    Examples
    --------
    >>> import numpy as np
    >>> match_balanced_accuracy(MatchCounts(*np.array([[1.0], [1.0], [3.0], [1.0]])))
    array([0.625])
    """
    tp, fp, tn, fn = counts
    positives, negatives = tp + fn, tn + fp
    return _divided(tp * negatives + tn * positives, 2 * positives * negatives)


def match_f1(counts: MatchCounts) -> Any:
    """Harmonic mean of precision and recall: 2tp / (2tp + fp + fn). 0 where nothing matches.

    Parameters
    ----------
    counts : MatchCounts
        Arrays or tensors of any one shape.

    Returns
    -------
    array or tensor
        Of that shape. NaN where there are neither positives nor matches.

    Examples
    --------
    >>> import numpy as np
    >>> match_f1(MatchCounts(*np.array([[2.0], [1.0], [1.0], [0.0]])))
    array([0.8])
    """
    tp, fp, _, fn = counts
    return _divided(2 * tp, 2 * tp + fp + fn)


def match_youden(counts: MatchCounts) -> Any:
    """Youden's J, the true match rate less the false match rate: (tp·N − fp·P) / PN.

    W. J. Youden, "Index for rating diagnostic tests", Cancer 3 (1950). It chooses what `match_balanced_accuracy` does.

    Parameters
    ----------
    counts : MatchCounts
        Arrays or tensors of any one shape.

    Returns
    -------
    array or tensor
        Of that shape, from -1 to 1. NaN where a class is empty.

    Examples
    --------
    >>> import numpy as np
    >>> match_youden(MatchCounts(*np.array([[1.0], [1.0], [3.0], [1.0]])))
    array([0.25])
    """
    tp, fp, tn, fn = counts
    positives, negatives = tp + fn, tn + fp
    return _divided(tp * negatives - fp * positives, positives * negatives)


def match_mcc(counts: MatchCounts) -> Any:
    """Matthews correlation coefficient: (tp·tn − fp·fn) / √((tp+fn)(tn+fp)(tp+fp)(tn+fn)).

    B. W. Matthews, "Comparison of the predicted and observed secondary structure of T4 phage lysozyme" (1975). 0 where
    a factor of the denominator is 0, as when everything or nothing matches.

    Parameters
    ----------
    counts : MatchCounts
        Arrays or tensors of any one shape.

    Returns
    -------
    array or tensor
        Of that shape, from -1 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> match_mcc(MatchCounts(*np.array([[2.0, 0.0], [0.0, 0.0], [2.0, 2.0], [0.0, 2.0]])))
    array([1., 0.])
    """
    # Products of four counts overflow 64-bit integers from about 50,000 pairs on; float64 does not.
    tp, fp, tn, fn = (_as_float64(count) for count in counts)
    squared = ((tp + fn) * (tn + fp)) * ((tp + fp) * (tn + fn))
    nothing = squared == 0
    root = (squared + nothing) ** 0.5
    return (tp * tn - fp * fn) / root


class match_f_beta:  # noqa: N801 - called like the functions beside it
    """F-score that weighs recall β times as much as precision: (1+β²)tp / ((1+β²)tp + β²·fn + fp).

    C. J. van Rijsbergen, *Information Retrieval* (1979), chapter 7.

    Parameters
    ----------
    beta : float
        Positive. Read as the simplest fraction that is this float: 0.1 means one tenth.

    Examples
    --------
    >>> import numpy as np
    >>> scores, labels = np.array([0.875, 0.75, 0.5, 0.125]), np.array([True, False, True, False])
    >>> from nearwise.evaluation import select_threshold
    >>> select_threshold(scores, labels, match_f_beta(0.5), is_inverted=True)
    ThresholdSelection(threshold=0.8125, value=0.8333333333333334)
    """

    def __init__(self, beta: float) -> None:
        if isinstance(beta, bool) or not isinstance(beta, Real):
            raise TypeError(f"beta must be a number, got {beta!r}")
        if not 0 < float(beta) < math.inf:
            raise ValueError(f"beta must be a positive finite number, got {beta}")
        self.beta: float = float(beta)
        squared = _simplest_fraction(self.beta) ** 2
        self._terms: tuple[int, int] = (squared.numerator, squared.denominator)

    def __repr__(self) -> str:
        return f"match_f_beta({self.beta:g})"

    def __call__(self, counts: MatchCounts) -> Any:
        """Return the score of each candidate; 0 where nothing matches."""
        tp, fp, _, fn = counts
        numerator, denominator = (float(term) for term in self._terms)
        above = (numerator + denominator) * tp
        return _divided(above, numerator * (tp + fn) + denominator * (tp + fp))

    @property
    def core(self) -> CoreMetric | None:
        """How the core knows it; None when β² is too long a fraction for exact comparison."""
        return CoreMetric("f_beta", self._terms) if sum(self._terms) < _LARGEST_TERM else None


class recall_at_false_match_rate:  # noqa: N801
    """Recall, tp / (tp + fn), of the candidates whose false match rate, fp / (fp + tn), is at most `rate`.

    Rejecting everything has a false match rate of 0 and is always allowed, so a threshold is always found; a recall of
    0 says that no match can be accepted at this rate.

    Parameters
    ----------
    rate : float
        From 0 to 1. Rates are compared as float64 numbers, so that 3 of 10 is at most 0.3.

    Examples
    --------
    >>> import numpy as np
    >>> from nearwise.evaluation import select_threshold
    >>> scores, labels = np.array([0.875, 0.75, 0.5, 0.125]), np.array([True, False, True, False])
    >>> select_threshold(scores, labels, recall_at_false_match_rate(0.0), is_inverted=True)
    ThresholdSelection(threshold=0.8125, value=0.5)
    """

    def __init__(self, rate: float) -> None:
        self.rate = _checked_rate("rate", rate)

    def __repr__(self) -> str:
        return f"recall_at_false_match_rate({self.rate:g})"

    def __call__(self, counts: MatchCounts) -> Any:
        """Return the recall of each candidate, NaN where the rate is exceeded."""
        tp, fp, tn, fn = counts
        return _where(_divided(fp, fp + tn) <= self.rate, _divided(tp, tp + fn))


class precision_floor:  # noqa: N801
    """Recall, tp / (tp + fn), of the candidates whose precision, tp / (tp + fp), is at least `precision`.

    Rejecting everything has no precision and is not chosen. When no threshold reaches the precision, choosing one is a
    `ValueError` that says how high it gets.

    Parameters
    ----------
    precision : float
        From 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> from nearwise.evaluation import select_threshold
    >>> scores, labels = np.array([0.875, 0.75, 0.5, 0.125]), np.array([True, False, True, False])
    >>> select_threshold(scores, labels, precision_floor(0.6), is_inverted=True)
    ThresholdSelection(threshold=0.3125, value=1.0)
    """

    def __init__(self, precision: float) -> None:
        self.precision = _checked_rate("precision", precision)

    def __repr__(self) -> str:
        return f"precision_floor({self.precision:g})"

    def __call__(self, counts: MatchCounts) -> Any:
        """Return the recall of each candidate, NaN where the precision is not reached."""
        tp, fp, _, fn = counts
        return _where(_divided(tp, tp + fp) >= self.precision, _divided(tp, tp + fn))

    def unattainable(self, counts: MatchCounts) -> str:
        """Return why no candidate qualifies."""
        tp, fp, _, _ = (np.asarray(count) for count in counts)
        highest = float(np.max(tp[1:] / (tp[1:] + fp[1:])))
        return f"no threshold has a precision of at least {self.precision:g}; the highest is {highest:.6g}"


_CORE: dict[Callable[[MatchCounts], Any], CoreMetric] = {
    match_accuracy: CoreMetric("accuracy"),
    match_balanced_accuracy: CoreMetric("balanced_accuracy"),
    match_f1: CoreMetric("f_beta"),
    match_youden: CoreMetric("youden"),
    match_mcc: CoreMetric("mcc"),
}


def core_metric(metric: Any) -> CoreMetric | None:
    """Return how the core knows a metric, or None for one that only Python can compute.

    Examples
    --------
    >>> core_metric(match_f_beta(2)).beta_squared
    (4, 1)
    >>> core_metric(lambda counts: counts.true_positives) is None
    True
    """
    if type(metric) is match_f_beta:
        return metric.core
    try:
        return _CORE.get(metric)
    except TypeError:
        # A callable object without a hash is none of ours.
        return None


def _simplest_fraction(number: float) -> Fraction:
    exact = Fraction(number)
    for digits in range(1, 17):
        simple = exact.limit_denominator(10**digits)
        if float(simple) == number:
            return simple
    return exact


def _checked_rate(argument: str, rate: float) -> float:
    if isinstance(rate, bool) or not isinstance(rate, Real):
        raise TypeError(f"{argument} must be a number, got {rate!r}")
    if not 0 <= float(rate) <= 1:
        raise ValueError(f"{argument} must be between 0 and 1, got {rate}")
    return float(rate)


def _is_foreign(values: Any) -> bool:
    """Whether values bring their own arithmetic, as tensors do."""
    return hasattr(values, "detach")


def _as_float64(values: Any) -> Any:
    return values.double() if _is_foreign(values) else np.asarray(values, dtype=np.float64)


def _divided(above: Any, below: Any) -> Any:
    """Return the quotient, NaN for 0/0 without a warning."""
    if _is_foreign(below):
        return above / below
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.true_divide(above, below)


def _where(condition: Any, values: Any) -> Any:
    """Return the values where the condition holds, NaN elsewhere."""
    if _is_foreign(values):
        return values.masked_fill(~condition, math.nan)
    return np.where(condition, values, math.nan)
