"""Progress of a long call: a bar, a user's callable, or nothing."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def reporter(progress: bool | Callable[[int, int], object]) -> Iterator[Callable[[int, int], object] | None]:
    """Yield what to call with (work done, work in all), or None.

    Raises
    ------
    ModuleNotFoundError
        A bar was asked for and tqdm is not installed.
    TypeError
        `progress` is neither a truth value nor a callable.
    """
    if callable(progress):
        yield progress
    elif progress is True:
        with _bar() as report:
            yield report
    elif progress is False or progress is None:
        yield None
    else:
        raise TypeError(f"progress must be True, False or a callable (done, total), got {progress!r}")


class Completed:
    """A report that ends at (work in all, work in all), however far the last word of the work was."""

    def __init__(self, report: Callable[[int, int], object], work: int) -> None:
        self._report = report
        self._last = (-1, work)

    def __call__(self, done: int, total: int) -> None:
        """Pass it on."""
        self._last = (done, total)
        self._report(done, total)

    def end(self) -> None:
        """Say that all is done, unless it was said."""
        done, total = self._last
        if done != total:
            self._report(total, total)


@contextmanager
def _bar() -> Iterator[Callable[[int, int], object]]:
    try:
        from tqdm.auto import tqdm
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("progress=True needs tqdm: install nearwise[cli], or pass a callable") from error
    # Work is counted in units of the backend's own, so the bar shows a share of it.
    with tqdm(total=100, unit="%", desc="searching", bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}") as bar:

        def report(done: int, total: int) -> None:
            bar.n = 100 * done // total if total else 100
            bar.refresh()

        yield report
        report(1, 1)
