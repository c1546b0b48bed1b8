"""Fair timing of several ways to do the same work, and the rows that a table is made of.

All contestants are called once to warm up, then once in every round, in an order that turns from round to round, so
that what else the machine does meets all of them alike. What counts is the median.
"""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field

PAUSE = 0.03  # seconds: lets the threads of an OpenMP runtime fall asleep before the next contestant starts


@dataclass(frozen=True)
class Target:
    """A ratio to reach: `peer` seconds per second of `ours`, at least (or, for a ceiling, at most)."""

    ours: str
    peer: str
    must: dict[str, float] = field(default_factory=dict)
    ceiling: bool = False


@dataclass(frozen=True)
class Work:
    """What a row measures: ways to do one piece of work, by name, and remarks on what they returned."""

    contestants: dict[str, Callable[[], object]]
    targets: list[Target]
    remarks: Callable[[], list[str]] = list


@dataclass(frozen=True)
class Row:
    """A row of the table; `prepare(threads, quick)` makes its data."""

    id: str
    what: str
    prepare: Callable[[int, bool], Work]


def measure(contestants: dict[str, Callable[[], object]], rounds: int) -> dict[str, list[float]]:
    """Seconds of every round. A contestant that returns a float has timed itself."""
    names = list(contestants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for round_number in range(rounds + 1):
        turn = round_number % len(names)
        for name in names[turn:] + names[:turn]:
            time.sleep(PAUSE)
            start = time.perf_counter()
            own = contestants[name]()
            taken = own if isinstance(own, float) else time.perf_counter() - start
            if round_number:
                seconds[name].append(taken)
    return seconds


def medians(seconds: dict[str, list[float]]) -> dict[str, float]:
    """The median of each contestant's rounds."""
    return {name: statistics.median(values) for name, values in seconds.items()}
