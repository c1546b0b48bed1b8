"""Embeddings from files: which formats, and one reader for each.

Formats that store rows as they are in memory are mapped, not read: `.npy`, `.fvecs`, `.fbin`, `.safetensors`. The
others (`.npz`, `.bvecs`, Parquet) become an array in memory.
"""

import os
import sys
from collections.abc import Callable, Mapping
from io import BytesIO
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from nearwise.cli import safetensors
from nearwise.cli.damage import damage_named
from nearwise.cli.mapped import MappedFile

Array = npt.NDArray[Any]
_WIDER = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}
FLOATS = ("float16", "bfloat16", "float32", "float64")
STANDARD_INPUT = "standard input"
_LENGTHS_AT_ONCE = 1 << 16


class Source(NamedTuple):
    """Rows, and the file behind them where they are mapped."""

    rows: Array
    file: MappedFile | None = None


def read_rows(path: str) -> Source:
    """Open a matrix of embeddings.

    Parameters
    ----------
    path
        A file of one of `formats()`, `FILE:NAME` for one array, tensor or column of several, or `-` for an .npy or .npz
        on standard input (`-:NAME` for one array of several).

    Returns
    -------
    Source
        Two-dimensional rows, float16, bfloat16, float32 or float64 as stored (.bvecs as float16, which holds its bytes
        exactly).

    Raises
    ------
    ValueError
        Another format, a damaged file, or no or several matrices in it and no name.
    OSError
        The file cannot be read.
    """
    if path == "-" or path.startswith("-:"):
        if sys.stdin is None:
            raise ValueError(f"{STANDARD_INPUT}: it is closed")
        return _checked(_read_stream(sys.stdin.buffer.read(), path[2:] or None), STANDARD_INPUT)
    file, name = split_name(path)
    if not path or file.is_dir():
        raise ValueError(f"{path!r} is no file but {'a folder' if path else 'empty'}: name a file of embeddings")
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise ValueError(f"{file}: unknown format {file.suffix!r}, expected one of {' '.join(formats())}")
    if name is not None and reader in (_read_npy, _read_fvecs, _read_bvecs, _read_fbin):
        raise ValueError(f"{file}: no {name!r}: a file of this format holds one matrix, without a name")
    return _checked(reader(file, name), path)


def widened(source: Source, like: Source) -> Source:
    """Return rows in the element type of others, where that holds every value exactly; as they are where it does not.

    Examples
    --------
    >>> import numpy as np
    >>> half, single = (Source(np.zeros((1, 2), dtype)) for dtype in ("float16", "float32"))
    >>> widened(half, single).rows.dtype.name, widened(single, half).rows.dtype.name
    ('float32', 'float32')
    """
    if like.rows.dtype.name in _WIDER.get(source.rows.dtype.name, ()):
        return Source(source.rows.astype(like.rows.dtype))
    return source


def formats() -> list[str]:
    """Return the file name extensions that can be read."""
    return list(_READERS)


def _checked(source: Source, path: str) -> Source:
    rows = source.rows
    if rows.ndim != 2:
        raise ValueError(f"{path}: expected a matrix (rows, features), got shape {rows.shape}")
    if rows.dtype.name not in FLOATS:
        raise ValueError(f"{path}: expected float16, bfloat16, float32 or float64, got {rows.dtype.name}")
    return source


def split_name(path: str) -> tuple[Path, str | None]:
    """Return the file of `FILE` or `FILE:NAME`, and the name."""
    before, colon, name = path.rpartition(":")
    if colon and name and not os.path.exists(path) and os.path.exists(before):
        return Path(before), name
    return Path(path), None


def _pick(path: object, matrices: Mapping[str, str], name: str | None) -> str:
    """Return the name of the matrix to read; `matrices` maps each name to what it is, for messages."""
    if name is None and len(matrices) == 1:
        return next(iter(matrices))
    if name is not None and name in matrices:
        return name
    listed = ", ".join(f"{key} {what}" for key, what in matrices.items()) or "no matrix of floats"
    if name is None:
        raise ValueError(f"{path}: name one as {path}:NAME, it holds {listed}" if matrices else f"{path} has {listed}")
    raise ValueError(f"{path}: no {name!r}, it holds {listed}")


def _read_npy(path: Path, _name: str | None) -> Source:
    with path.open("rb") as stream:
        with damage_named(path, "an .npy file"):
            shape, fortran, dtype = npy_header(stream)
        offset = stream.tell()
    if dtype.hasobject:
        raise ValueError(f"{path}: expected numbers, got Python objects")
    if any(length < 0 for length in shape):
        raise ValueError(f"{path}: damaged: its header says shape {shape}")
    file = MappedFile(path)
    _check_size(path, offset + dtype.itemsize * int(np.prod(shape, dtype=object)), file.size)
    return Source(file.array(dtype, shape, offset, fortran=fortran), file)


def npy_header(stream: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, whether columns lie one after the other, and element type from the start of an .npy file."""
    version = np.lib.format.read_magic(stream)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(stream)


def _read_npz(path: Path | BytesIO, name: str | None) -> Source:
    label = path if isinstance(path, Path) else STANDARD_INPUT
    with damage_named(label, "an .npz file"):
        archive = np.load(path, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError(f"{label}: not an .npz file: it holds a single array, as an .npy file does")
    with archive:
        if name in archive.files:
            with damage_named(f"{label}:{name}", "an array"):
                return Source(archive[name])
        arrays = {}
        for key in archive.files:
            with damage_named(f"{label}:{key}", "an array"):
                arrays[key] = archive[key]
    matrices = {key: array for key, array in arrays.items() if array.ndim == 2 and array.dtype.kind in "fV"}
    described = {key: f"{array.dtype.name}{list(array.shape)}" for key, array in matrices.items()}
    return Source(matrices[_pick(label, described, name)])


def _read_stream(content: bytes, name: str | None) -> Source:
    if content.startswith(b"\x93NUMPY"):
        if name is not None:
            raise ValueError(f"{STANDARD_INPUT}: no {name!r}: an .npy file holds one matrix, without a name")
        with damage_named(STANDARD_INPUT, "an .npy file"):
            return Source(np.load(BytesIO(content), allow_pickle=False))
    if content.startswith(b"PK"):
        return _read_npz(BytesIO(content), name)
    raise ValueError(f"{STANDARD_INPUT}: expected an .npy or .npz file, got {len(content)} bytes of something else")


def _read_vecs(path: Path, dtype: str) -> Source:
    """Rows that each begin with their length as an int32."""
    file = MappedFile(path)
    features = int.from_bytes(file[0:4], "little", signed=True)
    item = np.dtype(dtype).itemsize
    record = 4 + item * features
    if features <= 0 or file.size % record:
        raise ValueError(f"{path}: damaged: {file.size} bytes are no whole rows of {features} values")
    count = file.size // record
    lengths = file.array("u1", (count, 4), 0, strides=(record, 1))
    expected = np.frombuffer(file[0:4], "u1")
    for start in range(0, count, _LENGTHS_AT_ONCE):
        wrong = (lengths[start : start + _LENGTHS_AT_ONCE] != expected).any(axis=1)
        if wrong.any():
            row = start + int(wrong.argmax())
            found = int.from_bytes(lengths[row].tobytes(), "little", signed=True)
            raise ValueError(f"{path}: damaged: row {row} says it has {found} values, row 0 has {features}")
        file.release()
    return Source(file.array(dtype, (count, features), 4, strides=(record, item)), file)


def _read_fvecs(path: Path, _name: str | None) -> Source:
    return _read_vecs(path, "<f4")


def _read_bvecs(path: Path, _name: str | None) -> Source:
    return Source(_read_vecs(path, "u1").rows.astype(np.float16))


def _read_fbin(path: Path, _name: str | None) -> Source:
    file = MappedFile(path)
    count, features = (int.from_bytes(file[start : start + 4], "little") for start in (0, 4))
    _check_size(path, 8 + 4 * count * features, file.size)
    return Source(file.array("<f4", (count, features), 8), file)


def _read_safetensors(path: Path, name: str | None) -> Source:
    file = MappedFile(path)
    tensors = safetensors.tensors(path, file.size, lambda start, stop: file[start:stop])
    dtypes = {"F16": "<f2", "BF16": "bfloat16", "F32": "<f4", "F64": "<f8"}
    matrices = {
        key: f"{each.dtype}{list(each.shape)}"
        for key, each in tensors.items()
        if each.dtype in dtypes and len(each.shape) == 2
    }
    tensor = tensors[_pick(path, matrices, name)]
    dtype = _bfloat16() if tensor.dtype == "BF16" else np.dtype(dtypes[tensor.dtype])
    return Source(file.array(dtype, tensor.shape, tensor.offset), file)


def _bfloat16() -> np.dtype[Any]:
    try:
        import ml_dtypes
    except ModuleNotFoundError:
        raise ModuleNotFoundError("bfloat16 files need ml_dtypes: pip install 'nearwise[cli]'") from None
    dtype: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
    return dtype


def _read_parquet(path: Path, name: str | None) -> Source:
    from nearwise.cli.parquet import read_matrix

    return Source(read_matrix(path, name, _pick))


def _check_size(path: Path, expected: int, size: int) -> None:
    if size != expected:
        raise ValueError(f"{path}: damaged: its header asks for {expected} bytes, the file has {size}")


_READERS: dict[str, Callable[[Path, str | None], Source]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".fvecs": _read_fvecs,
    ".bvecs": _read_bvecs,
    ".fbin": _read_fbin,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
}
