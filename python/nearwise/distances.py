"""Distances and similarities, by documented float64 formulas rounded once to the output type.

They take NumPy arrays, torch tensors or objects with ``__dlpack__`` and return the same kind: float64 for float64
input, float32 for float32, float16 and bfloat16. Sums run in float64 in a fixed order, so a value depends on its two
rows alone. `resolve` turns whatever a search accepts as its distance into one of these.

Examples
--------
>>> import numpy as np
>>> from nearwise.distances import LpDistance
>>> query = np.array([[3, 4], [0, 2]], dtype=np.float32)
>>> reference = np.array([[0, 0], [3, 0], [6, 8]], dtype=np.float32)
>>> LpDistance(normalize_embeddings=False)(query, reference)
array([[5.       , 4.       , 5.       ],
       [2.       , 3.6055512, 8.485281 ]], dtype=float32)
"""

from __future__ import annotations

import sys
from dataclasses import KW_ONLY, InitVar, dataclass
from typing import Any, ClassVar

from nearwise._arguments import check_flag
from nearwise._distance import BuiltInDistance, Distance, ForeignDistance, check_not_inverted, check_numbers
from nearwise._formula import Formula

__all__ = [
    "CosineSimilarity",
    "Distance",
    "DotProductSimilarity",
    "ForeignDistance",
    "LpDistance",
    "SNRDistance",
    "resolve",
]


@dataclass(frozen=True)
class LpDistance(BuiltInDistance):
    """The p-norm of the difference of two rows, to a power.

    Sums are those of the formula, without scaling: with ``p`` other than 1, 2 and infinity, ``abs(difference) ** p``
    overflows to infinity or underflows to 0 in float64 where the norm itself would not. With ``p=100``, differences
    above about 1.2e3 give infinity, and those below about 8e-4 lose digits or give 0. With ``p=2`` the squares of
    differences above about 1e154 give infinity here, and a search refuses rows of float64 with a norm of 1e153 or more.

    Parameters
    ----------
    normalize_embeddings : bool, default True
        Divide each row by its p-norm (at least 1e-12) first.
    p : float, default 2
        Which norm, for the distance and for normalising; positive, ``float("inf")`` included.
    power : float, default 1
        Exponent of every value. With ``p=2`` and ``power=2`` no square root is taken.
    is_inverted : bool, default False
        Must be False.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])
    >>> LpDistance(normalize_embeddings=False, power=2).pairwise(x, y)
    array([25.])
    """

    _: KW_ONLY
    normalize_embeddings: bool = True
    p: float = 2
    power: float = 1
    is_inverted: InitVar[bool] = False

    def __post_init__(self, is_inverted: bool) -> None:
        check_not_inverted("LpDistance", is_inverted)
        check_flag("normalize_embeddings", self.normalize_embeddings)
        check_numbers(self.p, self.power)

    def _formula(self) -> Formula:
        p = float(self.p)
        return Formula("lp", p=p, power=float(self.power), normalize=p if self.normalize_embeddings else None)


@dataclass(frozen=True)
class SNRDistance(BuiltInDistance):
    """Variance of the difference over variance of the query row, along the features; not symmetric.

    A constant query row divides by zero: NaN against a row that differs from it by a constant, infinity else.

    Parameters
    ----------
    normalize_embeddings : bool, default True
        Divide each row by its p-norm (at least 1e-12) first.
    p : float, default 2
        Which norm to normalise by.
    power : float, default 1
        Exponent of every value.
    is_inverted : bool, default False
        Must be False.

    Examples
    --------
    >>> import numpy as np
    >>> x, y = np.array([[3.0, 4.0]]), np.array([[3.0, 0.0]])
    >>> SNRDistance(normalize_embeddings=False).pairwise(x, y)
    array([16.])
    """

    _: KW_ONLY
    normalize_embeddings: bool = True
    p: float = 2
    power: float = 1
    is_inverted: InitVar[bool] = False

    def __post_init__(self, is_inverted: bool) -> None:
        check_not_inverted("SNRDistance", is_inverted)
        check_flag("normalize_embeddings", self.normalize_embeddings)
        check_numbers(self.p, self.power)

    def _formula(self) -> Formula:
        normalize = float(self.p) if self.normalize_embeddings else None
        return Formula("snr", power=float(self.power), normalize=normalize)


@dataclass(frozen=True)
class DotProductSimilarity(BuiltInDistance):
    """The inner product of two rows, to a power.

    Parameters
    ----------
    normalize_embeddings : bool, default False
        Divide each row by its p-norm (at least 1e-12) first. pytorch-metric-learning 2.9 has True here.
    p : float, default 2
        Which norm to normalise by.
    power : float, default 1
        Exponent of every value.

    Examples
    --------
    >>> import numpy as np
    >>> DotProductSimilarity()(np.array([[3.0, 4.0]]), np.array([[3.0, 0.0], [6.0, 8.0]]))
    array([[ 9., 50.]])
    """

    _: KW_ONLY
    normalize_embeddings: bool = False
    p: float = 2
    power: float = 1
    is_inverted: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_flag("normalize_embeddings", self.normalize_embeddings)
        check_numbers(self.p, self.power)

    def _formula(self) -> Formula:
        normalize = float(self.p) if self.normalize_embeddings else None
        return Formula("dot", power=float(self.power), normalize=normalize)


@dataclass(frozen=True)
class CosineSimilarity(BuiltInDistance):
    """The inner product of two rows over the product of their norms (each at least 1e-12), to a power.

    Parameters
    ----------
    power : float, default 1
        Exponent of every value.

    Examples
    --------
    >>> import numpy as np
    >>> CosineSimilarity()(np.array([[3.0, 4.0]]), np.array([[3.0, 0.0], [6.0, 8.0], [0.0, 0.0]]))
    array([[0.6, 1. , 0. ]])
    """

    _: KW_ONLY
    power: float = 1
    is_inverted: ClassVar[bool] = True  # type: ignore[misc]

    def __post_init__(self) -> None:
        check_numbers(2, self.power)

    def _formula(self) -> Formula:
        return Formula("cosine", power=float(self.power))


NAMED: dict[str, Distance] = {
    "euclidean": LpDistance(normalize_embeddings=False),
    "sqeuclidean": LpDistance(normalize_embeddings=False, power=2),
    "cosine": CosineSimilarity(),
    "dot": DotProductSimilarity(),
    "manhattan": LpDistance(normalize_embeddings=False, p=1),
    "chebyshev": LpDistance(normalize_embeddings=False, p=float("inf")),
    "snr": SNRDistance(normalize_embeddings=False),
}


def resolve(distance: Any) -> Distance:
    """Return what is accepted as a distance as a `Distance`.

    Parameters
    ----------
    distance : str, Distance or callable
        One of the names ``"euclidean"``, ``"sqeuclidean"``, ``"cosine"``, ``"dot"``, ``"manhattan"``,
        ``"chebyshev"``, ``"snr"`` (normalised: cosine alone); a distance of this module; one of
        pytorch-metric-learning 2.9's four distances, which gets our formula (its subclasses do not); or any callable
        ``distance(query, reference)`` with an ``is_inverted`` attribute.

    Raises
    ------
    ValueError
        An unknown name.
    TypeError
        Anything else.

    Examples
    --------
    >>> resolve("manhattan")
    LpDistance(normalize_embeddings=False, p=1, power=1)
    """
    if isinstance(distance, str):
        if distance not in NAMED:
            raise ValueError(f"distance must be one of {', '.join(NAMED)}, got {distance!r}")
        return NAMED[distance]
    if isinstance(distance, ForeignDistance):
        return distance
    # A subclass that says nothing of a formula is a user's.
    if isinstance(distance, BuiltInDistance) and distance.formula is not None:
        return distance
    theirs = _from_pytorch_metric_learning(distance)
    if theirs is not None:
        return theirs
    if isinstance(distance, type) or not callable(distance) or not hasattr(distance, "is_inverted"):
        expected = "a name, or a callable (query, reference) with an is_inverted attribute"
        raise TypeError(f"distance must be {expected}, got {distance!r}")
    check_flag("is_inverted of a distance", distance.is_inverted)
    return ForeignDistance(distance)


def of_formula(formula: Formula) -> Distance:
    """Return the distance that has this formula."""
    normalize = formula.normalize is not None
    p = 2.0 if formula.normalize is None else formula.normalize
    distance: BuiltInDistance
    match formula.kind:
        case "lp":
            distance = LpDistance(normalize_embeddings=normalize, p=formula.p, power=formula.power)
        case "dot":
            distance = DotProductSimilarity(normalize_embeddings=normalize, p=p, power=formula.power)
        case "snr":
            distance = SNRDistance(normalize_embeddings=normalize, p=p, power=formula.power)
        case _:
            distance = CosineSimilarity(power=formula.power)
    if distance.formula != formula:
        raise ValueError(f"formula must be that of a built-in distance, got {formula}")
    return distance


def _from_pytorch_metric_learning(distance: Any) -> Distance | None:
    """Return our counterpart of one of that library's own distances; never imports it."""
    kind = type(distance)
    package, _, module = kind.__module__.rpartition(".")
    if package != "pytorch_metric_learning.distances" or getattr(sys.modules[kind.__module__], kind.__name__) != kind:
        return None
    try:
        p, power, normalize = distance.p, distance.power, bool(distance.normalize_embeddings)
        counterpart: Distance
        match module:
            case "lp_distance":
                counterpart = LpDistance(normalize_embeddings=normalize, p=p, power=power)
            case "snr_distance":
                counterpart = SNRDistance(normalize_embeddings=normalize, p=p, power=power)
            case "dot_product_similarity":
                counterpart = DotProductSimilarity(normalize_embeddings=normalize, p=p, power=power)
            case "cosine_similarity" if normalize and p == 2:
                counterpart = CosineSimilarity(power=power)
            case "cosine_similarity":
                counterpart = DotProductSimilarity(normalize_embeddings=normalize, p=p, power=power)
            case _:
                return None
    except (TypeError, ValueError):
        return None
    # An object whose meaning was changed after construction is its own callable.
    changed = "compute_mat" in vars(distance) or "forward" in vars(distance)
    return None if changed or distance.is_inverted != counterpart.is_inverted else counterpart
