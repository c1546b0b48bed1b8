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
