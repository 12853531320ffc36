"""The command `benchkit`: what all of its commands share, and the edge at which errors become messages and exit codes."""

from __future__ import annotations

import os
import sys
from typing import Annotated, NoReturn

import typer

from benchkit import __version__
from benchkit.cli.commands import Commands
from benchkit.errors import BenchkitError, harmless

INTERRUPTED = 130
"""128 + SIGINT, as shells report it."""

DEBUG = "--debug"

app = typer.Typer(
    name="benchkit",
    cls=Commands,
    help="Which HTTP server set-up is faster, why, and whether the number can be believed.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # importing rich would triple the time of --help
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"benchkit {__version__}")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True)] = False,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show a traceback with an error; may stand anywhere.")] = False,
) -> None:
    """Which HTTP server set-up is faster, why, and whether the number can be believed."""


def main() -> NoReturn:
    """Run the command line; every error that benchkit raises on purpose ends here as one message."""
    debug = DEBUG in sys.argv
    try:
        app([argument for argument in sys.argv[1:] if argument != DEBUG])
    except BenchkitError as error:
        if debug:
            raise
        print(f"benchkit: {error}", file=sys.stderr)
        for note in getattr(error, "__notes__", ()):  # what went wrong beside it, or while it was cleared up behind
            print(f"  and {harmless(note)}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    except BrokenPipeError:
        # The reader of our output went away (`benchkit … | head`); what is still buffered has no reader either.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:  # a store that cannot be written, a disk that is full
        if debug:
            raise
        print(f"benchkit: {error.filename or 'this machine'}: {error.strerror}", file=sys.stderr)
        sys.exit(BenchkitError.exit_code)
    sys.exit(0)
