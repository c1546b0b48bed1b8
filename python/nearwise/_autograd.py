"""Gradients of the built-in distances: exact values forward, torch operations backward.

The exact values come from a backend. A second, differentiable evaluation of the same formula in float64 provides the
graph; its values are replaced by the exact ones, so that a value does not depend on whether a graph was wanted. Where
a norm has no gradient (distance 0) the subgradient is 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from nearwise._formula import Formula

_NORM_FLOOR = 1e-12


class _Replace(torch.autograd.Function):
    """The values of one tensor with the graph of another."""

    @staticmethod
    def forward(ctx: Any, differentiable: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
        return exact.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def matrix(exact: torch.Tensor, query: torch.Tensor, reference: torch.Tensor, formula: Formula) -> torch.Tensor:
    """Return `exact`, the matrix of values, with a graph to both sides."""
    with torch.autocast(query.device.type, enabled=False):
        x, y = _prepared(query, formula), _prepared(reference, formula)
        if formula.kind == "lp":
            values = _norms(x, y, formula.p)
        elif formula.kind == "snr":
            values = _norms(_centred(x), _centred(y), 2.0) ** 2 / _scatter(x).unsqueeze(1)
        else:
            values = x @ y.T
        return _finished(values, exact, formula)


def pairwise(exact: torch.Tensor, x: torch.Tensor, y: torch.Tensor, formula: Formula) -> torch.Tensor:
    """Return `exact`, the values of row i against row i, with a graph to both sides."""
    with torch.autocast(x.device.type, enabled=False):
        x, y = _prepared(x, formula), _prepared(y, formula)
        if formula.kind == "lp":
            values = torch.linalg.vector_norm(x - y, ord=formula.p, dim=1)
        elif formula.kind == "snr":
            values = _scatter(x - y) / _scatter(x)
        else:
            values = (x * y).sum(dim=1)
        return _finished(values, exact, formula)


def _prepared(rows: torch.Tensor, formula: Formula) -> torch.Tensor:
    rows = rows.double()
    p = 2.0 if formula.kind == "cosine" else formula.normalize
    if p is None:
        return rows
    norms = torch.linalg.vector_norm(rows, ord=p, dim=1, keepdim=True)
    divided: torch.Tensor = rows / norms.clamp_min(_NORM_FLOOR)
    return divided


def _norms(x: torch.Tensor, y: torch.Tensor, p: float) -> torch.Tensor:
    # The other mode, for more than 25 rows, cancels.
    return torch.cdist(x, y, p=p, compute_mode="donot_use_mm_for_euclid_dist")


def _centred(rows: torch.Tensor) -> torch.Tensor:
    # Shifted by the first element, a constant row becomes exactly zero.
    shifted = rows - rows[:, :1]
    return shifted - shifted.mean(dim=1, keepdim=True)


def _scatter(rows: torch.Tensor) -> torch.Tensor:
    return (_centred(rows) ** 2).sum(dim=1)


def _finished(values: torch.Tensor, exact: torch.Tensor, formula: Formula) -> torch.Tensor:
    if formula.power != 1:
        # Powers below 1 have an infinite slope at 0, which would meet the subgradient 0 and become NaN.
        at_zero = values == 0
        values = torch.where(at_zero, torch.zeros_like(values), torch.where(at_zero, 1.0, values) ** formula.power)
    result: torch.Tensor = _Replace.apply(values.to(exact.dtype), exact)
    return result
