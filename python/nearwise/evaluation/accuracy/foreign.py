"""What functions that are not ours are called with: torch tensors, as pytorch-metric-learning's users expect.

A user's ``knn_func``, ``kmeans_func``, ``label_comparison_fn`` or ``calculate_NAME`` gets tensors on the query's
device, whatever kind the caller passed; where torch is not installed, it gets NumPy arrays.
"""

from __future__ import annotations

from contextlib import nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _arrays

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from nearwise._arrays import Rows


@cache
def _torch() -> Any:
    try:
        import torch
    except ModuleNotFoundError:
        return None
    return torch


def no_grad() -> AbstractContextManager[Any]:
    """Return the context in which the functions of others run."""
    torch = _torch()
    return nullcontext() if torch is None else torch.no_grad()


def embeddings(side: Rows) -> Any:
    """Return embeddings for a function that is not ours."""
    return side.given if _torch() is None else side.torch()


def handed(values: np.ndarray[Any, Any], query: Rows) -> Any:
    """Return labels or counts for a function that is not ours, on the device of `query`."""
    torch = _torch()
    if torch is None or values.dtype == object:
        return values
    if any(stride < 0 for stride in values.strides) or not values.flags.writeable:
        values = values.copy()
    tensor = torch.from_numpy(np.ascontiguousarray(values))
    return tensor.to(query.given.device) if _arrays.is_tensor(query.given) else tensor


def to_numpy(given: Any) -> Any:
    """Return what a function of others returned as an array on the CPU."""
    return given.detach().cpu().numpy() if _arrays.is_tensor(given) else np.asarray(given)
