"""Estimates by float32 products, with a proven bound on what they may be off by.

Both sides become float32 operands: references less a common vector m (L2 alone; SNR rows less their own mean; cosine
rows divided by their norm), scaled by a power of two. A score s = N_y - 2 x·y, or -x·y, is one row of a matrix
product, and a smaller score means nearer. With u = 2⁻²⁴, γ = n·u/(1 - n·u), n = d + 8 (a product of d terms in any
order, fused or not, plus the start value and two roundings), and ‖e‖ the computed norm of what rounding an operand to
float32 lost,

    |s - (N_y - 2⟨a_x, a_y⟩)| ≤ γ(N_y + 2‖x̂‖‖ŷ‖) + d·2⁻¹⁴⁰ + 2(‖e_x‖‖a_y‖ + ‖x̂‖‖e_y‖).

Maxima over all references stand in for those of y, so that one number per query bounds every pair: no row outside the
best m scores can have a raw number beyond `Estimate.limit`. The float64 evaluation of the formula itself is covered by
g = (d + 64)·2⁻⁵², absolute, and by `drift`, how far an operand may be from the one that makes the formula exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

from nearwise.backends import _torch_lanes as lanes

if TYPE_CHECKING:
    from torch import Tensor

_SAMPLE = 1024
_LARGEST_NORM = 2.0**40  # products of usable operands are far from the end of float32


@dataclass(frozen=True)
class Operands:
    """Rows as they enter a product.

    Attributes
    ----------
    rows : Tensor of shape (n, features)
        float32; zero where a row is not usable.
    norm, lost, drift : Tensor of shape (n,)
        Float64: norm of the operand before rounding, of what rounding lost, and how far it may be off.
    usable : Tensor of shape (n,)
        False where a row is not finite or too large to estimate with.
    scale : Tensor of shape (n,)
        The power of two that the row was multiplied by.
    """

    rows: Tensor
    norm: Tensor
    lost: Tensor
    drift: Tensor
    usable: Tensor
    scale: Tensor


class Estimator:
    """Makes operands and bounds for one search."""

    def __init__(self, exact: lanes.Exact, reference: Tensor) -> None:
        self._exact = exact
        self._squares = exact.formula.kind in ("lp", "snr")
        self._slack = (exact.features + 64) * 2.0**-52
        sample = self._centred(reference[:: max(1, len(reference) // _SAMPLE)][:_SAMPLE])
        sample = sample[sample.isfinite().all(dim=1)]
        shifted = exact.formula.kind == "lp" and len(sample) > 0
        mean = sample.mean(dim=0) if shifted else sample.new_zeros(exact.features)
        # Where the mean overflows it is of no use; any vector is valid.
        self._shift = torch.where(mean.isfinite().all(), mean, torch.zeros_like(mean))
        self._scale = _power_of_two(
            torch.linalg.vector_norm(sample - self._shift, dim=1).amax() if len(sample) else mean.sum()
        )
        self.largest = [0.0, 0.0, 0.0]  # of norm, lost and drift, over all references seen

    def _centred(self, rows: Tensor) -> Tensor:
        flat = self._exact.prepared(rows).flatten(-2)[:, : self._exact.features]
        if self._exact.formula.kind == "snr":
            return flat - flat.mean(dim=1, keepdim=True)
        if self._exact.formula.kind == "cosine":
            return flat / lanes.floored(torch.linalg.vector_norm(flat, dim=1, keepdim=True))
        return flat

    def operands(self, rows: Tensor, *, is_query: bool) -> Operands:
        """Return the operands of stored rows."""
        features = self._exact.features
        plain = self._exact.prepared(rows).flatten(-2)[:, :features]
        centred = self._centred(rows)
        shifted = centred - self._shift
        length = torch.linalg.vector_norm(shifted, dim=1)
        # A query of a product is scaled by itself, which keeps its ranking.
        own = is_query and not self._squares
        scale = _power_of_two(length) if own else self._scale.expand(len(rows))
        wide = shifted * scale[:, None]
        norm = torch.linalg.vector_norm(wide, dim=1)
        usable = norm <= _LARGEST_NORM
        narrow = torch.where(usable[:, None], wide, 0.0).to(torch.float32)
        lost = torch.linalg.vector_norm(wide - narrow.to(torch.float64), dim=1)
        size = torch.linalg.vector_norm(plain, dim=1) * scale
        drift = 2.0**-52 * (size + self._shift.norm() * scale)
        if self._exact.formula.kind == "snr":
            drift = (features + 64) * (1 + features**0.5) * 2.0**-52 * size
        if self._exact.formula.kind == "cosine":
            drift = self._slack * norm
        up = 1 + self._slack  # norms are computed, too
        return Operands(narrow, norm * up, lost * up, drift * up, usable, scale)

    def scores(self, query: Operands, reference: Operands) -> Tensor:
        """Return the scores, (queries, references); infinite where a reference is not usable."""
        start = reference.norm * reference.norm if self._squares else torch.zeros_like(reference.norm)
        start = torch.where(reference.usable, start, float("inf")).to(torch.float32)
        factor = 2.0 if self._squares else 1.0
        return torch.addmm(start, query.rows, reference.rows.T, alpha=-factor)

    def note(self, reference: Operands) -> None:
        """Take references into the maxima that `limit` uses."""
        for at, field in enumerate((reference.norm, reference.lost, reference.drift)):
            if reference.usable.any():
                self.largest[at] = max(self.largest[at], float(field[reference.usable].max()))

    def limit(self, query: Operands, rows: Tensor, last: Tensor) -> Tensor:
        """Return the raw number beyond which every row lies whose score is at least `last`."""
        norm, lost, drift = self.largest
        count = self._exact.features + 8
        gamma = count * 2.0**-24 / (1 - count * 2.0**-24)
        factor = 2.0 if self._squares else 1.0
        rounded = query.norm + query.lost
        start = norm * norm if self._squares else 0.0
        error = gamma * (start + factor * rounded * (norm + lost)) + (self._exact.features + 1) * 2.0**-140
        error = (error + factor * (query.lost * norm + rounded * lost)) * (1 + self._slack)
        least = last.to(torch.float64) - error
        if self._squares:
            both = query.norm * query.norm + norm * norm
            least = least + query.norm * query.norm - 4 * self._slack * both
            apart = least.clamp(min=0).sqrt() * (1 - self._slack) - query.drift - drift
            limit = apart.clamp(min=0) ** 2 * (1 - self._slack) - self._slack * both * 2.0**-20
            limit = limit / self._scale / self._scale
            if self._exact.formula.kind == "snr":
                limit = limit / self._exact.scatter(self._exact.prepared(rows)) * (1 - self._slack)
            # A raw number is no negative one, and the square root of one would be NaN.
            return torch.nextafter(limit, torch.full_like(limit, -1.0)).clamp(min=0)
        spread = query.drift * norm + query.norm * drift + query.drift * drift
        most = -least + spread + 2 * self._slack * query.norm * norm
        most = most / query.scale / self._scale
        return torch.nextafter(most, torch.full_like(most, float("inf")))


def _power_of_two(length: Tensor) -> Tensor:
    """Return the power of two that brings a length to about 1; 1 for 0 and what is not finite."""
    exponent = torch.frexp(length).exponent.clamp(-1000, 1000)
    sensible = length.isfinite() & (length > 0)
    return torch.where(sensible, torch.ldexp(torch.ones_like(length), -exponent), 1.0)
