"""Torch operations on the tensors' own device: exact by estimate, float64 refinement and certificate.

A float32 matrix product scores every pair; the best of each query are refined to the exact value of the formula, in
the order of operations that the compiled core has; and a proven bound on the scores then shows that no other row can be
among the k nearest. Queries for which it does not show that are searched again with more candidates, in the end with
all rows. So neighbours and values are those of the core, bit for bit where no general power is taken. Devices without
float64 are served by the core.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch

from nearwise import _arrays
from nearwise.backends import _torch_lanes as lanes
from nearwise.backends._torch_estimate import Estimator

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from nearwise._arrays import Rows
    from nearwise._formula import Formula
    from nearwise.backends import Options

_SCORES = 1 << 24  # scores at a time
_ELEMENTS = 1 << 21  # float64 elements at a time, in refinement
_CHUNK = 1 << 22  # elements of the reference at a time
_BLOCK = 1024  # queries at a time
_FORCED = 64  # references that cannot be estimated and become everyone's candidates
_LARGEST_SQUARE = 1e306
_NO_FLOAT64 = ("mps",)


def search(query: Rows, reference: Rows, k: int, formula: Formula, options: Options) -> tuple[Any, Any]:
    """Return (distances, indices), both (len(query), k), nearest first."""
    x, y = query.torch(), reference.torch()
    if x.device.type in _NO_FLOAT64:
        found: tuple[Any, Any] = _core().search(query, reference, k, formula, options)
        return found
    with _undisturbed(x.device):
        _refuse(query, reference, formula, options)
        task = _Search(x, y, k, formula, options.exclude_self)
        step = options.batch or _BLOCK
        distances = torch.empty((len(x), k), dtype=task.exact.output, device=x.device)
        indices = torch.empty((len(x), k), dtype=torch.int64, device=x.device)
        for start in range(0, len(x), step):
            rows = torch.arange(start, min(start + step, len(x)), device=x.device)
            distances[rows], indices[rows] = task.nearest(rows)
            if options.progress is not None:
                options.progress(int(rows[-1]) + 1, len(x))
        return distances, indices


def matrix(query: Rows, reference: Rows, formula: Formula) -> Any:
    """Return every value, (len(query), len(reference)); NaN passes."""
    x, y = query.torch(), reference.torch()
    if x.device.type in _NO_FLOAT64:
        return _core().matrix(query, reference, formula)
    with _undisturbed(x.device):
        exact = _exact(x, formula)
        values = torch.empty((len(x), len(y)), dtype=exact.output, device=x.device)
        _fill(exact, x, y, values)
        return values


def pairwise(x: Rows, y: Rows, formula: Formula) -> Any:
    """Return the values of row i against row i, (len(x),); NaN passes."""
    left, right = x.torch(), y.torch()
    if left.device.type in _NO_FLOAT64:
        return _core().pairwise(x, y, formula)
    with _undisturbed(left.device):
        exact = _exact(left, formula)
        values = torch.empty(len(left), dtype=exact.output, device=left.device)
        step = max(1, _ELEMENTS // max(1, left.shape[1]))
        for start in range(0, len(left), step):
            part = slice(start, start + step)
            values[part] = exact.values(exact.prepared(left[part]), exact.prepared(right[part]))
        return values


def topk(matrix: Rows, k: int, *, largest: bool, self_offset: int | None, threads: int) -> Any:
    """Return the columns of the k best values of each row; column ``self_offset + i`` is not for row i."""
    values = matrix.torch()
    order = torch.sort(-values if largest else values, dim=1, stable=True).indices
    if self_offset is not None:
        # Exactly one column of each row is its own, so the rest has one shape.
        own = torch.arange(self_offset, self_offset + len(values), device=order.device)
        order = order[order != own.unsqueeze(1)].view(len(values), -1)
    return order[:, :k]


class _Search:
    """One call: its two sides and what they have in common."""

    def __init__(self, x: Tensor, y: Tensor, k: int, formula: Formula, exclude_self: bool) -> None:
        self.x, self.y, self.k, self.exclude_self = x, y, k, exclude_self
        self.exact = _exact(x, formula)
        self.sign = -1 if formula.is_inverted else 1
        self.estimator = Estimator(self.exact, y) if _has_estimate(formula) else None

    def nearest(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return (values, indices) for the query rows of those numbers."""
        values = torch.empty((len(rows), self.k), dtype=self.exact.output, device=rows.device)
        indices = torch.empty((len(rows), self.k), dtype=torch.int64, device=rows.device)
        left = torch.arange(len(rows), device=rows.device)
        many = self.k + max(16, self.k // 4)
        while self.estimator is not None and len(left) and 2 * many <= len(self.y) and many <= max(4 * self.k, 1024):
            found = self._estimated(rows[left], many)
            if found is None:
                break
            values[left], indices[left], certain = found
            left = left[~certain]
            many *= 4
        if len(left):
            values[left], indices[left] = self._direct(rows[left])
        return values, indices

    def _estimated(self, rows: Tensor, many: int) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return values, indices and whether they are proven, from the `many` best scores; None if it cannot help."""
        assert self.estimator is not None
        query = self.estimator.operands(self.x[rows], is_query=True)
        best = torch.empty((len(rows), 0), dtype=torch.float32, device=rows.device)
        columns = torch.empty((len(rows), 0), dtype=torch.int64, device=rows.device)
        forced: list[Tensor] = []
        for start in range(0, len(self.y), self._chunk(len(rows))):
            reference = self.estimator.operands(self.y[start : start + self._chunk(len(rows))], is_query=False)
            self.estimator.note(reference)
            forced.append((~reference.usable).nonzero().squeeze(1) + start)
            scores = self.estimator.scores(query, reference)
            if self.exclude_self:
                own = rows - start
                here = ((own >= 0) & (own < scores.shape[1])).nonzero().squeeze(1)
                scores[here, own[here]] = float("inf")
            found, at = scores.topk(min(many, scores.shape[1]), dim=1, largest=False)
            best, columns = torch.cat([best, found], dim=1), torch.cat([columns, at + start], dim=1)
            best, at = best.topk(min(many, best.shape[1]), dim=1, largest=False)
            columns = columns.gather(1, at)
        unusable = torch.cat(forced)
        if len(unusable) > _FORCED:
            return None
        # An infinite score is the query's own row or an unusable one, which joins everyone's candidates below.
        never = best.isinf()
        columns = torch.cat([columns, unusable.expand(len(rows), -1)], dim=1)
        never = torch.cat([never, self._is_own(rows, unusable.expand(len(rows), -1))], dim=1)
        values, indices = self._refined(rows, columns, never)
        limit = self.exact.finish(self.estimator.limit(query, self.x[rows], best[:, -1]))
        beyond = self.sign * limit > self.sign * values[:, -1]
        return values, indices, (beyond | best[:, -1].isinf()) & query.usable

    def _chunk(self, queries: int) -> int:
        return max(1, min(_CHUNK // max(1, self.exact.features), _SCORES // max(1, queries)))

    def _is_own(self, rows: Tensor, columns: Tensor) -> Tensor:
        own = rows[:, None] == columns
        return own if self.exclude_self else torch.zeros_like(own)

    def _refined(self, rows: Tensor, columns: Tensor, never: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k best (values, columns) of each query's candidates, ranked exactly."""
        columns, order = columns.sort(dim=1)
        never = never.gather(1, order)
        values = torch.empty(columns.shape, dtype=self.exact.output, device=rows.device)
        step = max(1, _ELEMENTS // max(1, columns.shape[1] * self.exact.features))
        for start in range(0, len(rows), step):
            part = slice(start, start + step)
            x = self.exact.prepared(self.x[rows[part]]).unsqueeze(1)
            values[part] = self.exact.values(x, self.exact.prepared(self.y[columns[part]]))
        return self._ranked(values, columns, never)

    def _direct(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k best (values, indices) from the exact value of every pair."""
        values = torch.empty((len(rows), 0), dtype=self.exact.output, device=rows.device)
        columns = torch.empty((len(rows), 0), dtype=torch.int64, device=rows.device)
        chunk = max(self.k, self._chunk(len(rows)))
        for start in range(0, len(self.y), chunk):
            y = self.y[start : start + chunk]
            found = torch.empty((len(rows), len(y)), dtype=self.exact.output, device=rows.device)
            _fill(self.exact, self.x[rows], y, found)
            at = torch.arange(start, start + len(y), device=rows.device).expand(len(rows), -1)
            # What was kept has smaller indices, so a stable order keeps ties right.
            values, columns = torch.cat([values, found], dim=1), torch.cat([columns, at], dim=1)
            values, columns = self._ranked(values, columns, self._is_own(rows, columns))
        return values, columns

    def _ranked(self, values: Tensor, columns: Tensor, never: Tensor) -> tuple[Tensor, Tensor]:
        """Return the k best of candidates in ascending column: NaN after numbers, `never` after NaN."""
        order = torch.sort(self.sign * values, dim=1, stable=True).indices
        last = never.gather(1, order).to(torch.uint8)
        order = order.gather(1, torch.sort(last, dim=1, stable=True).indices)[:, : self.k]
        return values.gather(1, order), columns.gather(1, order)


def _fill(exact: lanes.Exact, x: Tensor, y: Tensor, values: Tensor) -> None:
    """Write every value between the stored rows `x` and `y`."""
    features = max(lanes.LANES, exact.features)
    wide = max(1, min(len(y), _ELEMENTS // features))
    high = max(1, _ELEMENTS // (features * wide))
    for left in range(0, len(y), wide):
        block = exact.prepared(y[left : left + wide]).unsqueeze(0)
        for top in range(0, len(x), high):
            rows = exact.prepared(x[top : top + high]).unsqueeze(1)
            values[top : top + high, left : left + wide] = exact.values(rows, block)


def _exact(rows: Tensor, formula: Formula) -> lanes.Exact:
    output = torch.float64 if rows.dtype == torch.float64 else torch.float32
    return lanes.Exact(formula, rows.shape[1], output)


def _has_estimate(formula: Formula) -> bool:
    """Whether products bound the raw number and the power keeps the order of raw numbers, rounding included."""
    if formula.kind == "lp" and formula.p != 2:
        return False
    chain = formula.power == int(formula.power) and 1 <= formula.power <= 64
    return chain and (not formula.is_inverted or formula.power % 2 == 1)


def _refuse(query: Rows, reference: Rows, formula: Formula, options: Options) -> None:
    """Raise for rows that the core refuses, in its words."""
    squares = formula.kind != "lp" or formula.p == 2 or formula.normalize == 2
    for argument, side in (("query", query), ("reference", reference)):
        if not options.nan_last:
            row = _arrays.first_nan_row(side)
            if row is not None:
                raise ValueError(f"{argument} must not contain NaN (see nan_policy), found NaN in row {row}")
        row = _first_large_row(side.torch()) if squares and side.dtype == "float64" else None
        if row is not None:
            raise ValueError(
                f"{argument} must have rows with a norm below 1e153 so that sums of squares stay finite, "
                f"found a larger one in row {row}; scale the data down"
            )


def _first_large_row(rows: Tensor) -> int | None:
    step = max(1, _CHUNK // max(1, rows.shape[1]))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        squares = (block * block).sum(dim=1)
        bad = ((squares >= _LARGEST_SQUARE) & block.isfinite().all(dim=1)).nonzero()
        if len(bad):
            return start + int(bad[0])
    return None


@contextmanager
def _undisturbed(device: torch.device) -> Iterator[None]:
    """Compute without graph, autocast, shortened products or flushed subnormals; leave all as it was."""
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        if torch.amp.is_autocast_available(device.type):
            stack.enter_context(torch.autocast(device.type, enabled=False))
        stack.enter_context(_full_products())
        if device.type == "cpu":
            stack.enter_context(_subnormals_kept())
        yield


@contextmanager
def _full_products() -> Iterator[None]:
    """Multiply float32 matrices in float32: no TF32, no bfloat16."""
    parts = (
        [torch.backends.cuda.matmul, torch.backends.mkldnn.matmul] if hasattr(torch.backends.mkldnn, "matmul") else []
    )
    if not parts or not all(hasattr(part, "fp32_precision") for part in parts):
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
        return
    kept = [part.fp32_precision for part in parts]
    for part in parts:
        part.fp32_precision = "ieee"
    try:
        yield
    finally:
        for part, precision in zip(parts, kept, strict=True):
            part.fp32_precision = precision


@contextmanager
def _subnormals_kept() -> Iterator[None]:
    """Undo `torch.set_flush_denormal(True)`, which torch's own threads may have inherited, on one thread."""
    tiny = torch.full((1,), 5e-324, dtype=torch.float64, device="cpu")
    if float((tiny + 0.0).view(torch.int64)) != 0 and float((tiny * 1.0).view(torch.int64)) != 0:
        yield
        return
    threads = torch.get_num_threads()
    torch.set_flush_denormal(False)
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(True)


def _core() -> Any:
    from nearwise import backends

    return backends.get("rust")
