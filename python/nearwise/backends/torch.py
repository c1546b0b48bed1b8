"""Torch operations on the tensors' own device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from nearwise._arrays import Rows


def topk(matrix: Rows, k: int, *, largest: bool, self_offset: int | None, threads: int) -> Any:
    """Return the columns of the k best values of each row; column ``self_offset + i`` is not for row i."""
    values = matrix.torch()
    order = torch.sort(-values if largest else values, dim=1, stable=True).indices
    if self_offset is not None:
        # Exactly one column of each row is its own, so the rest has one shape.
        own = torch.arange(self_offset, self_offset + len(values), device=order.device)
        order = order[order != own.unsqueeze(1)].view(len(values), -1)
    return order[:, :k]
