"""Neighbours by a ``knn_func``, held to its contract."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nearwise import distances
from nearwise.evaluation.accuracy import foreign
from nearwise.evaluation.custom_knn import CustomKNN

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearwise._formula import Formula
    from nearwise.evaluation.accuracy.inputs import Inputs

_logger = logging.getLogger(__name__)


class Retrieved(NamedTuple):
    """Neighbours of every query.

    Attributes
    ----------
    distances : object
        As the function returned them.
    indices : numpy.ndarray of int64, shape (queries, k)
        Each addresses a reference.
    """

    distances: Any
    indices: np.ndarray[Any, Any]


def neighbors(
    knn_func: Callable[..., Any], inputs: Inputs, k: int, progress: bool | Callable[[int, int], object] = False
) -> Retrieved:
    """Call ``knn_func(query, k, reference, ref_includes_query)`` without recording a graph and check what it returns.

    Only a `CustomKNN` can tell of its `progress`.

    Raises
    ------
    TypeError
        It returned something else than two things.
    ValueError
        The indices are of another shape, no whole numbers, or address no row of the reference.
    """
    query, reference = inputs.query.given, inputs.reference.given
    context = nullcontext() if inputs.query.kind != "torch" and reads_arrays(knn_func) else foreign.no_grad()
    if not reads_arrays(knn_func):
        query, reference = foreign.embeddings(inputs.query), foreign.embeddings(inputs.reference)
        reference = query if inputs.query is inputs.reference else reference
    _logger.info("asking for the %d nearest of %d rows for %d queries", k, len(inputs.reference), len(inputs.query))
    told = {"progress": progress} if type(knn_func) is CustomKNN and progress else {}
    with context:
        found = knn_func(query, k, reference, inputs.ref_includes_query, **told)
    if not isinstance(found, tuple | list) or len(found) != 2:
        raise TypeError(f"knn_func must return (distances, indices), got {type(found).__name__}")
    return Retrieved(found[0], _checked(found[1], (len(inputs.query), k), len(inputs.reference)))


def core_formula(knn_func: Any, inputs: Inputs) -> Formula | None:
    """Return what the core computes for a `CustomKNN` of ours on the CPU, or None for any other function or place."""
    if type(knn_func) is not CustomKNN or inputs.query.device != "cpu":
        return None
    if knn_func.backend not in ("auto", "rust") or knn_func.nan_policy != "raise":
        return None
    return distances.resolve(knn_func.distance).formula


def reads_arrays(knn_func: Any) -> bool:
    """Whether the function takes every kind of input, so that nothing needs converting for it."""
    if type(knn_func) is CustomKNN:
        return distances.resolve(knn_func.distance).formula is not None
    return getattr(type(knn_func), "_reads_arrays", False) is True


def _checked(given: Any, shape: tuple[int, int], references: int) -> np.ndarray[Any, Any]:
    indices = foreign.to_numpy(given)
    if indices.shape != shape:
        raise ValueError(f"knn_func must return indices of shape {shape}, got {indices.shape}")
    if indices.dtype.kind not in "iu":
        raise ValueError(f"knn_func must return integer indices, got dtype {indices.dtype}")
    if indices.size:
        least, most = int(indices.min()), int(indices.max())
        if least < 0 or most >= references:
            wrong = least if least < 0 else most
            raise ValueError(
                f"knn_func must return indices of the reference of its call, 0 to {references - 1}, got {wrong}"
            )
    return np.ascontiguousarray(indices, dtype=np.int64)
