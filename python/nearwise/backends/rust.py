"""The compiled core: exact, blocked, threaded, on the CPU. Tensors of other devices are copied to it and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nearwise import _core
from nearwise._arguments import checked_threads

if TYPE_CHECKING:
    from nearwise._arrays import Rows
    from nearwise._formula import Formula
    from nearwise.backends import Options


def search(query: Rows, reference: Rows, k: int, formula: Formula, options: Options) -> tuple[Any, Any]:
    """Return (distances, indices), both (len(query), k), nearest first."""
    arguments: dict[str, Any] = {
        "exclude_self": options.exclude_self,
        "nan_last": options.nan_last,
        "threads": options.threads,
        "batch": options.batch,
        "method": options.method,
        "progress": options.progress,
    }
    if options.prepared is not None:
        found, indices, stats = options.prepared.search(query.numpy(), reference.numpy(), k, **arguments)
    else:
        found, indices, stats = _core.search(query.numpy(), reference.numpy(), k, _distance(formula), **arguments)
    if options.report is not None:
        options.report(*stats)
    return found, indices


def prepare(reference: Any, formula: Formula, options: Options) -> _core.Index:
    """Return what searches of `reference` (an array as `Rows.numpy` gives it) can share."""
    return _core.Index(reference, _distance(formula), nan_last=options.nan_last, threads=options.threads)


def matrix(query: Rows, reference: Rows, formula: Formula) -> Any:
    """Return every value, (len(query), len(reference))."""
    return _core.matrix(query.numpy(), reference.numpy(), _distance(formula), threads=checked_threads(None))


def pairwise(x: Rows, y: Rows, formula: Formula) -> Any:
    """Return the values of row i against row i, (len(x),)."""
    return _core.pairwise(x.numpy(), y.numpy(), _distance(formula), threads=checked_threads(None))


def topk(matrix: Rows, k: int, *, largest: bool, self_offset: int | None, threads: int) -> Any:
    """Return the columns of the k best values of each row; column ``self_offset + i`` is not for row i."""
    return _core.topk(matrix.numpy(), k, largest=largest, self_offset=self_offset, threads=threads)


def levels() -> tuple[str, list[str]]:
    """Return the instruction set in use and all that this CPU has, from the least to the most."""
    return _core.levels()


def _distance(formula: Formula) -> _core.Distance:
    return _core.Distance(formula.kind, p=formula.p, power=formula.power, normalize=formula.normalize)
