"""What all distances share: the call forms, and the wrapper of a user's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import TYPE_CHECKING, Any, ClassVar

from nearwise import _arrays, backends
from nearwise._arguments import check_flag
from nearwise.errors import ContractError

if TYPE_CHECKING:
    from nearwise._formula import Formula


class Distance(ABC):
    """What the built-in distances and `ForeignDistance` share.

    Attributes
    ----------
    is_inverted : bool
        True for a similarity: a larger value means nearer.
    formula : Formula or None
        What the core computes; None for a distance that it does not know.
    """

    is_inverted: bool
    formula: Formula | None

    @abstractmethod
    def __call__(self, query: Any, ref: Any = None) -> Any:
        """Return every value between the rows of `query` and those of `ref` (or of `query` itself)."""

    @abstractmethod
    def pairwise(self, x: Any, y: Any) -> Any:
        """Return the values of row i of `x` against row i of `y`."""


class BuiltInDistance(Distance):
    """A distance that the core computes."""

    def __call__(self, query: Any, ref: Any = None) -> Any:
        """Return every value between the rows of two sides.

        Parameters
        ----------
        query : array or tensor of shape (queries, features)
            float16, bfloat16, float32 or float64.
        ref : array or tensor of shape (references, features), optional
            Of the same kind, device and dtype. None compares the query with itself.

        Returns
        -------
        array or tensor of shape (queries, references)
            float64 for float64 input, float32 otherwise. A tensor carries a graph where grad mode is on and an input
            requires grad.

        Raises
        ------
        TypeError
            An input of another type or dtype, or two kinds of input.
        ValueError
            An input that is not two-dimensional, or sides of different device, dtype or number of features.
        """
        query_side, ref_side = _arrays.pair(query, query if ref is None else ref, ("query", "ref"))
        formula = self._formula()
        values = backends.get("auto", query_side.device).matrix(query_side, ref_side, formula)
        values = query_side.give_back(values)
        if _wants_graph(query, ref):
            from nearwise import _autograd

            return _autograd.matrix(values, query, query if ref is None else ref, formula)
        return values

    def pairwise(self, x: Any, y: Any) -> Any:
        """Return the values of row i of `x` against row i of `y`; no matrix is built.

        Parameters
        ----------
        x, y : array or tensor of shape (rows, features)
            Both of one kind, device, dtype and shape; rows are not broadcast.

        Returns
        -------
        array or tensor of shape (rows,)
            float64 for float64 input, float32 otherwise.

        Raises
        ------
        TypeError
            An input of another type or dtype, or two kinds of input.
        ValueError
            An input that is not two-dimensional, or inputs that differ in device, dtype or shape.
        """
        x_side, y_side = _arrays.pair(x, y, ("x", "y"))
        if len(x_side) != len(y_side):
            raise ValueError(f"x and y must have the same number of rows, got {len(x_side)} and {len(y_side)}")
        formula = self._formula()
        values = x_side.give_back(backends.get("auto", x_side.device).pairwise(x_side, y_side, formula))
        if _wants_graph(x, y):
            from nearwise import _autograd

            return _autograd.pairwise(values, x, y, formula)
        return values

    @property
    def formula(self) -> Formula | None:  # type: ignore[override]
        """What the core computes; None for a subclass, whose methods may say something else."""
        return self._formula() if "_formula" in vars(type(self)) else None

    @abstractmethod
    def _formula(self) -> Formula: ...


@dataclass(frozen=True)
class ForeignDistance(Distance):
    """A user's own distance: any callable ``distance(query, reference)`` with an ``is_inverted`` attribute.

    Examples
    --------
    >>> from nearwise.distances import resolve
    >>> class Hamming:
    ...     is_inverted = False
    ...     def __call__(self, query, reference):
    ...         return (query[:, None] != reference).sum(axis=-1)
    >>> resolve(Hamming()).formula is None
    True
    """

    distance: Any
    formula: ClassVar[None] = None  # type: ignore[misc]

    @property
    def is_inverted(self) -> bool:  # type: ignore[override]
        """What the user's object says."""
        inverted = self.distance.is_inverted
        check_flag("is_inverted of a distance", inverted)
        return bool(inverted)

    def __call__(self, query: Any, ref: Any = None) -> Any:
        """Return the user's matrix."""
        return self.distance(query, query if ref is None else ref)

    def pairwise(self, x: Any, y: Any) -> Any:
        """Return the user's values of row i against row i.

        Raises
        ------
        TypeError
            The object has no ``pairwise`` method.
        """
        method = getattr(self.distance, "pairwise", None)
        if not callable(method):
            raise TypeError(f"distance must have a pairwise method for this, {type(self.distance).__name__} has none")
        return method(x, y)


def _wants_graph(*inputs: Any) -> bool:
    """Whether torch would record the call."""
    if not any(_arrays.is_tensor(x) and x.requires_grad for x in inputs):
        return False
    import torch

    return torch.is_grad_enabled()


def check_not_inverted(name: str, is_inverted: bool) -> None:
    """Refuse ``is_inverted=True`` for the class of that name."""
    check_flag("is_inverted", is_inverted)
    if is_inverted:
        raise ContractError(f"is_inverted must be False for {name}, a distance, got {is_inverted}")


def check_numbers(p: object, power: object) -> None:
    """Check the parameters that the built-in distances share."""
    for argument, value in (("p", p), ("power", power)):
        if isinstance(value, bool) or not isinstance(value, Real):
            raise TypeError(f"{argument} must be a number, got {value!r}")
    if not float(p) > 0:  # type: ignore[arg-type]
        raise ValueError(f"p must be a positive number or infinity, got {p}")
    if not 0 < abs(float(power)) < float("inf"):  # type: ignore[arg-type]
        raise ValueError(f"power must be a finite number other than 0, got {power}")
