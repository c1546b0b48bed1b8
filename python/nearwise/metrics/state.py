"""Metric states declared by annotation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Number
from types import EllipsisType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import torch
from torch import Tensor

Reduction = str | Callable[[Any], Any] | None


@dataclass(frozen=True)
class MetricState:
    """Marks an annotated attribute of a metric as a state: ``correct: Annotated[Tensor, MetricState(default=0)]``.

    Parameters
    ----------
    default : Tensor, number, empty list or None
        The value after construction and after ``reset()``. A number becomes a scalar tensor of its own dtype. None
        takes it from the annotated type: ``0.0`` for ``Tensor``, an empty list for ``list[...]``.
    dist_reduce_fx : str, callable or None
        How the states of several processes become one, as in ``torchmetrics.Metric.add_state``. Left out: ``"sum"``
        for a tensor, ``"cat"`` for a list.
    persistent : bool
        Whether ``state_dict()`` holds the state.

    Examples
    --------
    >>> from typing import Annotated
    >>> import torch
    >>> from torch import Tensor
    >>> from torchmetrics import Metric
    >>> from nearwise.metrics import MetricState
    >>> from nearwise.metrics.state import declare_states
    >>> class Count(Metric):
    ...     rows: Annotated[Tensor, MetricState(default=0)]
    ...     def __init__(self, **kwargs):
    ...         super().__init__(**kwargs)
    ...         declare_states(self)
    ...     def update(self, x):
    ...         self.rows += len(x)
    ...     def compute(self):
    ...         return self.rows
    >>> count = Count()
    >>> count.update(torch.zeros(3, 2))
    >>> count.compute()
    tensor(3)
    """

    default: Tensor | float | list[Any] | None = None
    dist_reduce_fx: Reduction | EllipsisType = ...
    persistent: bool = False


def declare_states(metric: Any) -> None:
    """Register every state that the class of a metric, or a base of it, declares by annotation.

    Parameters
    ----------
    metric : torchmetrics.Metric
        The metric, after ``Metric.__init__``.

    Raises
    ------
    ValueError
        If a state has no default and its type is neither ``Tensor`` nor ``list``, or its default is a list with
        entries.
    """
    for name, hint in get_type_hints(type(metric), include_extras=True).items():
        if get_origin(hint) is not Annotated:
            continue
        kind, *marks = get_args(hint)
        mark = next((mark for mark in marks if isinstance(mark, MetricState)), None)
        if mark is not None:
            default = _default(name, kind, mark.default)
            reduction = mark.dist_reduce_fx
            if isinstance(reduction, EllipsisType):
                reduction = "cat" if isinstance(default, list) else "sum"
            metric.add_state(name, default=default, dist_reduce_fx=reduction, persistent=mark.persistent)


def _default(name: str, kind: Any, default: Tensor | float | list[Any] | None) -> Tensor | list[Any]:
    """Return the default as a tensor or an empty list."""
    if default is None:
        if isinstance(kind, type) and issubclass(kind, Tensor):
            return torch.tensor(0.0)
        if kind is list or get_origin(kind) is list:
            return []
        raise ValueError(f"state {name} needs a default: its type is {kind!r}, neither Tensor nor list")
    if isinstance(default, list):
        if default:
            raise ValueError(f"state {name}: a list default must be empty, got {len(default)} entries")
        return []
    if isinstance(default, Tensor):
        return default.detach().clone()
    if isinstance(default, Number):
        return torch.tensor(default)
    raise ValueError(f"state {name}: default must be a tensor, a number or an empty list, got {type(default).__name__}")
