"""Exact nearest neighbours: `knn` and its result."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, SupportsIndex, overload

from nearwise import _arguments, _arrays, _progress, backends, distances

if TYPE_CHECKING:
    from collections.abc import Callable

_logger = logging.getLogger(__name__)


class Neighbors(NamedTuple):
    """The nearest reference rows of every query row, nearest first.

    Attributes
    ----------
    distances : array or tensor of shape (queries, k)
        float64 for float64 input, float32 otherwise.
    indices : array or tensor of shape (queries, k)
        int64; rows of the reference.
    """

    distances: Any
    indices: Any


class SearchStats(NamedTuple):
    """How a search went; no part of its result.

    Attributes
    ----------
    method : str
        ``"f32"`` or ``"i8"``: filtered by estimates of that kind; ``"direct"``: every value computed; else the name
        of the backend.
    level : str
        The instruction set; empty for other backends than the core.
    refined : int
        Exact values that were computed for pairs that the filter let pass.
    per_query : float
        The same for each query, on average.
    """

    method: str
    level: str
    refined: int
    per_query: float


class MeasuredNeighbors(NamedTuple):
    """`Neighbors` and how they were found: what `knn` returns with ``stats=True``.

    Attributes
    ----------
    distances, indices
        See `Neighbors`.
    stats : SearchStats
        How the search went.
    """

    distances: Any
    indices: Any
    stats: SearchStats


@overload
def knn(
    query: Any,
    reference: Any,
    k: SupportsIndex,
    *,
    distance: Any = ...,
    ref_includes_query: bool = ...,
    batch_size: SupportsIndex | None = ...,
    threads: SupportsIndex | None = ...,
    nan_policy: Literal["raise", "last"] = ...,
    backend: str = ...,
    method: str | None = ...,
    stats: Literal[False] = ...,
    progress: bool | Callable[[int, int], object] = ...,
) -> Neighbors: ...


@overload
def knn(
    query: Any,
    reference: Any,
    k: SupportsIndex,
    *,
    distance: Any = ...,
    ref_includes_query: bool = ...,
    batch_size: SupportsIndex | None = ...,
    threads: SupportsIndex | None = ...,
    nan_policy: Literal["raise", "last"] = ...,
    backend: str = ...,
    method: str | None = ...,
    stats: Literal[True],
    progress: bool | Callable[[int, int], object] = ...,
) -> MeasuredNeighbors: ...


def knn(
    query: Any,
    reference: Any,
    k: SupportsIndex,
    *,
    distance: Any = "euclidean",
    ref_includes_query: bool = False,
    batch_size: SupportsIndex | None = None,
    threads: SupportsIndex | None = None,
    nan_policy: Literal["raise", "last"] = "raise",
    backend: str = "auto",
    method: str | None = None,
    stats: bool = False,
    progress: bool | Callable[[int, int], object] = False,
) -> Neighbors | MeasuredNeighbors:
    """Return the k nearest rows of `reference` for every row of `query`.

    The values are the distance's documented float64 formula rounded once to the output type; rows are ranked by
    (that value, index). Neither threads nor batches nor the instruction set change a bit of the result.

    Parameters
    ----------
    query : array or tensor of shape (queries, features)
        float16, bfloat16, float32 or float64; a NumPy array, a torch tensor, or an object with ``__dlpack__``. Any
        strides; read as stored.
    reference : array or tensor of shape (references, features)
        Of the same kind, device and dtype. May be memory-mapped; no copy of it is made.
    k : int
        Number of neighbours, from 1 to the number of references (less one with `ref_includes_query`).
    distance : str, distance object or callable, default "euclidean"
        See `nearwise.distances.resolve`.
    ref_includes_query : bool, default False
        The query is the first rows of the reference, and no row is a neighbour of itself: row i never returns
        index i, however many equal rows there are.
    batch_size : int, optional
        Query rows per block. A user's own distance is called once for each block, or once in all without it.
    threads : int, optional
        Worker threads, 4096 at most; by default what the environment variable ``NEARWISE_NUM_THREADS`` says, or all
        processors. Those of ``backend="torch"``, and of a user's own distance, are not ours to set.
    nan_policy : {"raise", "last"}, default "raise"
        Refuse NaN in the input, or rank values that are NaN after every number.
    backend : {"auto", "rust", "torch"}, default "auto"
        Where to compute; ``"auto"`` is the compiled core for the CPU and torch for every other device.
    method : {"auto", "f32", "i8", "direct"}, optional
        How the core finds the neighbours: filtered by float32 or by 8-bit estimates, or every value computed; by
        default what the environment variable ``NEARWISE_METHOD`` says, or the fastest for the shape and, tried on a
        few rows, the data. The result is the same. 8-bit estimates exist for L2, dot product, cosine and SNR, also
        normalised; where they do not, float32 takes their place, and where no filter exists, ``"direct"`` does. Nothing
        to ``backend="torch"`` and to a user's own distance.
    stats : bool, default False
        Also return how the search went.
    progress : bool or callable, default False
        True shows a progress bar (needs tqdm); a callable is called with (work done, work in all), last with all.

    Returns
    -------
    Neighbors
        ``(distances, indices)``, each (queries, k), of the query's kind and on its device; with `stats`,
        ``(distances, indices, stats)``.

    Raises
    ------
    TypeError
        An argument of another type or dtype, or two kinds of input.
    ValueError
        A wrong value of an argument, NaN in the input (see `nan_policy`), no reference rows, or sides that do not
        fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> import nearwise
    >>> query = np.array([[0.0, 0.0], [3.0, 0.0]])
    >>> reference = np.array([[0.0, 1.0], [3.0, 0.5], [9.0, 9.0]])
    >>> nearwise.knn(query, reference, 2, distance="sqeuclidean")
    Neighbors(distances=array([[ 1.  ,  9.25],
           [ 0.25, 10.  ]]), indices=array([[0, 1],
           [1, 0]]))
    """
    resolved = distances.resolve(distance)
    return search_sides(
        _arrays.pair(query, reference, any_dtype=resolved.formula is None),
        k,
        resolved,
        ref_includes_query=ref_includes_query,
        batch_size=batch_size,
        threads=threads,
        nan_policy=nan_policy,
        backend=backend,
        method=method,
        stats=stats,
        progress=progress,
    )


def search_sides(
    sides: _arrays.Pair,
    k: SupportsIndex,
    resolved: distances.Distance,
    *,
    ref_includes_query: bool,
    batch_size: SupportsIndex | None,
    threads: SupportsIndex | None,
    nan_policy: Literal["raise", "last"],
    backend: str,
    method: str | None,
    stats: bool,
    progress: bool | Callable[[int, int], object],
    prepared: Any = None,
) -> Neighbors | MeasuredNeighbors:
    """Search as `knn` says, with what the core has `prepared` of the reference."""
    formula = resolved.formula
    ref_includes_query = _arguments.checked_flag("ref_includes_query", ref_includes_query)
    k = _arguments.checked_k(k, len(sides.query), len(sides.reference), ref_includes_query)
    _arguments.check_nan_policy(nan_policy)
    chosen = backends.get(backend, sides.query.device)
    options = backends.Options(
        exclude_self=ref_includes_query,
        nan_last=nan_policy == "last",
        threads=_arguments.checked_threads(threads),
        batch=_arguments.given_batch(batch_size) or 0,
        method=_arguments.checked_method(method),
        prepared=prepared,
    )
    _logger.info(
        "searching the %d nearest of %d rows for %d queries of %d features",
        k,
        len(sides.reference),
        len(sides.query),
        sides.query.features,
    )
    # What holds for another backend, which does not report; a user's distance computes every value.
    name = "direct" if formula is None else str(getattr(chosen, "__name__", backend)).rpartition(".")[2]
    measured = [(name, "", 0)]
    with _progress.reporter(progress) as report:
        work = len(sides.query) * len(sides.reference)
        completed = None if report is None else _progress.Completed(report, work)
        options = replace(options, progress=completed, report=lambda *values: measured.append(values))
        if formula is None:
            from nearwise import _foreign

            result = Neighbors(*_foreign.search(sides, k, resolved, options))
        else:
            found, indices = chosen.search(sides.query, sides.reference, k, formula, options)
            result = Neighbors(sides.query.give_back(found), sides.query.give_back(indices))
        if completed is not None:
            completed.end()
    if not stats:
        return result
    name, level, refined = measured[-1]
    return MeasuredNeighbors(*result, SearchStats(name, level, refined, refined / max(len(sides.query), 1)))
