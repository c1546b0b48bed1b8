"""`CustomKNN`: exact search by any distance, as the retrieval function of an evaluation or of inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

from nearwise import _arguments, _arrays, _rows_file, backends, distances, index, neighbors

if TYPE_CHECKING:
    import os
    from collections.abc import Callable


class CustomKNN:
    """Exact nearest neighbours by any distance, with the call signature of a ``knn_func``.

    Parameters
    ----------
    distance : distance object, callable or str
        See `nearwise.distances.resolve`. Its ``is_inverted`` decides between largest and smallest.
    batch_size : int, optional
        Query rows per block; a user's own distance is called once for each block, or once in all without it. The
        result is the same.
    nan_policy : {"raise", "last"}, default "raise"
        Refuse NaN in the input, or rank values that are NaN after every number.
    threads : int, optional
        Worker threads; see `nearwise.knn`.
    backend : {"auto", "rust", "torch"}, default "auto"
        Where to compute.

    Notes
    -----
    An instance keeps nothing of a call, so several threads may use one. After `train` or `add` it holds reference rows
    of its own, which a call without ``reference`` searches; it then serves as ``knn_func`` of an ``InferenceModel``
    of pytorch-metric-learning 2.9.

    Examples
    --------
    >>> import numpy as np
    >>> from nearwise.distances import LpDistance
    >>> knn = CustomKNN(LpDistance(normalize_embeddings=False, power=2))
    >>> query = np.array([[0.0, 0.0], [3.0, 0.0]])
    >>> reference = np.array([[0.0, 1.0], [3.0, 0.5], [9.0, 9.0]])
    >>> found, indices = knn(query, 1, reference)
    >>> found.tolist(), indices.tolist()
    ([[1.0], [0.25]], [[0], [1]])
    """

    def __init__(
        self,
        distance: Any,
        batch_size: SupportsIndex | None = None,
        *,
        nan_policy: Literal["raise", "last"] = "raise",
        threads: SupportsIndex | None = None,
        backend: str = "auto",
    ) -> None:
        distances.resolve(distance)
        _arguments.check_nan_policy(nan_policy)
        if backend != "auto":
            backends.get(backend)
        self.distance = distance
        self.batch_size = _arguments.given_batch(batch_size)
        self.nan_policy = nan_policy
        self.threads = _arguments.given_threads(threads)
        self.backend = backend
        self._stored: tuple[_arrays.Stored, ...] = ()
        self._index: tuple[_arrays.Stored, tuple[Any, ...], index.KNNIndex] | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.distance!r}, batch_size={self.batch_size})"

    def __call__(
        self,
        query: Any,
        k: SupportsIndex,
        reference: Any = None,
        ref_includes_query: bool = False,
        *,
        progress: bool | Callable[[int, int], object] = False,
    ) -> neighbors.Neighbors:
        """Return the k nearest reference rows of every query row.

        Parameters
        ----------
        query : array or tensor of shape (queries, features)
            float16, bfloat16, float32 or float64.
        k : int
            Number of neighbours, from 1 to the number of references (less one with `ref_includes_query`).
        reference : array or tensor of shape (references, features), optional
            Searched alone, for this call alone; the stored rows without it.
        ref_includes_query : bool, default False
            The query is the first rows of the reference, and no row is a neighbour of itself.
        progress : bool or callable, default False
            See `nearwise.knn`.

        Returns
        -------
        Neighbors
            ``(distances, indices)``, each (queries, k), nearest first, of the query's kind, on its device and without
            graph.

        Raises
        ------
        TypeError, ValueError
            As `nearwise.knn`; no `reference` and no stored rows.
        """
        if reference is None:
            side = _arrays.rows(query, "query", any_dtype=True)
            if self._can_prepare(side):
                return self._prepared().search(
                    query, k, ref_includes_query=ref_includes_query, batch_size=self.batch_size, progress=progress
                )
            reference = self._joined().like(side)
        return neighbors.knn(
            query,
            reference,
            k,
            distance=self.distance,
            ref_includes_query=ref_includes_query,
            batch_size=self.batch_size,
            threads=self.threads,
            nan_policy=self.nan_policy,
            backend=self.backend,
            progress=progress,
        )

    def train(self, embeddings: Any) -> None:
        """Store a copy of `embeddings` (rows, features) as the reference, in place of what was stored."""
        self._stored = (_arrays.Stored.copy_of(_arrays.rows(embeddings, "embeddings")),)

    def add(self, embeddings: Any) -> None:
        """Store a copy of `embeddings` (rows, features) after the rows that are stored; their indices continue.

        Raises
        ------
        ValueError
            Another dtype or number of features than the stored rows have.
        """
        added = _arrays.Stored.copy_of(_arrays.rows(embeddings, "embeddings"))
        if self._stored and self._stored[0].form != added.form:
            raise ValueError(f"embeddings must be like the stored rows, {self._stored[0].form}, got {added.form}")
        self._stored = (*self._stored, added)

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Write the stored rows to a file, under exactly this name.

        Raises
        ------
        ValueError
            No rows are stored.
        """
        _rows_file.write(filename, self._joined(), None)

    def load(self, filename: str | os.PathLike[str]) -> None:
        """Map what `save` wrote, or that of a `KNNIndex`, in place of what was stored.

        The distance stays this object's own.

        Raises
        ------
        ValueError
            The file is another's, of a newer version, cut off or damaged.
        """
        self._stored = (_rows_file.read(filename)[0],)
        self._index = None

    def _can_prepare(self, query: _arrays.Rows) -> bool:
        """Whether the core searches the stored rows for such a query."""
        formula = distances.resolve(self.distance).formula
        runs_here = self.backend == "rust" or (self.backend == "auto" and query.device == "cpu")
        return formula is not None and runs_here and bool(self._stored) and query.dtype == self._stored[0].dtype

    def _prepared(self) -> index.KNNIndex:
        """Return an index of the stored rows, made at the first use after a change."""
        rows, made = self._joined(), self._index
        settings = (self.distance, self.nan_policy, self.threads)
        if made is None or made[0] is not rows or made[1] != settings:
            made = rows, settings, index.KNNIndex.of_stored(rows, *settings)
            self._index = made
        return made[2]

    def _joined(self) -> _arrays.Stored:
        """Return the stored rows in one piece; pieces are joined once, at the first use after an `add`."""
        stored = self._stored
        if not stored:
            raise ValueError("reference must be given, or stored by train or add first")
        if len(stored) > 1:
            stored = (_arrays.Stored.joined(stored),)
            self._stored = stored
        return stored[0]
