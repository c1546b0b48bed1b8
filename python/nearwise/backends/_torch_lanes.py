"""The exact formulas in torch: float64, sixteen lanes, one multiplication or addition at a time.

Every sum runs in the order that the compiled core uses (lane = index mod 16, from +0.0, folded by halves), by separate
elementwise operations, none of them fused; so the values have the same bits on every device with float64. Rows enter
as groups of sixteen, padded with +0.0, which changes no sum.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

if TYPE_CHECKING:
    from torch import Tensor

    from nearwise._formula import Formula

LANES = 16
NORM_FLOOR = 1e-12
_MOST_MULTIPLIED = 64  # the largest whole exponent that is a chain of multiplications


def grouped(rows: Tensor) -> Tensor:
    """Return rows (..., features) as float64 groups (..., groups, 16)."""
    wide = rows.to(torch.float64)
    groups = max(1, -(-wide.shape[-1] // LANES))
    padded = torch.nn.functional.pad(wide, (0, groups * LANES - wide.shape[-1]))
    return padded.reshape(*padded.shape[:-1], groups, LANES)


def lane_sum(terms: Tensor) -> Tensor:
    """Return the sum of each (..., groups, 16) in the order of the lanes."""
    lanes = torch.zeros_like(terms[..., 0, :])
    for group in range(terms.shape[-2]):
        lanes = lanes + terms[..., group, :]
    for half in (8, 4, 2, 1):
        lanes = lanes[..., :half] + lanes[..., half : 2 * half]
    return lanes[..., 0]


def square_root(x: Tensor) -> Tensor:
    """Return the correctly rounded square root of float64 numbers.

    On the CPU torch may take it from a vector library that is a unit in the last place off; NumPy takes the
    processor's. A GPU's own is correctly rounded.
    """
    if x.device.type != "cpu":
        return x.sqrt()
    with np.errstate(invalid="ignore"):
        return torch.from_numpy(np.sqrt(x.numpy(), out=np.empty(tuple(x.shape))))


def power_of(x: Tensor, exponent: float) -> Tensor:
    """Return `x` to a power: by multiplications and square roots where they do, else by torch's ``pow``."""
    if exponent == 0.5:
        return square_root(x)
    if exponent != int(exponent) or not 1 <= exponent <= _MOST_MULTIPLIED:
        return x.pow(exponent)
    value = x
    for bit in bin(int(exponent))[3:]:
        value = value * value
        if bit == "1":
            value = value * x
    return value


def p_norm(rows: Tensor, p: float) -> Tensor:
    """Return the p-norm of each (..., groups, 16)."""
    magnitudes = rows.abs()
    if p == 1:
        return lane_sum(magnitudes)
    if p == 2:
        return square_root(lane_sum(magnitudes * magnitudes))
    if p == float("inf"):
        return magnitudes.flatten(-2).amax(-1)  # lets NaN through
    return lane_sum(power_of(magnitudes, p)).pow(1.0 / p)


def floored(norm: Tensor) -> Tensor:
    """Return norms that can divide; NaN stays."""
    return torch.where(norm < NORM_FLOOR, NORM_FLOOR, norm)


@dataclass(frozen=True)
class Exact:
    """The exact values of a formula.

    Attributes
    ----------
    formula : Formula
        Which distance.
    features : int
        Number of features of each row.
    output : torch.dtype
        Type of the values.
    """

    formula: Formula
    features: int
    output: torch.dtype

    def prepared(self, rows: Tensor) -> Tensor:
        """Return stored rows (..., features) as they enter the formula, (..., groups, 16)."""
        groups = grouped(rows)
        normalize = self.formula.normalize
        if normalize is None or self.formula.kind == "cosine":
            return groups
        divided = groups / floored(p_norm(groups, normalize))[..., None, None]
        return self.masked(divided)  # 0/NaN is NaN, and padding must stay zero

    def masked(self, groups: Tensor) -> Tensor:
        """Return the groups with +0.0 beyond the last feature."""
        count = groups.shape[-2] * LANES
        real = torch.arange(count, device=groups.device).view(-1, LANES) < self.features
        return torch.where(real, groups, 0.0)

    def scatter(self, groups: Tensor) -> Tensor:
        """Return the sums of squared deviations from the mean, on values shifted by the first one."""
        shifted = self.masked(groups - groups[..., :1, :1])
        # Without features the sum is 0, whatever it is divided by.
        # A divisor that is a tensor: by a plain number a GPU multiplies with its reciprocal.
        count = torch.full((), float(max(1, self.features)), dtype=torch.float64, device=groups.device)
        mean = lane_sum(shifted) / count
        deviations = shifted - mean[..., None, None]
        return lane_sum(self.masked(deviations * deviations))

    def raw(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the raw numbers of prepared, broadcast rows: the sum of squares for p=2, else the value at power 1."""
        kind, p = self.formula.kind, self.formula.p
        if kind == "lp" and p == 2:
            difference = x - y
            return lane_sum(difference * difference)
        if kind == "lp":
            return p_norm(x - y, p)
        if kind == "snr":
            return self.scatter(x - y) / self.scatter(x)
        products = lane_sum(x * y)
        return products / (floored(p_norm(x, 2.0)) * floored(p_norm(y, 2.0))) if kind == "cosine" else products

    def finish(self, raw: Tensor) -> Tensor:
        """Return the values of raw numbers, rounded to the output type, without negative zeros."""
        formula = self.formula
        if formula.kind == "lp" and formula.p == 2:
            raw = raw if formula.power == 2 else power_of(square_root(raw), formula.power)
        else:
            raw = power_of(raw, formula.power)
        return raw.to(self.output) + 0.0

    def values(self, x: Tensor, y: Tensor) -> Tensor:
        """Return the values of prepared, broadcast rows."""
        return self.finish(self.raw(x, y))
