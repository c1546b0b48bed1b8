"""Labels from files: beside the embeddings, or on their own."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from nearwise.cli import safetensors
from nearwise.cli.damage import damage_named
from nearwise.cli.reading import npy_header, split_name

Array = npt.NDArray[Any]
NAMES = ("labels", "label")
_SAFETENSORS = {"I64": "<i8", "I32": "<i4", "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?"}


def read_labels(path: str) -> Array:
    """Read one label per row.

    Parameters
    ----------
    path
        An .npy file; an .npz, .safetensors or .parquet file with labels named `labels` or `label`, the only ones it
        holds, or those of `FILE:NAME`; or a .txt file with one label per line.

    Returns
    -------
    numpy.ndarray
        Numbers or strings; one dimension.

    Raises
    ------
    ValueError
        Another format, a damaged file, no labels or several without a name, or more than one dimension.
    OSError
        The file cannot be read.
    """
    file, name = split_name(path)
    reader = _READERS.get(file.suffix.lower())
    if reader is None:
        raise ValueError(f"{file}: unknown format {file.suffix!r} of labels, expected one of {' '.join(_READERS)}")
    found = reader(file)
    return _checked(found[_pick(path, found, name)], path)


def labels_beside(path: str) -> Array | None:
    """Read the labels that a file of embeddings holds as well, or None where it holds none.

    Raises
    ------
    ValueError
        A damaged file, or several arrays that may be the labels.
    OSError
        The file cannot be read.
    """
    file, _ = split_name(path)
    reader = _READERS.get(file.suffix.lower())
    if path == "-" or reader is None or file.suffix.lower() in (".npy", ".txt"):
        return None
    found = reader(file)
    return _checked(found[_pick(file, found, None)], str(file)) if found else None


def plain(label: Any) -> Any:
    """Return a label as JSON can hold it: a number, a truth value or a string."""
    value = label.item() if isinstance(label, np.generic) else label
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _pick(path: object, found: Mapping[str, object], name: str | None) -> str:
    listed = ", ".join(found) or "none"
    if name is not None:
        if name not in found:
            raise ValueError(f"{path}: no labels {name!r}, it holds {listed}")
        return name
    chosen = [each for each in NAMES if each in found] or (list(found) if len(found) == 1 else [])
    if not chosen:
        raise ValueError(f"{path}: expected labels named {' or '.join(NAMES)}, or FILE:NAME; it holds {listed}")
    return chosen[0]


def _checked(labels: Array, path: str) -> Array:
    if labels.ndim == 2 and labels.shape[1] == 1:
        labels = labels[:, 0]
    if labels.ndim != 1:
        raise ValueError(f"{path}: expected one label per row, got shape {labels.shape}")
    if labels.dtype.kind not in "biufUSO":
        raise ValueError(f"{path}: labels must be numbers or strings, got {labels.dtype.name}")
    return labels


def _read_npy(path: Path) -> dict[str, Array]:
    with path.open("rb") as stream, damage_named(path, "an .npy file of labels"):
        return {"labels": np.lib.format.read_array(stream, allow_pickle=False)}


def _read_npz(path: Path) -> dict[str, Array]:
    found = {}
    with (
        path.open("rb") as stream,
        damage_named(path, "an .npz file of labels"),
        np.lib.npyio.NpzFile(stream) as archive,
    ):
        for name in archive.files:
            # Embeddings are left where they are.
            if name in NAMES or len(_shape(archive, name)) == 1:
                found[name] = archive[name]
    return found


def _shape(archive: Any, name: str) -> tuple[int, ...]:
    with archive.zip.open(f"{name}.npy") as stream:
        return npy_header(stream)[0]


def _read_safetensors(path: Path) -> dict[str, Array]:
    with path.open("rb") as stream:

        def read(start: int, stop: int) -> bytes:
            stream.seek(start)
            return stream.read(max(0, min(stop, size) - start))

        size = path.stat().st_size
        found = {}
        for name, tensor in safetensors.tensors(path, size, read).items():
            if len(tensor.shape) == 1 and tensor.dtype in _SAFETENSORS:
                dtype = np.dtype(_SAFETENSORS[tensor.dtype])
                content = read(tensor.offset, tensor.offset + dtype.itemsize * tensor.shape[0])
                found[name] = np.frombuffer(content, dtype)
    return found


def _read_parquet(path: Path) -> dict[str, Array]:
    from nearwise.cli.parquet import read_labels as read_columns

    return read_columns(path)


def _read_txt(path: Path) -> dict[str, Array]:
    try:
        # A label may hold what str.splitlines takes for the end of a line.
        lines = path.read_text(encoding="utf-8-sig").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not a text file in UTF-8: {error}") from None
    return {"labels": np.array([] if lines == [""] else lines, dtype=str)}


_READERS: dict[str, Callable[[Path], dict[str, Array]]] = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".safetensors": _read_safetensors,
    ".parquet": _read_parquet,
    ".txt": _read_txt,
}
LABEL_FORMATS = tuple(_READERS)
