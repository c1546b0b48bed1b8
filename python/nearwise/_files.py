"""Files that are whole or absent, whenever the process is killed."""

from __future__ import annotations

import errno
import os
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def put_in_place(unfinished: Path, target: Path) -> Iterator[None]:
    """Rename `unfinished`, which the body writes, to `target` once it is on disk; on an error remove it.

    Raises
    ------
    FileNotFoundError, IsADirectoryError
        The folder of `target` does not exist, or `target` is one.
    """
    if not target.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(target.parent))
    if target.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    try:
        yield
        with unfinished.open("r+b") as written:
            os.fsync(written.fileno())
        unfinished.replace(target)
    except BaseException:
        unfinished.unlink(missing_ok=True)
        raise


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file that takes the place of `path` once it is written and on disk; on an error `path` stays as it was.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp(), "a.txt")
    >>> with replacing(path) as file:
    ...     _ = file.write(b"whole")
    >>> path.read_bytes()
    b'whole'
    """
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.tmp")
    with put_in_place(unfinished, path), unfinished.open("wb") as file:
        yield file


def remove_unfinished(folder: str | os.PathLike[str], ending: str) -> None:
    """Remove what killed processes left of files with an ending."""
    for path in Path(folder).glob(f".*{ending}.tmp"):
        path.unlink(missing_ok=True)
