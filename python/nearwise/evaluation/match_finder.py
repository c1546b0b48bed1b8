"""`MatchFinder`: which pairs of embeddings match at a threshold, without a matrix of all distances."""

from __future__ import annotations

import math
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _arrays, distances

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

# Values of one block: 16 MB of float32, small beside a model and large beside the cost of a call.
_BLOCK_VALUES = 1 << 22


class MatchFinder:
    """Decides which pairs match: distances at most the threshold, similarities at least it.

    Distances are computed for a block of query rows at a time, so nothing but the result is as large as queries ×
    references. The threshold is rounded to the dtype of the distances before the comparison, as NumPy and torch do with
    a Python float: a threshold of 0.1 matches a float32 distance of 0.1. A threshold of `select_threshold` is a number
    of that dtype already, and gives back its counts. NaN matches nothing.

    Parameters
    ----------
    distance : distance object, callable or str
        See `nearwise.distances.resolve`. A user's own is called once for each block, without recording a graph;
        `is_match` uses its ``pairwise``.
    threshold : float, optional
        Used by calls that bring none.

    Examples
    --------
    >>> import numpy as np
    >>> from nearwise.evaluation import MatchFinder
    >>> finder = MatchFinder("cosine", threshold=0.9)
    >>> query = np.array([[1.0, 0.0], [0.0, 1.0]])
    >>> reference = np.array([[1.0, 0.1], [1.0, 1.0], [-1.0, 0.0]])
    >>> finder.get_match_matrix(query, reference)
    array([[ True, False, False],
           [False, False, False]])
    >>> finder.get_match_indices(query, reference)
    array([[0, 0]])
    >>> finder.is_match(query, reference[:2])
    array([ True, False])
    """

    def __init__(self, distance: Any, threshold: float | None = None) -> None:
        self._resolved = distances.resolve(distance)
        self.distance = distance
        self.threshold = None if threshold is None else _number(threshold)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.distance!r}, threshold={self.threshold})"

    def get_match_matrix(self, query_emb: Any, ref_emb: Any = None, threshold: float | None = None) -> Any:
        """Return for every pair whether it matches.

        Parameters
        ----------
        query_emb : array or tensor of shape (queries, features)
            float16, bfloat16, float32 or float64.
        ref_emb : array or tensor of shape (references, features), optional
            Of the same kind, device and dtype. None compares the query with itself, each row with itself included.
        threshold : float, optional
            Instead of the constructor's.

        Returns
        -------
        array or tensor of shape (queries, references)
            bool, of the query's kind and on its device.

        Raises
        ------
        TypeError
            An input of another type or dtype, or two kinds of input; a threshold that is no number.
        ValueError
            No threshold, or NaN; inputs that do not fit each other.
        """
        limit, sides = self._threshold(threshold), self._sides(query_emb, ref_emb)
        shape = (len(sides.query), len(sides.reference))
        if sides.query.kind == "torch":
            import torch

            matrix: Any = torch.empty(shape, dtype=torch.bool, device=sides.query.given.device)
        else:
            matrix = np.empty(shape, dtype=bool)
        for start, block in self._blocks(sides, limit):
            matrix[start : start + len(block)] = block
        return matrix if sides.query.kind == "torch" else sides.query.give_back(matrix)

    def get_match_indices(self, query_emb: Any, ref_emb: Any = None, threshold: float | None = None) -> Any:
        """Return the pairs that match; memory grows with their number alone.

        Parameters
        ----------
        query_emb, ref_emb, threshold
            As `get_match_matrix`.

        Returns
        -------
        array or tensor of shape (matches, 2)
            int64 rows (query, reference), ordered by query, then reference.

        Raises
        ------
        TypeError, ValueError
            As `get_match_matrix`.
        """
        limit, sides = self._threshold(threshold), self._sides(query_emb, ref_emb)
        found: list[Any] = []
        for start, block in self._blocks(sides, limit):
            pairs = block.nonzero() if _arrays.is_tensor(block) else np.argwhere(block)
            pairs[:, 0] += start
            found.append(pairs)
        if sides.query.kind == "torch":
            import torch

            empty = torch.empty((0, 2), dtype=torch.int64, device=sides.query.given.device)
            return torch.cat([empty, *found])
        return sides.query.give_back(np.concatenate([np.empty((0, 2), dtype=np.int64), *found]))

    def is_match(self, x: Any, y: Any, threshold: float | None = None) -> Any:
        """Return whether row i of `x` matches row i of `y`; no matrix is built.

        Parameters
        ----------
        x, y : array or tensor of shape (rows, features)
            Of one kind, device, dtype and shape.
        threshold : float, optional
            Instead of the constructor's.

        Returns
        -------
        array or tensor of shape (rows,)
            bool; the same decisions as `get_match_matrix` makes.

        Raises
        ------
        TypeError
            As `get_match_matrix`; a user's own distance without ``pairwise``.
        ValueError
            As `get_match_matrix`; different numbers of rows.
        """
        limit = self._threshold(threshold)
        any_dtype = self._resolved.formula is None
        sides = _arrays.pair(x, y, ("x", "y"), any_dtype=any_dtype)
        if len(sides.query) != len(sides.reference):
            rows = f"{len(sides.query)} and {len(sides.reference)}"
            raise ValueError(f"x and y must have the same number of rows, got {rows}")
        with _no_grad(sides.query):
            values = _plain(self._resolved.pairwise(sides.query.given, sides.reference.given))
            if tuple(values.shape) != (len(sides.query),):
                expected = (len(sides.query),)
                raise ValueError(f"pairwise must return the shape {expected}, got {tuple(values.shape)}")
            return sides.query.give_back(self._matches(values, limit))

    def _threshold(self, threshold: float | None) -> float:
        if threshold is not None:
            return _number(threshold)
        if self.threshold is None:
            raise ValueError("threshold must be given to the method or to the constructor, got none")
        return self.threshold

    def _sides(self, query: Any, reference: Any) -> _arrays.Pair:
        reference = query if reference is None else reference
        return _arrays.pair(query, reference, ("query_emb", "ref_emb"), any_dtype=self._resolved.formula is None)

    def _blocks(self, sides: _arrays.Pair, limit: float) -> Iterator[tuple[int, Any]]:
        """Yield (first query row, bool matrix) of each block."""
        query, reference = sides
        step = max(1, _BLOCK_VALUES // max(1, len(reference)))
        for start in range(0, len(query), step):
            block = query.slice(start, start + step)
            with _no_grad(query):
                values = _plain(self._resolved(block.given, reference.given))
                expected = (len(block), len(reference))
                if tuple(values.shape) != expected:
                    raise ValueError(f"distance must return a matrix of shape {expected}, got {tuple(values.shape)}")
                matches = self._matches(values, limit)
            yield start, matches

    def _matches(self, values: Any, limit: float) -> Any:
        rounded = _rounded(limit, values)
        return values >= rounded if self._resolved.is_inverted else values <= rounded


def _number(threshold: Any) -> float:
    try:
        number = float(threshold)
    except (TypeError, ValueError):
        raise TypeError(f"threshold must be a number, got {threshold!r}") from None
    if isinstance(threshold, str | bytes):
        raise TypeError(f"threshold must be a number, got {threshold!r}")
    if math.isnan(number):
        raise ValueError("threshold must be a number, got NaN")
    return number


def _rounded(limit: float, values: Any) -> Any:
    """Return the limit in the dtype of the values, unless they are whole numbers."""
    if _arrays.is_tensor(values):
        import torch

        return torch.tensor(limit, dtype=values.dtype if values.is_floating_point() else torch.float64).to(
            values.device
        )
    if values.dtype.kind in "biu":
        return np.float64(limit)
    with np.errstate(over="ignore"):
        return np.asarray(limit).astype(values.dtype)


def _plain(values: Any) -> Any:
    """Return what a distance returned as an array or a tensor without graph."""
    return values.detach() if _arrays.is_tensor(values) else np.asarray(values)


def _no_grad(side: _arrays.Rows) -> AbstractContextManager[Any]:
    if not _arrays.is_tensor(side.given):
        return nullcontext()
    import torch

    return torch.no_grad()
