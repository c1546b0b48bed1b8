"""Search by a user's own distance: its matrix, block by block, into an exact top-k."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _arrays, backends

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from nearwise.backends import Options
    from nearwise.distances import Distance


def search(sides: _arrays.Pair, k: int, distance: Distance, options: Options) -> tuple[Any, Any]:
    """Return (distances, indices), both (queries, k), of the query's kind.

    `distance` is called once, or once for each ``options.batch`` query rows, with the caller's own arrays and without
    recording a graph. Only the k best columns of a block outlive it. float16 and bfloat16 matrices come back as
    float32, whole numbers as float64, the rest in their own type; equal values rank by index, NaN last.
    """
    if not options.nan_last:
        for argument, side in zip(("query", "reference"), sides, strict=True):
            row = _arrays.first_nan_row(side)
            if row is not None:
                raise ValueError(f"{argument} must not contain NaN (see nan_policy), found NaN in row {row}")
    query = sides.query
    step = options.batch or max(1, len(query))
    found, indices = [], []
    # No query rows still ask the distance once: its matrix says the type of the result.
    for start in range(0, max(1, len(query)), step):
        block = query.slice(start, start + step)
        values, columns = _block(block, sides.reference, k, distance, start, options)
        found.append(values)
        indices.append(columns)
        if options.progress is not None:
            options.progress(start + len(block), len(query))
    return query.give_back(_joined(found)), query.give_back(_joined(indices))


def _block(
    block: _arrays.Rows, reference: _arrays.Rows, k: int, distance: Distance, start: int, options: Options
) -> tuple[Any, Any]:
    with _no_grad(block):
        answer = distance(block.give_back(block.given), reference.give_back(reference.given))
    expected = (len(block), len(reference))
    shape = tuple(getattr(answer, "shape", expected))
    if len(shape) != len(expected):
        raise ValueError(f"distance must return a matrix (queries, references) of shape {expected}, got {shape}")
    matrix = _arrays.rows(answer, "the distance's matrix", any_dtype=True)
    if tuple(matrix.given.shape) != expected:
        raise ValueError(f"distance must return a matrix of shape {expected}, got {tuple(matrix.given.shape)}")
    if matrix.kind != block.kind:
        raise TypeError(f"distance must return the kind that it is called with, got {block.where} and {matrix.where}")
    matrix = _widened(matrix)
    columns = backends.get("auto", matrix.device).topk(
        matrix,
        k,
        largest=distance.is_inverted,
        self_offset=start if options.exclude_self else None,
        threads=options.threads,
    )
    if _arrays.is_tensor(matrix.given):
        columns = matrix.give_back(columns)
        return matrix.given.gather(1, columns), columns
    return np.take_along_axis(matrix.given, columns, axis=1), columns


def _widened(matrix: _arrays.Rows) -> _arrays.Rows:
    """Return halves as float32 and whole numbers as float64, in both of which they are themselves."""
    if matrix.dtype in ("float32", "float64"):
        return matrix
    to = "float32" if matrix.dtype in _arrays.FLOATS else "float64"
    if _arrays.is_tensor(matrix.given):
        import torch

        if matrix.given.is_complex():
            raise TypeError(f"distance must return real numbers, got {matrix.dtype}")
        given = matrix.given.to(getattr(torch, to))
    else:
        if matrix.given.dtype.kind not in "biu" and matrix.dtype not in _arrays.FLOATS:
            raise TypeError(f"distance must return real numbers, got {matrix.dtype}")
        given = matrix.given.astype(to)
    return _arrays.Rows(given, matrix.kind, matrix.device, to, matrix.namespace)


def _no_grad(block: _arrays.Rows) -> AbstractContextManager[Any]:
    if not _arrays.is_tensor(block.given):
        return nullcontext()
    import torch

    return torch.no_grad()


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    if _arrays.is_tensor(parts[0]):
        import torch

        return torch.cat(parts)
    return np.concatenate(parts)
