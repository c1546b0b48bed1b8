"""Which metrics a calculator computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nearwise.evaluation.accuracy import rank

if TYPE_CHECKING:
    from collections.abc import Sequence

_PREFIX = "calculate_"


def methods(calculator: object) -> list[str]:
    """Return the metrics for which `calculator` has a method, in alphabetical order."""
    return [name.removeprefix(_PREFIX) for name in dir(calculator) if name.startswith(_PREFIX)]


def is_overridden(calculator: object, name: str) -> bool:
    """Whether a subclass or the instance has its own method for a metric."""
    from nearwise.evaluation.accuracy.calculator import AccuracyCalculator

    attribute = _PREFIX + name
    own = getattr(getattr(calculator, attribute, None), "__func__", None)
    return hasattr(calculator, attribute) and own is not getattr(AccuracyCalculator, attribute, None)


@dataclass(frozen=True)
class Selection:
    """Names chosen at construction.

    Attributes
    ----------
    default : tuple of str
        Computed by a call that names none.
    offered : tuple of str
        What a call may name.
    anything : bool
        Whether ``precision_at_<k>`` and ``recall_at_<k>`` of any k may be named too.
    exclude : tuple of str
        Never computed.
    """

    default: tuple[str, ...]
    offered: tuple[str, ...]
    anything: bool
    exclude: tuple[str, ...]

    @classmethod
    def of(cls, calculator: Any, include: Sequence[str], exclude: Sequence[str]) -> Selection:
        """Choose for a calculator under construction.

        Raises
        ------
        TypeError
            `include` or `exclude` is no tuple or list.
        ValueError
            An unknown name.
        """
        known = methods(calculator)
        _check(known, anything=True, include=include, exclude=exclude)
        chosen = _sorted(include or known, exclude)
        default = chosen
        if not include and calculator.kmeans_func is None:
            # The default includes no clustering, for it needs packages that the rest does not.
            default = tuple(name for name in chosen if name not in calculator.requires_clustering())
        return cls(default, chosen, not include, tuple(exclude))

    def narrowed(self, calculator: Any, include: Sequence[str], exclude: Sequence[str]) -> tuple[str, ...]:
        """Return the names of one call.

        Raises
        ------
        TypeError
            `include` or `exclude` is no tuple or list.
        ValueError
            A name that is unknown or was not chosen at construction.
        """
        _check(methods(calculator), anything=True, exclude=exclude)
        _check(self.offered, anything=self.anything, include=include)
        left_out = [name for name in include if name in self.exclude]
        if left_out:
            raise ValueError(f"include must not name metrics excluded at construction, got {', '.join(left_out)}")
        return _sorted(include or self.default, exclude)


def _sorted(names: Sequence[str], exclude: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted(set(names) - set(exclude)))


def _check(known: Sequence[str], *, anything: bool, **arguments: Sequence[str]) -> None:
    for argument, names in arguments.items():
        if not isinstance(names, tuple | list):
            raise TypeError(f"{argument} must be a tuple or list of names, got {type(names).__name__}")
        wrong = [str(name) for name in names if name not in known and not (anything and rank.is_at_k(str(name)))]
        if wrong:
            raise ValueError(
                f"{argument} must name metrics of {', '.join(known)}, precision_at_<k> or recall_at_<k>, "
                f"got {', '.join(wrong)}"
            )
