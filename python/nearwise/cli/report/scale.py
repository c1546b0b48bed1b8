"""From numbers to places in a drawing."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Scale(NamedTuple):
    """Maps low to high to begin to end; by logarithm if `log`."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Return the place of a value."""
        low, high, value = (map(math.log, (self.low, self.high, value))) if self.log else (self.low, self.high, value)
        share = (value - low) / (high - low) if high > low else 0.5
        return self.begin + share * (self.end - self.begin)


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Return round numbers from low to high.

    Examples
    --------
    >>> ticks(0, 1), ticks(0.13, 1.42), ticks(2, 2)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4], [2])
    """
    span = high - low
    if not span > 0 or not math.isfinite(span):
        return [low]
    power = 10.0 ** math.floor(math.log10(span / about))
    step = next(power * factor for factor in (1, 2, 5, 10) if span / (power * factor) <= about + 2)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)] or [low]


def ranks(depths: Sequence[int], *, log: bool) -> list[int]:
    """Return the ranks to write under a curve."""
    last = depths[-1]
    if log:
        marks = [factor * 10**power for power in range(len(str(last))) for factor in (1, 2, 5)]
        return [mark for mark in marks if mark <= last]
    step = next(step for step in (1, 2, 5, 10, 20) if last / step <= 11)
    return sorted({1, *range(step, last + 1, step)})
