"""Neighbours into files. A file appears whole or not at all."""

import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearwise._files import put_in_place

Array = npt.NDArray[Any]
VECS = (".ivecs", ".fvecs")


def check_target(path: str, formats: tuple[str, ...]) -> None:
    """Refuse early what could not be written after the work: a path whose extension is none of `formats`.

    Raises
    ------
    ValueError
        No known format.
    FileNotFoundError
        The folder does not exist.
    IsADirectoryError
        A folder stands there.
    """
    target = Path(path)
    if target.suffix.lower() not in formats:
        raise ValueError(f"{path}: unknown format {target.suffix!r}, expected one of {' '.join(formats)}")
    if not target.resolve().parent.is_dir():
        raise FileNotFoundError(f"{path}: no folder {target.resolve().parent}")
    for each in _pair(target) if target.suffix.lower() in VECS else (target,):
        if each.is_dir():
            raise IsADirectoryError(f"{each}: a folder stands there")


def write_neighbors(path: str, distances: Array, indices: Array) -> list[Path]:
    """Write neighbours in the format of the path's extension.

    Parameters
    ----------
    path
        `.npz` (arrays `distances` and `indices`), `.parquet` (list columns of these names), or `.ivecs` or `.fvecs`:
        both of these are written, indices as int32 and distances as float32.
    distances, indices
        Shape (queries, k).

    Returns
    -------
    list of Path
        What was written.

    Raises
    ------
    ValueError
        No known format, or indices too large for it.
    OSError
        The file cannot be written; what stood there before still does.
    """
    check_target(path, FORMATS)
    target = Path(path)
    return _WRITERS[target.suffix.lower()](target, distances, indices)


def _write_npz(target: Path, distances: Array, indices: Array) -> list[Path]:
    with replaced(target) as path, path.open("wb") as stream:
        np.savez(stream, distances=distances, indices=indices)
    return [target]


def _write_parquet(target: Path, distances: Array, indices: Array) -> list[Path]:
    from nearwise.cli import parquet

    with replaced(target) as path:
        parquet.write_neighbors(path, distances, indices)
    return [target]


def _write_vecs(target: Path, distances: Array, indices: Array) -> list[Path]:
    if indices.size and indices.max() > np.iinfo(np.int32).max:
        raise ValueError(f"{target}: .ivecs holds 32-bit indices, got {indices.max()}")
    of_indices, of_distances = _pair(target)
    with replaced(of_indices) as first, replaced(of_distances) as second:
        _vecs(indices.astype("<i4")).tofile(first)
        _vecs(distances.astype("<f4")).tofile(second)
    return [of_indices, of_distances]


def _pair(target: Path) -> tuple[Path, Path]:
    return target.with_suffix(".ivecs"), target.with_suffix(".fvecs")


def _vecs(rows: Array) -> Array:
    """Put each row's length, as an int32, before it."""
    records = np.empty((rows.shape[0], rows.shape[1] + 1), "<i4")
    records[:, 0] = rows.shape[1]
    records[:, 1:] = rows.view("<i4")
    return records


@contextmanager
def replaced(target: Path) -> Iterator[Path]:
    """Give a path beside the target to write; put it in the target's place when the body succeeds.

    Errors name the target and not that path.

    Examples
    --------
    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replaced(target) as path:
    ...     _ = path.write_text("1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    given, target = target, target.resolve()
    path = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        with put_in_place(path, target):
            yield path
    except OSError as error:
        what = (error.strerror or str(error)).replace(str(path), str(target))
        named = OSError(error.errno, what, str(given)) if error.errno else OSError(f"{given}: {what}")
        raise named from error


_WRITERS: dict[str, Callable[[Path, Array, Array], list[Path]]] = {
    ".npz": _write_npz,
    ".ivecs": _write_vecs,
    ".fvecs": _write_vecs,
    ".parquet": _write_parquet,
}
FORMATS = tuple(_WRITERS)
