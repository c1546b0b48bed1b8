"""Where the tensors of a .safetensors file lie. Its header is checked before any of it is believed."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

_BITS = {"F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
         "I8": 8, "U8": 8, "BOOL": 8}  # fmt: skip


class Tensor(NamedTuple):
    """One tensor: its element type as the format spells it, its shape, and its first byte in the file."""

    dtype: str
    shape: tuple[int, ...]
    offset: int


def tensors(path: Path, size: int, read: Callable[[int, int], bytes]) -> dict[str, Tensor]:
    """Return the tensors of a file by name.

    Parameters
    ----------
    path
        Its name, for messages.
    size
        Its bytes.
    read
        Returns the bytes from one position to another.

    Raises
    ------
    ValueError
        No header, or one that says what cannot be.
    """
    length = int.from_bytes(read(0, 8), "little")
    try:
        header = json.loads(read(8, 8 + length)) if size >= 8 and length <= size - 8 else None
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ValueError(f"{path}: not a safetensors file: no header of {length} bytes")
    first = 8 + length
    return {name: _tensor(path, name, entry, first, size) for name, entry in header.items() if name != "__metadata__"}


def _tensor(path: Path, name: str, entry: Any, first: int, size: int) -> Tensor:
    if not isinstance(entry, dict) or not entry.keys() >= {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{path}: damaged: {name!r} must have dtype, shape and data_offsets, got {entry!r:.80}")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    if not isinstance(dtype, str):
        raise ValueError(f"{path}: damaged: the dtype of {name!r} must be a name, got {dtype!r:.80}")
    if not _counts(shape):
        raise ValueError(f"{path}: damaged: the shape of {name!r} must be numbers from 0, got {shape!r:.80}")
    if not _counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        raise ValueError(f"{path}: damaged: the data_offsets of {name!r} must be two numbers, got {offsets!r:.80}")
    start, stop = offsets
    if first + stop > size:
        raise ValueError(f"{path}: damaged: its header asks for {first + stop} bytes, the file has {size}")
    # The size of an element type that is newer than this list is not ours to judge.
    expected = _BITS.get(dtype, 0) // 8
    for length in shape:
        expected *= length
    if dtype in _BITS and stop - start != expected:
        raise ValueError(f"{path}: damaged: {stop - start} bytes for {dtype}{shape} in {name!r}")
    return Tensor(dtype, tuple(shape), first + start)


def _counts(value: Any) -> bool:
    return isinstance(value, list) and all(type(number) is int and number >= 0 for number in value)
