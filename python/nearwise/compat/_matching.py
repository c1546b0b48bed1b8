"""`MatchFinder` with the methods and results of pytorch-metric-learning 2.9."""

from __future__ import annotations

from typing import Any

import numpy as np

from nearwise import _arrays, evaluation


class MatchFinder(evaluation.MatchFinder):
    """`nearwise.evaluation.MatchFinder` with the methods of 2.9, whose results are NumPy arrays.

    Examples
    --------
    >>> import torch
    >>> finder = MatchFinder("cosine", threshold=0.9)
    >>> rows = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0]])
    >>> finder.get_matching_pairs(rows[:2], rows)
    array([[ True,  True, False],
           [ True,  True, False]])
    >>> finder.is_match(rows[:1], rows[1:2])
    True
    """

    def get_matching_pairs(
        self, query_emb: Any, ref_emb: Any = None, threshold: float | None = None, return_tuples: bool = False
    ) -> np.ndarray[Any, Any] | list[tuple[int, int]]:
        """Return which pairs match.

        Parameters
        ----------
        query_emb, ref_emb, threshold
            As `nearwise.evaluation.MatchFinder.get_match_matrix` takes them.
        return_tuples : bool, default False
            Return a list of (query, reference) instead of a matrix.

        Returns
        -------
        numpy.ndarray of bool, shape (queries, references), or list of tuple of int
            The list is ordered by query, then reference.

        Raises
        ------
        TypeError, ValueError
            As ``get_match_matrix``.
        """
        if return_tuples:
            pairs = _on_cpu(self.get_match_indices(query_emb, ref_emb, threshold))
            return [(query, reference) for query, reference in pairs.tolist()]
        return _on_cpu(self.get_match_matrix(query_emb, ref_emb, threshold))

    def is_match(self, x: Any, y: Any, threshold: float | None = None) -> Any:
        """Return whether row i of `x` matches row i of `y`: an array, or one bool for one pair."""
        matches = _on_cpu(super().is_match(x, y, threshold))
        return matches.item() if matches.size == 1 else matches


def _on_cpu(values: Any) -> np.ndarray[Any, Any]:
    return values.cpu().numpy() if _arrays.is_tensor(values) else np.asarray(values)
