"""`KNNIndex`: a reference prepared once for many searches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np

from nearwise import _arguments, _arrays, _rows_file, backends, distances, neighbors

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from nearwise._formula import Formula


class KNNIndex:
    """Exact nearest neighbours among rows that are prepared once, for many searches.

    An index holds the rows and 8-bit codes of them, a quarter of the bytes of float32. A search packs only its queries
    and reads the codes; rows are read for the few pairs that the codes leave open. The result has the same bits as
    `nearwise.knn`. Where the distance has no 8-bit filter, or the data are such that it would let too much pass, a
    search is that of `nearwise.knn` on the kept rows.

    Parameters
    ----------
    reference : array or tensor of shape (references, features)
        float16, bfloat16, float32 or float64. The index keeps a copy on the CPU; of a ``numpy.memmap`` it makes none,
        and the file must then stay as it is.
    distance : str or distance object, default "euclidean"
        See `nearwise.distances.resolve`; a user's own distance is not accepted.
    nan_policy : {"raise", "last"}, default "raise"
        Refuse NaN in the input, or rank values that are NaN after every number.
    threads : int, optional
        Worker threads for preparing and for searches; see `nearwise.knn`.

    Raises
    ------
    TypeError, ValueError
        As `nearwise.knn`.

    Notes
    -----
    Searches and `add` may run in several threads: an index changes from one state to the next in one step. Copies,
    pickles and forked processes are independent of the original; the codes are not pickled but made again.

    Examples
    --------
    >>> import numpy as np
    >>> import nearwise
    >>> index = nearwise.KNNIndex(np.array([[0.0, 1.0], [3.0, 0.5], [9.0, 9.0]]), distance="sqeuclidean")
    >>> index.search(np.array([[0.0, 0.0], [3.0, 0.0]]), 1).indices.tolist()
    [[0], [1]]
    >>> index.add(np.array([[0.0, 0.5]]))
    >>> len(index), index.search(np.array([[0.0, 0.0]]), 2).indices.tolist()
    (4, [[3, 0]])
    """

    def __init__(
        self,
        reference: Any,
        *,
        distance: Any = "euclidean",
        nan_policy: Literal["raise", "last"] = "raise",
        threads: SupportsIndex | None = None,
    ) -> None:
        side = _arrays.rows(reference, "reference")
        is_mapped = isinstance(reference, np.memmap)
        rows = _arrays.Stored(side.numpy(), side.dtype) if is_mapped else _arrays.Stored.copy_of(side)
        self._start(rows, distance, nan_policy, threads)

    def _start(self, rows: _arrays.Stored, distance: Any, nan_policy: Any, threads: Any) -> None:
        resolved = distances.resolve(distance)
        if resolved.formula is None:
            raise TypeError(f"distance must be a built-in one, got {distance!r}; CustomKNN takes any")
        _arguments.check_nan_policy(nan_policy)
        self.distance = resolved
        self.nan_policy: Literal["raise", "last"] = nan_policy
        self.threads = _arguments.given_threads(threads)
        self._state = self._prepared(rows)

    @classmethod
    def of_stored(cls, rows: _arrays.Stored, distance: Any, nan_policy: str, threads: int | None) -> KNNIndex:
        """Return an index of rows that nobody changes, without a copy."""
        index = cls.__new__(cls)
        index._start(rows, distance, nan_policy, threads)
        return index

    def _prepared(self, rows: _arrays.Stored) -> tuple[_arrays.Stored, Any]:
        if len(rows.array) == 0:
            raise ValueError("reference must have at least one row, got none")
        options = backends.Options(nan_last=self.nan_policy == "last", threads=_arguments.checked_threads(self.threads))
        return rows, _core_backend().prepare(rows.array, self._formula, options)

    @property
    def _formula(self) -> Formula:
        formula = self.distance.formula
        if formula is None:
            raise AssertionError("an index has a built-in distance")
        return formula

    def __len__(self) -> int:
        return len(self._state[0].array)

    def __repr__(self) -> str:
        rows = self._state[0]
        return f"KNNIndex({len(rows.array)} rows, {rows.form}, distance={self.distance!r})"

    @property
    def nbytes(self) -> int:
        """Bytes of codes that are held besides the rows; 0 where searches are those of `nearwise.knn`."""
        return int(self._state[1].nbytes)

    @overload
    def search(
        self,
        query: Any,
        k: SupportsIndex,
        *,
        ref_includes_query: bool = ...,
        batch_size: SupportsIndex | None = ...,
        threads: SupportsIndex | None = ...,
        method: str | None = ...,
        stats: Literal[False] = ...,
        progress: bool | Callable[[int, int], object] = ...,
    ) -> neighbors.Neighbors: ...

    @overload
    def search(
        self,
        query: Any,
        k: SupportsIndex,
        *,
        ref_includes_query: bool = ...,
        batch_size: SupportsIndex | None = ...,
        threads: SupportsIndex | None = ...,
        method: str | None = ...,
        stats: Literal[True],
        progress: bool | Callable[[int, int], object] = ...,
    ) -> neighbors.MeasuredNeighbors: ...

    def search(
        self,
        query: Any,
        k: SupportsIndex,
        *,
        ref_includes_query: bool = False,
        batch_size: SupportsIndex | None = None,
        threads: SupportsIndex | None = None,
        method: str | None = None,
        stats: bool = False,
        progress: bool | Callable[[int, int], object] = False,
    ) -> neighbors.Neighbors | neighbors.MeasuredNeighbors:
        """Return the k nearest of the index's rows for every row of `query`.

        Parameters
        ----------
        query : array or tensor of shape (queries, features)
            Of the element type of the rows; NumPy, torch or DLPack, whatever the reference was.
        k : int
            Number of neighbours, from 1 to the number of rows (less one with `ref_includes_query`).
        ref_includes_query : bool, default False
            The query is the first rows of the index, and no row is a neighbour of itself.
        batch_size, threads, method, stats, progress
            As in `nearwise.knn`; ``method="f32"`` and ``"direct"`` do without the codes.

        Returns
        -------
        Neighbors
            As `nearwise.knn` of the rows.

        Raises
        ------
        TypeError, ValueError
            As `nearwise.knn`.
        """
        rows, core = self._state
        side = _arrays.rows(query, "query")
        if side.dtype != rows.dtype:
            raise ValueError(f"query must have the dtype of the stored rows, {rows.dtype}, got {side.dtype}")
        reference = _arrays.Rows(rows.array, side.kind, side.device, rows.dtype)
        _arrays.check_fit(side, reference, ("query", "reference"), any_dtype=False)
        return neighbors.search_sides(
            _arrays.Pair(side, reference),
            k,
            self.distance,
            ref_includes_query=ref_includes_query,
            batch_size=batch_size,
            threads=self.threads if threads is None else threads,
            nan_policy=self.nan_policy,
            backend="rust",
            method=method,
            stats=stats,
            progress=progress,
            prepared=core,
        )

    def __call__(
        self, query: Any, k: SupportsIndex, reference: Any = None, ref_includes_query: bool = False
    ) -> neighbors.Neighbors:
        """Search as a ``knn_func``: the index's rows without `reference`, else that reference alone, unprepared."""
        if reference is None:
            return self.search(query, k, ref_includes_query=ref_includes_query)
        return neighbors.knn(
            query,
            reference,
            k,
            distance=self.distance,
            ref_includes_query=ref_includes_query,
            threads=self.threads,
            nan_policy=self.nan_policy,
        )

    def add(self, rows: Any) -> None:
        """Append a copy of `rows` (rows, features); their indices continue, and all rows are prepared anew.

        Raises
        ------
        ValueError
            Another dtype or number of features than the index has, or NaN (see `nan_policy`).
        """
        added = _arrays.Stored.copy_of(_arrays.rows(rows, "rows"))
        stored = self._state[0]
        if added.form != stored.form:
            raise ValueError(f"rows must be like those of the index, {stored.form}, got {added.form}")
        if len(added.array):
            self._state = self._prepared(_arrays.Stored.joined((stored, added)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write rows and distance to a file, under exactly this name; in place of an earlier file once it is whole."""
        _rows_file.write(path, self._state[0], self._formula)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        nan_policy: Literal["raise", "last"] = "raise",
        threads: SupportsIndex | None = None,
    ) -> KNNIndex:
        """Return the index that `save` wrote. Its rows stay in the file, mapped; codes are made anew.

        Raises
        ------
        ValueError
            The file is another's, of a newer version, cut off or damaged, or holds no distance.
        """
        rows, formula = _rows_file.read(path)
        if formula is None:
            raise ValueError("path must be a file with a distance, got one that CustomKNN.save wrote")
        index = cls.__new__(cls)
        index._start(rows, distances.of_formula(formula), nan_policy, threads)
        return index

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_state": (self._state[0], None)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._state = self._prepared(self._state[0])


def _core_backend() -> Any:
    return backends.get("rust")
