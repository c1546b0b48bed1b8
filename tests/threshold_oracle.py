"""The truth about thresholds: every separation of a small sample, in exact rationals."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import numpy as np

# Bits of precision, and the exponent of the smallest positive number.
FORMATS = {"float16": (11, -24), "bfloat16": (8, -133), "float32": (24, -149), "float64": (53, -1074)}


@dataclass(frozen=True)
class Candidate:
    threshold: float
    tp: int
    fp: int
    tn: int
    fn: int


def rounded(number: Fraction, dtype: str) -> Fraction:
    """The nearest number of the format, ties to even; the range is not checked."""
    precision, smallest = FORMATS[dtype]
    if number == 0:
        return number
    magnitude = abs(number)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2) ** exponent:
        exponent -= 1
    unit = Fraction(2) ** max(exponent - precision + 1, smallest)
    return round(number / unit) * unit


def candidates(scores: list[Fraction], labels: list[bool], is_inverted: bool, dtype: str) -> list[Candidate]:
    distinct = sorted(set(scores), reverse=is_inverted)
    found = []
    for count in range(len(distinct) + 1):
        accepted = set(distinct[:count])
        if count == 0:
            threshold = float("inf") if is_inverted else float("-inf")
        else:
            ends = distinct[count - 1 : count + 1]
            middle = rounded(sum(ends) / 2, dtype) if len(ends) == 2 else ends[0]
            threshold = float(middle if min(ends) < middle < max(ends) else ends[0])
        right = [label for score, label in zip(scores, labels, strict=True) if score in accepted]
        tp, fp = sum(right), len(right) - sum(right)
        found.append(Candidate(threshold, tp, fp, labels.count(False) - fp, labels.count(True) - tp))
    return found


def accuracy(c: Candidate) -> Fraction:
    return Fraction(c.tp + c.tn, c.tp + c.fp + c.tn + c.fn)


def balanced_accuracy(c: Candidate) -> Fraction:
    return (Fraction(c.tp, c.tp + c.fn) + Fraction(c.tn, c.tn + c.fp)) / 2


def youden(c: Candidate) -> Fraction:
    return Fraction(c.tp, c.tp + c.fn) - Fraction(c.fp, c.tn + c.fp)


def f_beta(squared: Fraction):
    return lambda c: (1 + squared) * c.tp / ((1 + squared) * c.tp + squared * c.fn + c.fp)


def mcc_squared(c: Candidate) -> Fraction:
    """The correlation times its own absolute value, which orders alike and is rational."""
    d = c.tp * c.tn - c.fp * c.fn
    below = (c.tp + c.fn) * (c.tn + c.fp) * (c.tp + c.fp) * (c.tn + c.fn)
    return Fraction(d * abs(d), below or 1)


def best(found: list[Candidate], metric) -> tuple[Candidate, Fraction]:
    """The largest value; of equal ones the first, which has the fewest matches."""
    values = [Fraction(metric(candidate)) for candidate in found]
    first = values.index(max(values))
    return found[first], values[first]


def pool(dtype: str, rng: np.random.Generator, size: int) -> torch.Tensor:
    """A few finite numbers of the format, likely with neighbours, zeros of both signs, subnormals and giants."""
    kind = {"float16": torch.int16, "bfloat16": torch.int16, "float32": torch.int32, "float64": torch.int64}[dtype]
    torch_dtype = getattr(torch, dtype)
    tiny = torch.tensor([0], dtype=kind)
    bases = [0.0, -0.0, 1.0, -1.0, 0.3, torch.finfo(torch_dtype).max / 2, torch.finfo(torch_dtype).tiny]
    base = torch.tensor([bases[rng.integers(len(bases))] for _ in range(2)], dtype=torch_dtype).view(kind)
    steps = torch.from_numpy(rng.integers(0, 4, size=size)).to(kind)
    picks = torch.cat([base, tiny])[torch.from_numpy(rng.integers(0, 3, size=size))]
    return (picks + steps).view(torch_dtype)
