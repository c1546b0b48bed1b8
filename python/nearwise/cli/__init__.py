"""The `nearwise` command.

This file needs nothing beyond the standard library, so that a missing click is one line and not a traceback. What the
command can do stands in `nearwise.cli.group`.
"""

import sys
from collections.abc import Sequence

__all__ = ["main"]

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and say how it ended.

    Parameters
    ----------
    arguments
        What follows the command's name; `sys.argv[1:]` by default.

    Returns
    -------
    int
        The exit status: 0 when done, 1 when the data or a file would not do, 2 when the command line would not, 130
        after Ctrl-C. Whatever went wrong is one line on standard error.

    Examples
    --------
    >>> from nearwise.cli import main
    >>> main(["info", "--no-such-option"])
    2
    """
    try:
        from nearwise.cli.group import run
    except ModuleNotFoundError as error:
        if error.name not in {"click", "tqdm"}:
            raise
        print(f"nearwise: the command line needs {error.name}: pip install 'nearwise[cli]'", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return INTERRUPTED
    return run(arguments)
