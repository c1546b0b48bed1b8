"""The command group: which subcommands there are, and what their errors look like.

A subcommand is a module with a `command`; it is imported when it is called for, so that each pays for its own imports.
"""

import importlib
import sys
from collections.abc import Sequence
from typing import Any

import click

import nearwise
from nearwise.cli import INTERRUPTED

SUBCOMMANDS = {
    "evaluate": "nearwise.cli.evaluate",
    "info": "nearwise.cli.info",
    "search": "nearwise.cli.search",
    "threshold": "nearwise.cli.threshold",
}


class Subcommands(click.Group):
    """A group that imports a subcommand on its first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: D102
        return sorted(SUBCOMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: D102
        module = SUBCOMMANDS.get(cmd_name)
        command: click.Command | None = importlib.import_module(module).command if module else None
        return command


@click.command(cls=Subcommands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120})
@click.version_option(nearwise.__version__, message="%(prog)s %(version)s")
def group() -> None:
    """Exact nearest neighbours, thresholds and evaluation of embeddings."""


def run(arguments: Sequence[str] | None) -> int:
    """Run the group; errors of the user's become one line on standard error and an exit status."""
    try:
        result: Any = group.main(arguments, prog_name="nearwise", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        return _complain(error.format_message(), 2, error.ctx)
    except click.ClickException as error:
        return _complain(error.format_message(), error.exit_code)
    except (click.Abort, KeyboardInterrupt):
        return _complain("interrupted", INTERRUPTED)
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        return _complain(str(error) or type(error).__name__, 1)
    return result if isinstance(result, int) else 0


def _complain(message: str, status: int, context: click.Context | None = None) -> int:
    program = context.command_path if context else "nearwise"
    if sys.stderr is None:
        return status
    print(f"{program}: {' '.join(message.split())}", file=sys.stderr)
    return status
