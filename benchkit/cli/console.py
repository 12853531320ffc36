"""Input, output, logs and signals of commands.

Documents and tables go to stdout, everything else to stderr; there is colour on a terminal only. The file `-` is stdin.
"""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import signal
import stat
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from benchkit.errors import InputError
from benchkit.files import read_bounded
from benchkit.safe_text import RedactingFormatter, legible, legible_json

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer


MOMENT_S = 1.5
"""Time that a command may take in silence."""

UNBROKEN = 1000
"""Width of a table that goes to a program or file, where no line may be broken."""

_READER_GONE = frozenset({errno.EPIPE, errno.EIO})
"""Errors of a pipe and of a terminal whose other end is closed."""
STDIN = "-"
Level = Literal["debug", "info", "warning", "error"]
BY_VERBOSITY = ("warning", "info", "debug")
"""Level without `-v`, with one and with two of them."""
LIBRARIES = ("paramiko", "fabric", "invoke")
"""Libraries whose messages below warnings are shown at level `debug` only."""


class _Output(io.FileIO):
    """A stream of this process that drops its output once the reader is gone.

    A command then ends as it would have ended: a run goes on, and a gate keeps its exit code.
    """

    def __init__(self, descriptor: int, *, is_essential: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_essential = is_essential

    def write(self, data: Buffer, /) -> int:
        """Write data.

        If that fails, drop this and all later data, unless the output is essential and its reader is there.
        """
        try:
            return super().write(data)
        except OSError as error:
            if self._is_essential and error.errno not in _READER_GONE:
                raise
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self.fileno())
            os.close(null)
            return memoryview(data).nbytes


class _CleanText(io.TextIOWrapper):
    """A stream on which no text can control the terminal: characters without a glyph are replaced.

    Texts come from files and hosts of others, and any of them may be printed.
    """

    def write(self, text: str, /) -> int:
        """Write text; line ends stay as they are."""
        super().write("\r\n".join(map(legible, text.split("\r\n"))))
        return len(text)

    def write_styled(self, text: str) -> int:
        """Write text with the control sequences of `benchkit.cli.terminal`, which cleans what is between them."""
        return super().write(text)


def prepare_streams() -> None:
    """Prepare stdin, stdout and stderr of a command.

    No command fails because its reader stops early (`benchkit … | head -2`), or because a stream is closed
    (`benchkit … >&-`). No text controls the terminal.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:  # closed: open() takes this descriptor, so that no other file gets it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)))
    for descriptor, name in ((1, "stdout"), (2, "stderr")):
        stream = getattr(sys, name) or io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
        output = io.BufferedWriter(_Output(descriptor, is_essential=name == "stdout"))
        lines = name == "stderr" or stream.line_buffering
        text = _CleanText(output, encoding=stream.encoding, errors=stream.errors, line_buffering=lines)
        setattr(sys, name, text)


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON document; pydantic models in it become what the contract states."""
    print(legible_json(json.dumps(document, indent=2, ensure_ascii=False, default=_plain, allow_nan=False)))


def _plain(value: object) -> object:
    """Return a model as JSON, and any other value as text."""
    dump = getattr(value, "model_dump", None)
    return str(value) if dump is None else dump(mode="json")


def say(text: str) -> None:
    """Print a line to stderr."""
    print(text, file=sys.stderr)


@contextmanager
def announced_if_slow(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Print the text to stderr if the block within the context takes longer than a moment."""
    timer = threading.Timer(MOMENT_S, say, [text])
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print a table on stdout with the columns `right` (numbers) aligned to the right.

    It fits the terminal: texts are folded, numbers are not. In a pipe no line is broken.
    """
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from benchkit.cli.terminal import Terminal

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(
            column, justify="right" if i in right else "left", overflow="fold", no_wrap=i == 0 or i in right
        )
    for row in rows:
        table.add_row(*(Text(legible(cell)) for cell in row))
    fits = sys.stdout.isatty()
    Terminal("stdout", width=None if fits else UNBROKEN).print(table, soft_wrap=not fits)


def read_input(file: str) -> bytes:
    """Return the content of a file or a pipe. Raises InputError where it cannot be read."""
    try:
        if file == STDIN:
            return read_bounded(sys.stdin.buffer, "stdin")
        with Path(file).open("rb") as opened:
            if stat.S_ISCHR(os.fstat(opened.fileno()).st_mode):
                raise InputError("cannot read the file", where=file, why="it is a device, which may never end")
            return read_bounded(opened, file)
    except (OSError, ValueError) as error:  # ValueError: a name with a zero byte
        why = getattr(error, "strerror", str(error))
        raise InputError("cannot read the file", where=input_name(file), why=why) from None


def input_name(file: str) -> str:
    """Return the name of an input file for messages."""
    return "stdin" if file == STDIN else file


def show_logs(verbosity: int, level: Level | None) -> None:
    """Log to stderr at the level that the options ask for."""
    from rich.logging import RichHandler

    from benchkit.cli.terminal import Terminal

    chosen = (level or BY_VERBOSITY[min(verbosity, len(BY_VERBOSITY) - 1)]).upper()
    handler = RichHandler(
        logging.getLevelName(chosen),
        Terminal("stderr"),
        show_path=False,
        markup=False,
        highlighter=None,
        omit_repeated_times=False,
        log_time_format="%H:%M:%S.%f",
    )
    handler.setFormatter(RedactingFormatter("%(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    logging.getLogger("benchkit").setLevel(chosen)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(chosen if chosen == "DEBUG" else "WARNING")


def shows_logs() -> bool:
    """Return whether messages below warnings are shown on the terminal, where a live picture would overwrite them."""
    return any(type(handler).__name__ == "RichHandler" for handler in logging.getLogger().handlers)


HANDLED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

STILL_RESTORING = (
    "stopping services and restoring hosts; once more leaves that to the watchdogs on the hosts, within a minute"
)

_AGAIN_S = 0.1
"""Time after which an ignored signal is sent again: the callback that it hit has ended by then."""


@dataclass
class Signals:
    """Termination signals received so far."""

    received: int = 0

    @property
    def abandoned(self) -> bool:
        """True if the user did not wait for the end of the clean-up."""
        return self.received > 2  # noqa: PLR2004 - see `signals_interrupt`


_active: list[Signals] = []
"""The signals of the outermost `signals_interrupt` that is running, if one is."""


@contextmanager
def signals_interrupt() -> Iterator[Signals]:
    """Turn Ctrl-C, SIGTERM and SIGHUP into KeyboardInterrupt, once, so that clean-up is not interrupted in turn.

    A second signal prints that clean-up continues; from the third on each raises KeyboardInterrupt again. Python
    ignores exceptions in callbacks of weak references and in finalizers: a signal that arrives there is sent again.
    """
    if _active:  # nested: the outer block keeps its handlers, and counts signals for both
        yield _active[-1]
        return
    signals = Signals()

    def interrupt(_number: int, _frame: object) -> None:
        signals.received += 1
        if signals.received == 2:  # noqa: PLR2004 - the second signal
            print(STILL_RESTORING, file=sys.stderr, flush=True)
        else:
            raise KeyboardInterrupt

    def repeat(ignored: sys.UnraisableHookArgs) -> None:
        if not issubclass(ignored.exc_type, KeyboardInterrupt):
            report_ignored(ignored)
            return
        signals.received -= 1
        again = threading.Timer(_AGAIN_S, os.kill, [os.getpid(), signal.SIGINT])
        again.daemon = True
        again.start()

    _active.append(signals)
    former = [signal.signal(number, interrupt) for number in HANDLED]
    report_ignored, sys.unraisablehook = sys.unraisablehook, repeat
    try:
        yield signals
    finally:
        _active.clear()
        sys.unraisablehook = report_ignored
        for number, handler in zip(HANDLED, former, strict=True):
            signal.signal(number, handler)
