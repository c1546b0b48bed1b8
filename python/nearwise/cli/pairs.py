"""Values of pairs of one label and of different labels: all of them, or a random sample of stated size."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearwise.distances import Distance

Array = npt.NDArray[Any]
# Up to here every pair is computed; beyond it, at most SAMPLE of either kind. At 512 features that is about a second.
EVERY_PAIR = 4_000_000
SAMPLE = 200_000
BINS = 60
_SEED = 0
_BLOCK = 1 << 22  # numbers gathered at once


class Kind(NamedTuple):
    """The pairs of one label, or those of different labels.

    Attributes
    ----------
    pairs
        How many there are.
    values
        Distances or similarities of all of them, or of a sample drawn with replacement.
    """

    pairs: int
    values: Array

    @property
    def is_exact(self) -> bool:
        """Whether every pair was computed."""
        return self.pairs == len(self.values)


class Pairs(NamedTuple):
    """Every pair of a query and a reference is of one of these."""

    same: Kind
    different: Kind


def sampled_pairs(
    rows: tuple[Array, Array],
    classes: tuple[Array, Array],
    distance: Distance,
    *,
    self_query: bool,
    report: Callable[[int, int], object],
) -> Pairs:
    """Compute the values of pairs, as many as is light work.

    Parameters
    ----------
    rows
        Queries and references.
    classes
        Class numbers of both.
    distance
        What to compute.
    self_query
        Query i is reference i, and makes no pair with itself.
    report
        Called with (work done, work in all).
    """
    if len(rows[0]) * len(rows[1]) <= EVERY_PAIR:
        return _every_pair(rows, classes, distance, self_query, report)
    order = _Order(*classes, self_query=self_query)
    totals = order.same_pairs, order.different_pairs
    chosen = [_chosen(total) for total in totals]
    work, done = sum(map(len, chosen)), 0
    kinds = []
    for total, numbers, locate in zip(totals, chosen, (order.same, order.different), strict=True):
        values = np.empty(len(numbers))
        for some in _blocks(len(numbers), rows[0].shape[1]):
            query, reference = locate(numbers[some])
            values[some] = distance.pairwise(rows[0][query], rows[1][reference])
            done += len(query)
            report(done, work)
        kinds.append(Kind(total, values))
    return Pairs(*kinds)


def _every_pair(
    rows: tuple[Array, Array],
    classes: tuple[Array, Array],
    distance: Distance,
    self_query: bool,
    report: Callable[[int, int], object],
) -> Pairs:
    found: tuple[list[Array], list[Array]] = ([], [])
    for some in _blocks(len(rows[0]), len(rows[1])):
        values = np.asarray(distance(rows[0][some], rows[1]), np.float64)
        is_same = classes[0][some, None] == classes[1]
        is_other = ~is_same
        if self_query:
            own = np.arange(some.start, some.start + len(values))
            is_same[own - some.start, own] = False
        for kind, chosen in zip(found, (is_same, is_other), strict=True):
            kind.append(values[chosen])
        report(some.start + len(values), len(rows[0]))
    return Pairs(*(Kind(len(values), values) for values in map(_joined, found)))


def _joined(parts: list[Array]) -> Array:
    return np.concatenate(parts) if parts else np.empty(0)


def histogram(pairs: Pairs) -> dict[str, Any]:
    """Count the values of both kinds in bins that they share; what is not finite is counted apart."""
    finite = [kind.values[np.isfinite(kind.values)] for kind in pairs]
    both = np.concatenate(finite)
    edges = np.histogram_bin_edges(both, bins=BINS) if len(both) else np.array([0.0, 1.0])
    found: dict[str, Any] = {"edges": edges.tolist()}
    for name, kind, values in zip(Pairs._fields, pairs, finite, strict=True):
        found[name] = {
            "pairs": kind.pairs,
            "counted": len(kind.values),
            "exact": kind.is_exact,
            "not_finite": len(kind.values) - len(values),
            "median": float(np.median(values)) if len(values) else None,
            "counts": np.histogram(values, edges)[0].tolist(),
        }
    return found


class _Order:
    """Numbers every pair of a kind, so that pairs can be drawn by their number.

    References are sorted by class, which puts those of one class side by side: the pairs of a query with its own class
    are one stretch of that order, those with other classes are what lies before and after it.
    """

    def __init__(self, query: Array, reference: Array, *, self_query: bool) -> None:
        self._query = query
        self._self_query = self_query
        self._sorted = np.argsort(reference, kind="stable")
        ordered = reference[self._sorted]
        self._start = np.searchsorted(ordered, query, "left")
        self._size = np.searchsorted(ordered, query, "right") - self._start
        self._same_ends = np.cumsum(self._size - self_query)
        self._different_ends = np.cumsum(len(reference) - self._size)
        if self_query:
            self._place = np.empty(len(reference), np.int64)
            self._place[self._sorted] = np.arange(len(reference))
        self.same_pairs = int(self._same_ends[-1]) if len(query) else 0
        self.different_pairs = int(self._different_ends[-1]) if len(query) else 0

    def same(self, numbers: Array) -> tuple[Array, Array]:
        """Return the queries and references of the pairs of one label with these numbers."""
        query, place = self._split(numbers, self._same_ends, self._size - self._self_query)
        place = place + self._start[query]
        if self._self_query:
            place = place + (place >= self._place[query])
        return query, self._sorted[place]

    def different(self, numbers: Array) -> tuple[Array, Array]:
        """Return the queries and references of the pairs of different labels with these numbers."""
        query, place = self._split(numbers, self._different_ends, len(self._sorted) - self._size)
        place = np.where(place < self._start[query], place, place + self._size[query])
        return query, self._sorted[place]

    @staticmethod
    def _split(numbers: Array, ends: Array, counts: Array) -> tuple[Array, Array]:
        query = np.searchsorted(ends, numbers, "right")
        return query, numbers - (ends[query] - counts[query])


def _chosen(total: int) -> Array:
    if total <= SAMPLE:
        return np.arange(total)
    return np.sort(np.random.default_rng(_SEED).integers(total, size=SAMPLE))


def _blocks(count: int, features: int) -> Iterator[slice]:
    step = max(1, _BLOCK // max(1, features))
    for start in range(0, count, step):
        yield slice(start, start + step)
