"""Queries with their nearest neighbours, right and wrong ones, and which labels are taken for which."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import nearwise
from nearwise.cli.labels import plain
from nearwise.distances import resolve

Array = npt.NDArray[Any]
SHOWN = 10
CONFUSIONS = 10
NEIGHBORS = 5
# So many queries are looked at; of 60,000 x 512 that is a quarter of what the metrics take.
LOOKED_AT = 20_000


def find_examples(
    rows: tuple[Array, Array],
    labels: tuple[Array, Array],
    is_right: Array,
    *,
    distance: str,
    self_query: bool,
    threads: int | None = None,
    report: Callable[[int, int], object] | None = None,
) -> dict[str, Any]:
    """Find the neighbours of queries, and choose those to show.

    Parameters
    ----------
    rows, labels
        Of the queries and of the references.
    is_right
        For each query, 1 if the nearest reference has its label, 0 if not, NaN if it is left out.
    distance
        By name.
    self_query
        Query i is reference i, and does not find itself.
    threads
        None for all.
    report
        Called with (work done, work in all).

    Returns
    -------
    dict
        `wrong` shows the queries with the nearest wrong neighbours, the errors that a threshold would find last;
        `right` some, evenly spaced; `confusions` the most frequent labels of queries and of their wrong neighbours.
    """
    looked_at = _spaced(np.flatnonzero(~np.isnan(is_right)), LOOKED_AT)
    k = min(NEIGHBORS, len(rows[1]) - self_query)
    values, indices = _neighbors(rows, looked_at, k, distance, self_query, threads, report)
    wrong, right = (np.flatnonzero(is_right[looked_at] == outcome) for outcome in (0, 1))
    sign = -1 if resolve(distance).is_inverted else 1
    worst = wrong[np.argsort(sign * values[wrong, 0], kind="stable")[:SHOWN]]

    def described(places: Array) -> list[dict[str, Any]]:
        return [_described(looked_at[place], values[place], indices[place], labels) for place in places]

    taken = Counter(
        (plain(labels[0][looked_at[place]]), plain(labels[1][indices[place, 0]])) for place in wrong.tolist()
    )
    return {
        "neighbors": k,
        "looked_at": len(looked_at),
        "wrong": {"queries": int(np.sum(is_right == 0)), "looked_at": len(wrong), "shown": described(worst)},
        "right": {
            "queries": int(np.sum(is_right == 1)),
            "looked_at": len(right),
            "shown": described(_spaced(right, SHOWN)),
        },
        "confusions": [
            {"label": label, "nearest": nearest, "queries": count}
            for (label, nearest), count in taken.most_common(CONFUSIONS)
        ],
    }


def _spaced(queries: Array, count: int) -> Array:
    """Return at most so many of them, evenly spaced."""
    some: Array = queries[np.linspace(0, len(queries) - 1, min(count, len(queries))).round().astype(int)]
    return some


def _neighbors(
    rows: tuple[Array, Array],
    queries: Array,
    k: int,
    distance: str,
    self_query: bool,
    threads: int | None,
    report: Callable[[int, int], object] | None,
) -> tuple[Array, Array]:
    """Return values and indices of the k nearest of some queries; none of them finds itself."""
    asked: Array = rows[0] if len(queries) == len(rows[0]) else rows[0][queries]
    found = nearwise.knn(
        asked, rows[1], k + self_query, distance=distance, threads=threads, progress=report if report else False
    )
    if not self_query:
        return np.asarray(found.distances), np.asarray(found.indices)
    keep = found.indices != queries[:, None]
    # Where the row itself is not among them, the last has to go.
    keep[keep.all(axis=1), -1] = False
    values, indices = (np.asarray(each)[keep].reshape(-1, k) for each in found)
    return values, indices


def _described(query: int, values: Array, indices: Array, labels: tuple[Array, Array]) -> dict[str, Any]:
    own = plain(labels[0][query])
    theirs = [plain(labels[1][index]) for index in indices]
    return {
        "query": int(query),
        "label": own,
        "neighbors": [
            {"index": int(index), "label": label, "value": float(value), "same": label == own}
            for index, label, value in zip(indices, theirs, values, strict=True)
        ],
    }
