"""The command `benchkit`: options of all commands, and the edge at which errors become messages and exit codes."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer

from benchkit.cli.address_space import require_address_space
from benchkit.cli.commands import Commands
from benchkit.cli.console import prepare_streams, show_logs
from benchkit.errors import EXIT_CODES_HELP, BenchkitError, ExitCode, InputError
from benchkit.version import __version__

WRITABLE_BY_ALL = 0o002
"""Permission bit that no file of benchkit has, under any umask: only owner and group may alter results."""

USAGE_ERROR: type[Exception] = typer.BadParameter.__mro__[1]
"""Class of usage errors: Click's own or the copy that Typer carries, depending on Typer's version."""

DEBUG = "--debug"
FLAGS = frozenset({DEBUG, "-v", "-vv", "--verbose"})
"""Options of all commands, which may stand anywhere."""

app = typer.Typer(
    name="benchkit",
    cls=Commands,
    help="Which HTTP server set-up is faster, why, and whether the number can be believed.",
    epilog=EXIT_CODES_HELP,
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
    verbose: Annotated[
        int, typer.Option("-v", "--verbose", count=True, help="Log what happens on hosts; -vv: every request.")
    ] = 0,
    debug: Annotated[bool, typer.Option(DEBUG, help="Show a traceback with an error.")] = False,
) -> None:
    """Apply the options of all commands; `version` acts in its callback, and `main` reads `debug`."""
    del version, debug
    if verbose:
        show_logs(verbose)


def _report_usage(error: Any) -> int:  # noqa: ANN401 - of a class that Typer does not export
    """Print a usage error like other errors, or the help of a group without a command; return the exit code."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        command = error.ctx.command_path if error.ctx is not None else "benchkit"
        message = error.format_message().replace("Value error, ", "")
        what = re.sub(r"Input should be ([^,]*).*", r"expected \1", message).rstrip(".")
        _report(InputError(what, hint=f"`{command} --help` shows the usage"))
    return ExitCode.BAD_INPUT


def _report(error: Exception) -> int:
    """Print an error as one message, and return the exit code that it stands for."""
    if isinstance(error, OSError):  # such as a store that cannot be written, a disk that is full
        error = BenchkitError(error.strerror or str(error), where=str(error.filename or "this machine"))
    elif isinstance(error, MemoryError):
        error = BenchkitError("out of memory", where="this machine")
    print(f"benchkit: {error}", file=sys.stderr)
    for note in getattr(error, "__notes__", ()):  # further failures, such as one of the clean-up
        print(f"  and {note}", file=sys.stderr)
    return error.exit_code if isinstance(error, BenchkitError) else ExitCode.FAILED


def run_command(given: Sequence[str]) -> int:
    """Run the command of these arguments, and return its exit code.

    Turns every error that benchkit raises on purpose into one message on stderr; with `--debug` it is raised.
    """
    arguments = sorted(given, key=lambda each: each not in FLAGS)
    try:
        require_address_space()
        return int(app(arguments, prog_name="benchkit", standalone_mode=False) or ExitCode.DONE)
    except (typer.Abort, BrokenPipeError):  # a question was declined, or a reader of the output ended, such as `head`
        return ExitCode.FAILED
    except KeyboardInterrupt:
        return ExitCode.INTERRUPTED
    except USAGE_ERROR as error:
        return _report_usage(error)
    except (BenchkitError, OSError, MemoryError) as error:
        if DEBUG in arguments:
            raise
        return _report(error)


def main() -> NoReturn:
    """Run the command line of this process."""
    prepare_streams()
    os.umask(os.umask(0) | WRITABLE_BY_ALL)
    code = run_command(sys.argv[1:])
    try:
        sys.stdout.flush()
    except OSError as error:
        if not isinstance(error, BrokenPipeError):  # such as a full disk
            print(f"benchkit: cannot write stdout: {error.strerror}", file=sys.stderr)
        os._exit(code or ExitCode.FAILED)  # Python would flush it once more
    sys.exit(code)
