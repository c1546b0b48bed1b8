"""A file as read-only memory, with a way to hand its pages back."""

import mmap
import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import numpy as np
import numpy.typing as npt

RELEASE_EVERY = 0.001  # seconds; readers on two fast cores touch a hundred megabytes and more in five times that


class MappedFile:
    """A whole file, mapped.

    Arrays made of it share its pages, which the system reads on first touch and may drop at any time. Linux counts
    every page touched as the process's own until the process says otherwise, though: `released` does so.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open(path, "rb") as stream:
            self.size = os.fstat(stream.fileno()).st_size
            if self.size == 0:
                raise ValueError(f"{os.fspath(path)} is empty")
            self._mapping = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        if hasattr(mmap, "MADV_NOHUGEPAGE"):
            # Otherwise the touch of one row maps two megabytes.
            self._mapping.madvise(mmap.MADV_NOHUGEPAGE)

    def __getitem__(self, part: slice) -> bytes:
        return self._mapping[part]

    def array(
        self,
        dtype: npt.DTypeLike,
        shape: tuple[int, ...],
        offset: int,
        *,
        strides: tuple[int, ...] | None = None,
        fortran: bool = False,
    ) -> npt.NDArray[Any]:
        """Return a read-only view; nothing is read yet."""
        if 0 in shape:
            return np.empty(shape, dtype)
        return np.ndarray(shape, dtype, self._mapping, offset, strides, order="F" if fortran else "C")

    def release(self) -> None:
        """Give the pages touched so far back; a later touch finds them in the system's cache, or reads them again."""
        if hasattr(mmap, "MADV_DONTNEED"):
            self._mapping.madvise(mmap.MADV_DONTNEED)


@contextmanager
def released(*files: MappedFile | None) -> Iterator[None]:
    """Keep the resident memory of mapped files small while the body reads them."""
    mapped = [file for file in files if file is not None]
    if not mapped:
        yield
        return
    done = Event()

    def give_back() -> None:
        while not done.wait(RELEASE_EVERY):
            for file in mapped:
                file.release()

    thread = Thread(target=give_back, name="nearwise-release", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
