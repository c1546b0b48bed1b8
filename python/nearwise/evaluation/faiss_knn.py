"""`FaissKNN`: search by any Faiss index, on the CPU or on GPUs.

Faiss is imported when an object is constructed, never when this module is. Its own distances are float32 and may
differ from the exact ones in the last digits; ties come in its own order.
"""

from __future__ import annotations

import logging
import os
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

import numpy as np

from nearwise import _arrays, neighbors
from nearwise._arguments import check_callable, check_included, checked_flag, positive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nearwise._arrays import Rows

    NDArray = np.ndarray[Any, Any]

_logger = logging.getLogger(__name__)

# Faiss's own limit for k on a GPU (DeviceDefs.cuh).
MAX_GPU_K = 2048


def load() -> Any:
    """Import Faiss.

    Raises
    ------
    ModuleNotFoundError
        It is not installed; the message names the extra.
    """
    try:
        import faiss
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this needs Faiss: install nearwise[faiss]") from error
    return faiss


def single(side: Rows) -> NDArray:
    """Return rows as Faiss takes them: contiguous float32 on the CPU; a copy only where they are not that already."""
    array = side.numpy()
    if side.dtype == "bfloat16":
        array = (array.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(array, dtype=np.float32)


def refuse_nan(side: Rows, argument: str) -> None:
    """Raise ValueError if any row holds NaN, for which Faiss returns anything."""
    row = _arrays.first_nan_row(side)
    if row is not None:
        raise ValueError(f"{argument} must not contain NaN, found NaN in row {row}")


class FaissKNN:
    """Nearest neighbours by a Faiss index, with the call signature of a ``knn_func``.

    Parameters
    ----------
    reset_before : bool, default True
        Build a new index for every call. Otherwise a call searches the index that is there, to which a `reference` is
        appended first.
    reset_after : bool, default True
        Drop the index after every call, a failed one included.
    index_init_fn : callable, optional
        From the number of features to a Faiss index; ``faiss.IndexFlatL2`` by default (squared Euclidean distance).
    gpus : list or tuple of int, optional
        The GPUs to search on. Without it, queries on CUDA use all that Faiss sees.

    Attributes
    ----------
    index : faiss.Index or None
        The present index; assignable.

    Raises
    ------
    ModuleNotFoundError
        Faiss is not installed.
    TypeError
        `gpus` is no list or tuple, `index_init_fn` cannot be called, or a flag is no bool.
    ValueError
        `gpus` is empty.

    Notes
    -----
    A GPU is used if Faiss was built for GPUs and sees one, the query is on CUDA or `gpus` is given, and no more than
    2,048 neighbours (one more than asked for if the query is in the reference) are searched; if only the last does
    not hold, a warning is logged and the CPU searches. Give an ``AccuracyCalculator`` an instance with
    ``reset_before=True``: it passes its reference in every call.

    Examples
    --------
    >>> import numpy as np
    >>> query = np.array([[0.0, 0.0], [3.0, 0.0]], dtype=np.float32)
    >>> reference = np.array([[0.0, 1.0], [3.0, 0.5], [9.0, 9.0]], dtype=np.float32)
    >>> distances, indices = FaissKNN()(query, 1, reference)
    >>> distances.tolist(), indices.tolist()
    ([[1.0], [0.25]], [[0], [1]])
    """

    # Tells the evaluation that it may pass every kind of input.
    _reads_arrays = True

    def __init__(
        self,
        reset_before: bool = True,
        reset_after: bool = True,
        index_init_fn: Callable[[int], Any] | None = None,
        gpus: Sequence[int] | None = None,
    ) -> None:
        if gpus is not None:
            if not isinstance(gpus, list | tuple):
                raise TypeError(f"gpus must be a list or tuple of GPU numbers, got {type(gpus).__name__}")
            if not gpus:
                raise ValueError("gpus must not be empty")
        check_callable("index_init_fn", index_init_fn)
        faiss = load()
        self.reset_before = checked_flag("reset_before", reset_before)
        self.reset_after = checked_flag("reset_after", reset_after)
        self.index_init_fn = faiss.IndexFlatL2 if index_init_fn is None else index_init_fn
        self.gpus = gpus
        self.index: Any = None

    def __call__(
        self, query: Any, k: SupportsIndex, reference: Any = None, ref_includes_query: bool = False
    ) -> neighbors.Neighbors:
        """Return the k nearest rows of the index for every query row.

        Parameters
        ----------
        query : array or tensor of shape (queries, features)
            float16, bfloat16, float32 or float64; Faiss gets float32.
        k : int
            Number of neighbours.
        reference : array or tensor of shape (references, features), optional
            Of the same kind, device and dtype; searched alone with ``reset_before``, else appended to the index.
        ref_includes_query : bool, default False
            Search one more, and leave row i without index i, or without its last entry if that does not occur.

        Returns
        -------
        Neighbors
            ``(distances, indices)`` of shape (queries, k), float32 and int64, of the query's kind and on its device.

        Raises
        ------
        TypeError, ValueError
            As `nearwise.knn`; nothing to search.
        """
        ref_includes_query = checked_flag("ref_includes_query", ref_includes_query)
        k = positive("k", k) + ref_includes_query
        try:
            side, added = _sides(query, reference)
            self._prepare(side, added)
            _logger.info("searching the %d nearest of %d rows of %d features", k, self._total(added), side.features)
            if ref_includes_query:
                check_included(len(side), self._total(added))
            if k > self._total(added):
                available = self._total(added) - ref_includes_query
                raise ValueError(f"k must be between 1 and {available}, got {k - ref_includes_query}")
            found, indices = self._search(side, added, k)
        finally:
            if self.reset_after:
                self.reset()
        if ref_includes_query:
            found, indices = _without_self(found, indices)
        return neighbors.Neighbors(side.give_back(found), side.give_back(indices))

    def train(self, embeddings: Any) -> None:
        """Make a new index that holds `embeddings` (rows, features)."""
        side = _arrays.rows(embeddings, "embeddings")
        refuse_nan(side, "embeddings")
        self.index = self.index_init_fn(side.features)
        self._add(single(side))

    def add(self, embeddings: Any) -> None:
        """Append `embeddings` (rows, features) to the index.

        Raises
        ------
        ValueError
            There is no index yet, or it has rows of another length.
        """
        if self.index is None:
            raise ValueError("index must exist before rows are added: call train or load first")
        side = _arrays.rows(embeddings, "embeddings")
        refuse_nan(side, "embeddings")
        self._check_features(side, "embeddings")
        self._add(single(side))

    def save(self, filename: str | os.PathLike[str]) -> None:
        """Write the index to a file, as a CPU index.

        Raises
        ------
        ValueError
            There is no index.
        OSError
            The file cannot be written.
        """
        if self.index is None:
            raise ValueError("index must exist before it is saved: call train or load first")
        try:
            load().write_index(_on_cpu(self.index), os.fspath(filename))
        except RuntimeError as error:
            raise OSError(f"filename must name a file that can be written, got {os.fspath(filename)!r}") from error

    def load(self, filename: str | os.PathLike[str]) -> None:
        """Read an index from a file.

        Raises
        ------
        OSError
            The file cannot be read.
        ValueError
            It holds no index.
        """
        try:
            self.index = load().read_index(os.fspath(filename))
        except RuntimeError as error:
            with open(filename, "rb"):  # says why it cannot be read, if that is the reason
                pass
            raise ValueError(f"filename must name a file with a Faiss index, got {os.fspath(filename)!r}") from error

    def reset(self) -> None:
        """Drop the index."""
        self.index = None

    def _prepare(self, side: Rows, added: Rows | None) -> None:
        if self.reset_before:
            if added is None:
                raise ValueError("reference must be given when reset_before is set, for the index starts empty")
            self.index = self.index_init_fn(side.features)
            if not hasattr(self.index, "ntotal"):
                raise TypeError(f"index_init_fn must return a Faiss index, got {type(self.index).__name__}")
        if self.index is None:
            raise ValueError("index must exist when reset_before is not set: call train or load first")
        self._check_features(side, "query")

    def _check_features(self, side: Rows, argument: str) -> None:
        if side.features != self.index.d:
            raise ValueError(f"{argument} must have {self.index.d} features, as the index has, got {side.features}")

    def _total(self, added: Rows | None) -> int:
        return int(self.index.ntotal) + (0 if added is None else len(added))

    def _add(self, rows: Any) -> None:
        if not self.index.is_trained:
            self.index.train(rows)
        self.index.add(rows)

    def _search(self, side: Rows, added: Rows | None, k: int) -> tuple[Any, Any]:
        refuse_nan(side, "query")
        if added is not None:
            refuse_nan(added, "reference")
        place = _place(side, k, self.gpus, self.index)
        if place.gpus is not None:
            self.index = _on_gpus(self.index, place.gpus)
        elif place.refused:
            self.index = _on_cpu(self.index)
        with _own_device(self.index, side) as direct:
            if added is not None:
                self._add(_as_taken(added, direct))
            found, indices = self.index.search(_as_taken(side, direct), k)
        if bool((indices < 0).any()):
            for rows, argument in ((side, "query"), (added, "reference")):
                if rows is not None:
                    _refuse_overflow(rows, argument)
            raise ValueError(f"index found fewer than {k} rows for some query: make it visit more of its rows (nprobe)")
        return found, indices


def _refuse_overflow(side: Rows, argument: str) -> None:
    """Name a row whose squares are too large for Faiss's float32, if there is one."""
    with np.errstate(over="ignore"):
        squares = np.square(np.asarray(single(side))).sum(axis=1)
    wrong = np.flatnonzero(~np.isfinite(squares))
    if len(wrong):
        raise ValueError(f"{argument} must have squares that float32 holds, for Faiss; those of row {wrong[0]} are not")


class _Place(NamedTuple):
    """Where to search: GPU numbers, or None for the CPU; whether a GPU was refused for its limit of k."""

    gpus: tuple[int, ...] | None
    refused: bool


def _as_taken(side: Rows, direct: bool) -> Any:
    """Return rows as the index takes them: the tensor itself on its own GPU, else a float32 array."""
    return side.given.float().contiguous() if direct else single(side)


def _place(side: Rows, k: int, gpus: Sequence[int] | None, index: Any) -> _Place:
    faiss = load()
    wanted = gpus is not None or side.device.startswith("cuda") or _is_on_gpu(index)
    # faiss-cpu has no GPU index whatever number of GPUs it reports.
    if not (wanted and hasattr(faiss, "GpuIndex")) or faiss.get_num_gpus() < 1:
        return _Place(None, refused=False)
    if k > MAX_GPU_K:
        _logger.warning("searching on the CPU: k=%d is above %d, the most that Faiss finds on a GPU", k, MAX_GPU_K)
        return _Place(None, refused=True)
    return _Place(tuple(range(faiss.get_num_gpus())) if gpus is None else tuple(gpus), refused=False)


def _is_on_gpu(index: Any) -> bool:
    faiss = load()
    if hasattr(faiss, "GpuIndex") and isinstance(index, faiss.GpuIndex):
        return True
    # An index over several GPUs is a wrapper of indices that each are on one.
    return hasattr(faiss, "GpuIndex") and hasattr(index, "at") and index.count() > 0 and _is_on_gpu(index.at(0))


def _on_gpus(index: Any, gpus: tuple[int, ...]) -> Any:
    if _is_on_gpu(index):
        return index
    return load().index_cpu_to_gpus_list(index, gpus=list(gpus))


def _on_cpu(index: Any) -> Any:
    return load().index_gpu_to_cpu(index) if _is_on_gpu(index) else index


@contextmanager
def _own_device(index: Any, side: Rows) -> Iterator[bool]:
    """Yield whether tensors go to `index` as they are, because both are on the same single GPU.

    If so, the body runs in that GPU's context; Faiss's torch support searches on its current stream.
    """
    faiss = load()
    is_single = side.device.startswith("cuda") and hasattr(faiss, "GpuIndex") and isinstance(index, faiss.GpuIndex)
    if not is_single or index.getDevice() != side.given.device.index:
        yield False
        return
    import torch

    import_module("faiss.contrib.torch_utils")
    with torch.cuda.device(side.given.device):
        yield True


def _sides(query: Any, reference: Any) -> tuple[Rows, Rows | None]:
    if reference is None:
        return _arrays.rows(query, "query"), None
    return _arrays.pair(query, reference)


def _without_self(found: Any, indices: Any) -> tuple[Any, Any]:
    """Drop from row i the entry with index i, or the last one."""
    if _arrays.is_tensor(indices):
        import torch

        keep = indices != torch.arange(len(indices), device=indices.device)[:, None]
        keep[keep.all(1), -1] = False
    else:
        keep = indices != np.arange(len(indices))[:, None]
        keep[keep.all(1), -1] = False
    shape = (len(indices), indices.shape[1] - 1)
    return found[keep].reshape(shape), indices[keep].reshape(shape)
