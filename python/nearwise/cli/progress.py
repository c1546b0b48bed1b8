"""The progress bar of the command line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tqdm import tqdm

PATIENCE = 0.5  # seconds before a bar appears: short work shows none


@contextmanager
def progress_bar(shown: bool | None, description: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function of (work done, work in all) that draws a bar on standard error.

    Parameters
    ----------
    shown
        None shows it on a terminal only, True and False always and never.
    description
        What stands before the bar.
    """
    visible = sys.stderr is not None and (sys.stderr.isatty() if shown is None else shown)
    layout = "{desc}: {percentage:3.0f}%|{bar}| {elapsed} (left: {remaining})"
    with tqdm(
        total=1.0,
        desc=description,
        disable=not visible,
        delay=0 if shown else PATIENCE,
        bar_format=layout,
        leave=bool(shown),
        file=sys.stderr,
    ) as bar:

        def report(done: int, total: int) -> None:
            share = done / total if total else 1.0
            bar.update(min(share, 1.0) - bar.n)

        yield report
        report(1, 1)
