"""Where a search runs. Adding a backend is one module that follows `Backend` and one line in `_MODULES`."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

if TYPE_CHECKING:
    from collections.abc import Callable

    from nearwise._arrays import Rows
    from nearwise._formula import Formula

_MODULES = {
    "rust": "nearwise.backends.rust",  # the compiled core; any tensor is read on the CPU
    "torch": "nearwise.backends.torch",  # torch operations on the tensor's own device
}


@dataclass(frozen=True)
class Options:
    """How to search; none of it changes the result but the first two.

    Attributes
    ----------
    exclude_self : bool
        Row i of the query is row i of the reference and is no neighbour of itself.
    nan_last : bool
        Rank NaN after every number; otherwise NaN in the input is a ``ValueError`` that names argument and row.
    threads : int
        Worker threads; 0 lets the backend decide.
    batch : int
        Query rows per block; 0 lets the backend decide.
    method : str
        How the core finds the neighbours: auto, f32, i8 or direct. Other backends have one way and ignore it.
    progress : callable or None
        Called with (work done, work in all) from the calling thread.
    report : callable or None
        Called after the search with (method, instruction set, exact values computed for filtered pairs).
    prepared : object or None
        What the core prepared of the reference; no other backend gets it.
    """

    exclude_self: bool = False
    nan_last: bool = False
    threads: int = 0
    batch: int = 0
    method: str = "auto"
    progress: Callable[[int, int], object] | None = None
    report: Callable[[str, str, int], object] | None = None
    prepared: Any = None


class Backend(Protocol):
    """What a backend module defines.

    Arguments have been checked: both sides have two dimensions, one kind, one device, one element type and one number
    of features, and ``1 <= k <= len(reference) - exclude_self``. Results are NumPy arrays or torch tensors (on the
    query's device, without graph); `nearwise._arrays.Rows.give_back` makes the caller's kind of them. Values are
    float64 for float64 input and float32 for the rest, indices int64, ties in ascending index, NaN last.
    """

    __name__: str

    def search(self, query: Rows, reference: Rows, k: int, formula: Formula, options: Options) -> tuple[Any, Any]:
        """Return (distances, indices), both (len(query), k), nearest first."""

    def matrix(self, query: Rows, reference: Rows, formula: Formula) -> Any:
        """Return every value, (len(query), len(reference)); NaN passes."""

    def pairwise(self, x: Rows, y: Rows, formula: Formula) -> Any:
        """Return the values of row i against row i, (len(x),); NaN passes."""

    def topk(self, matrix: Rows, k: int, *, largest: bool, self_offset: int | None, threads: int) -> Any:
        """Return the columns of the k best values of each row; column ``self_offset + i`` is not for row i."""


def names() -> tuple[str, ...]:
    """Return the names that ``backend=`` takes, ``"auto"`` aside."""
    return tuple(_MODULES)


def get(name: str, device: str = "cpu") -> Backend:
    """Return the backend of that name; ``"auto"`` is the core for the CPU and torch for every other device.

    Raises
    ------
    TypeError
        No name.
    ValueError
        No backend has that name.
    """
    if not isinstance(name, str):
        raise TypeError(f"backend must be a name, got {name!r}")
    if name == "auto":
        name = "rust" if device == "cpu" else "torch"
    if name not in _MODULES:
        raise ValueError(f"backend must be auto, {' or '.join(_MODULES)}, got {name!r}")
    return cast("Backend", import_module(_MODULES[name]))
