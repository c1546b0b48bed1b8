"""The truth that tests compare with: the documented formulas in plain NumPy float64.

It mirrors nothing of the package but its documentation: sums in sixteen lanes (lane = index mod 16) from +0.0, one
multiplication or addition at a time, folded by halves; one rounding to the output type; a stable order of the rounded
values. `np.sum`, `dot`, `einsum`, `norm`, `var` and `**` are absent because their order of operations is not promised.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

LANES = 16
NORM_FLOOR = 1e-12


@dataclass(frozen=True)
class Spec:
    """A distance: kind "lp", "dot", "cosine" or "snr"; `normalize` is the p-norm that rows are divided by."""

    kind: str
    p: float = 2.0
    power: float = 1.0
    normalize: float | None = None

    @property
    def is_inverted(self) -> bool:
        return self.kind in ("dot", "cosine")

    @property
    def is_bitwise(self) -> bool:
        """Whether no general power is taken, so that the oracle is exact to the bit."""
        norms = {self.p if self.kind == "lp" else 2.0, self.normalize or 2.0}
        return norms <= {1.0, 2.0, float("inf")} and self.power in (0.5, 1.0, 2.0)


EUCLIDEAN = Spec("lp")
SQEUCLIDEAN = Spec("lp", power=2.0)
MANHATTAN = Spec("lp", p=1.0)
CHEBYSHEV = Spec("lp", p=float("inf"))
DOT = Spec("dot")
COSINE = Spec("cosine")
SNR = Spec("snr")
NAMED = {
    "euclidean": EUCLIDEAN,
    "sqeuclidean": SQEUCLIDEAN,
    "manhattan": MANHATTAN,
    "chebyshev": CHEBYSHEV,
    "dot": DOT,
    "cosine": COSINE,
    "snr": SNR,
}


def widened(rows) -> np.ndarray:
    """Rows of any kind as float64; exact."""
    if type(rows).__module__.startswith("torch"):
        rows = rows.detach().cpu().double().numpy()
    return np.asarray(rows).astype(np.float64)


def output_dtype(rows) -> type:
    return np.float64 if str(rows.dtype).endswith("float64") else np.float32


def _folded(terms: np.ndarray, op) -> np.ndarray:
    lanes = np.zeros((*terms.shape[:-1], LANES))
    for start in range(0, terms.shape[-1], LANES):
        block = terms[..., start : start + LANES]
        width = block.shape[-1]
        lanes[..., :width] = op(lanes[..., :width], block)
    for half in (8, 4, 2, 1):
        lanes[..., :half] = op(lanes[..., :half], lanes[..., half : 2 * half])
    return lanes[..., 0].copy()


def lane_sum(terms: np.ndarray) -> np.ndarray:
    return _folded(terms, np.add)


def lane_max(terms: np.ndarray) -> np.ndarray:
    return _folded(terms, np.maximum)  # np.maximum lets NaN through


def power_of(x: np.ndarray, p: float) -> np.ndarray:
    if p == 1:
        return x
    if p == 2:
        return x * x
    if p == 0.5:
        return np.sqrt(x)
    if p == int(p) and 1 <= p <= 64:
        value = x
        for bit in bin(int(p))[3:]:
            value = value * value
            if bit == "1":
                value = value * x
        return value
    return np.power(x, p)


def p_norm(rows: np.ndarray, p: float) -> np.ndarray:
    magnitudes = np.abs(rows)
    if p == 1:
        return lane_sum(magnitudes)
    if p == 2:
        return np.sqrt(lane_sum(magnitudes * magnitudes))
    if p == float("inf"):
        return lane_max(magnitudes)
    return np.power(lane_sum(power_of(magnitudes, p)), 1.0 / p)


def _floored(norm: np.ndarray) -> np.ndarray:
    return np.where(norm < NORM_FLOOR, NORM_FLOOR, norm)


def _prepared(rows, spec: Spec) -> np.ndarray:
    rows = widened(rows)
    if spec.normalize is None or spec.kind == "cosine":
        return rows
    return rows / _floored(p_norm(rows, spec.normalize))[..., None]


def _scatter(rows: np.ndarray) -> np.ndarray:
    if rows.shape[-1] == 0:
        return np.zeros(rows.shape[:-1])
    shifted = rows - rows[..., :1]
    mean = lane_sum(shifted) / rows.shape[-1]
    deviations = shifted - mean[..., None]
    return lane_sum(deviations * deviations)


def _values(spec: Spec, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Values of broadcast rows, float64, before rounding."""
    if spec.kind == "lp" and spec.p == 2:
        squares = lane_sum((x - y) * (x - y))
        if spec.power == 2:
            return squares + 0.0
        raw = np.sqrt(squares)
    elif spec.kind == "lp":
        raw = p_norm(x - y, spec.p)
    elif spec.kind == "snr":
        raw = _scatter(x - y) / _scatter(x)
    else:
        raw = lane_sum(x * y)
        if spec.kind == "cosine":
            raw = raw / (_floored(np.sqrt(lane_sum(x * x))) * _floored(np.sqrt(lane_sum(y * y))))
    return power_of(raw, spec.power) + 0.0


def matrix(spec: Spec, query, reference) -> np.ndarray:
    """Every value, rounded to the output type."""
    with np.errstate(all="ignore"):
        x, y = _prepared(query, spec), _prepared(reference, spec)
        rows = [_values(spec, row[None, :], y) for row in x]
        values = np.array(rows).reshape(len(x), len(y))
        return values.astype(output_dtype(query)) + 0.0  # a tiny negative number rounds to -0.0


def pairwise(spec: Spec, x, y) -> np.ndarray:
    """Values of row i against row i, rounded to the output type."""
    with np.errstate(all="ignore"):
        return _values(spec, _prepared(x, spec), _prepared(y, spec)).astype(output_dtype(x)) + 0.0


def ranked(values: np.ndarray, k: int, *, largest: bool, exclude_self: bool) -> tuple[np.ndarray, np.ndarray]:
    """The k best (values, columns) of each row: ties by column, NaN last, row i without column i if asked."""
    keys = -values if largest else values
    found, indices = [], []
    for i in range(len(values)):
        order = np.argsort(keys[i], kind="stable")
        if exclude_self:
            order = order[order != i]
        indices.append(order[:k])
        found.append(values[i][order[:k]])
    shape = (len(values), k)
    return (
        np.array(found, dtype=values.dtype).reshape(shape),
        np.array(indices, dtype=np.int64).reshape(shape),
    )


def neighbors(spec: Spec, query, reference, k: int, *, exclude_self: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """(distances, indices) of the k nearest reference rows of every query row."""
    values = matrix(spec, query, reference)
    return ranked(values, k, largest=spec.is_inverted, exclude_self=exclude_self)


def assert_same(got, want, *, ulps: int = 0) -> None:
    """Bitwise equality of two arrays of values, NaN equal to NaN; or at most `ulps` apart."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.dtype == want.dtype, (got.dtype, want.dtype)
    assert got.shape == want.shape, (got.shape, want.shape)
    if ulps == 0 or not np.issubdtype(got.dtype, np.floating):
        np.testing.assert_array_equal(got, want)
        if np.issubdtype(got.dtype, np.floating):
            assert not np.signbit(got[got == 0]).any(), "negative zero"
        return
    numbers = ~np.isnan(want)
    np.testing.assert_array_equal(np.isnan(got), ~numbers)
    got, want = got[numbers], want[numbers]
    with np.errstate(invalid="ignore"):  # inf - inf, where they are equal
        apart = np.abs(got - want)
    near = (got == want) | (apart <= ulps * np.spacing(np.maximum(np.abs(got), np.abs(want))))
    assert near.all(), (got[~near], want[~near])
