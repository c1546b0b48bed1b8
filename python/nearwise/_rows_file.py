"""Rows in a file: a header that says what they are, then the rows as memory has them, to be mapped.

The file starts with a magic word, the version, and the length and CRC-32 of a JSON header; the rows begin at a multiple
of 64 bytes, and the header holds their CRC-32. A file is written under another name, synchronised and renamed, so
there is never half of one under its own name.
"""

from __future__ import annotations

import json
import os
import secrets
import struct
import sys
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nearwise import _arrays
from nearwise._files import put_in_place
from nearwise._formula import Formula

if TYPE_CHECKING:
    from numpy.typing import NDArray

_MAGIC = b"\x93nearwise rows\r\n"
_VERSION = 1
_START = struct.Struct("<III")
_ALIGNED = 64
_MOST_HEADER = 1 << 16
_BLOCK_BYTES = 1 << 24
_STORED = {"float16": "<f2", "bfloat16": "<u2", "float32": "<f4", "float64": "<f8"}


def write(filename: str | os.PathLike[str], rows: _arrays.Stored, formula: Formula | None) -> None:
    """Write `rows`, and the distance that they are searched by, to exactly this name."""
    path = Path(os.path.realpath(filename))
    # A name of its own, so that two that write at once do not write into each other's.
    other = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    with put_in_place(other, path), other.open("xb") as file:
        offset = file.write(_start(rows, formula, 0))
        check = 0
        for block in _blocks(rows.array):
            check = zlib.crc32(block, check)
            file.write(block)
        file.seek(0)
        if file.write(_start(rows, formula, check)) != offset:
            raise AssertionError("a header has one length")
    if os.name == "posix":
        # A name is on disk when its folder is.
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read(filename: str | os.PathLike[str]) -> tuple[_arrays.Stored, Formula | None]:
    """Map what `write` wrote.

    Raises
    ------
    ValueError
        The file is another's, of a newer version, cut off, or damaged.
    """
    name = os.fspath(filename)
    with open(filename, "rb") as file:
        start = file.read(len(_MAGIC) + _START.size)
        if len(start) < len(_MAGIC) + _START.size or not start.startswith(_MAGIC):
            raise ValueError(f"{name} must be a file that save wrote, got something else")
        version, length, check = _START.unpack(start[len(_MAGIC) :])
        if version != _VERSION:
            raise ValueError(f"{name} must be a file of version {_VERSION}, got version {version}")
        text = file.read(length) if length <= _MOST_HEADER else b""
        size = os.fstat(file.fileno()).st_size
    if len(text) != length or zlib.crc32(text) != check:
        raise ValueError(f"{name} must be a whole file, got a damaged header")
    try:
        header = json.loads(text)
        dtype, shape, distance = header["dtype"], (header["rows"], header["features"]), header["distance"]
        stored = np.dtype(_STORED[dtype])
        formula = None if distance is None else Formula(**{**distance, **_floats(distance)})
        expected, rows_check = int(header["size"]), int(header["check"], 16)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a file that save wrote, got an unknown header") from error
    if size != expected:
        raise ValueError(f"{name} must be a whole file of {expected} bytes, got {size}")
    offset = expected - stored.itemsize * shape[0] * shape[1]
    if min(shape) < 1 or offset < len(start) + length:
        raise ValueError(f"{name} must be a file that save wrote, got an unknown header")
    array = np.memmap(filename, stored, "r", offset, shape)
    found = 0
    for block in _blocks(array):
        found = zlib.crc32(block, found)
    if found != rows_check:
        raise ValueError(f"{name} must be an undamaged file, got rows with another checksum")
    return _arrays.Stored(array, dtype), formula


def _start(rows: _arrays.Stored, formula: Formula | None, check: int) -> bytes:
    distance = None
    if formula is not None:
        numbers = {"p": formula.p, "power": formula.power, "normalize": formula.normalize}
        distance = asdict(formula) | {name: None if x is None else float(x).hex() for name, x in numbers.items()}
    count, features = rows.array.shape

    def with_size(size: int) -> bytes:
        header = {"dtype": rows.dtype, "rows": count, "features": features, "distance": distance}
        text = json.dumps(header | {"size": f"{size:020}", "check": f"{check:08x}"}).encode()
        start = _MAGIC + _START.pack(_VERSION, len(text), zlib.crc32(text)) + text
        return start + bytes(-len(start) % _ALIGNED)

    return with_size(len(with_size(0)) + count * features * rows.array.dtype.itemsize)


def _floats(distance: dict[str, Any]) -> dict[str, float | None]:
    given = {name: distance[name] for name in ("p", "power", "normalize")}
    return {name: None if text is None else float.fromhex(text) for name, text in given.items()}


def _blocks(array: NDArray[Any]) -> Any:
    """Yield the rows as bytes, some at a time."""
    some = max(1, _BLOCK_BYTES // max(1, array.shape[1] * array.dtype.itemsize))
    for start in range(0, len(array), some):
        block = np.ascontiguousarray(array[start : start + some])
        if sys.byteorder == "big":
            block = block.astype(block.dtype.newbyteorder("<"))
        yield block.reshape(-1).view(np.uint8).data
