"""Input, output, logs and signals of commands.

Documents and tables go to stdout, everything else to stderr. The file `-` is stdin.
"""

from __future__ import annotations

import io
import json
import logging
import os
import shutil
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchkit.errors import InputError
from benchkit.files import read_bounded
from benchkit.safe_text import RedactingFormatter, legible, legible_json

UNBROKEN = 1000
"""Width of a table in a pipe or file, where no line may be broken."""
STDIN = "-"
LIBRARIES = ("paramiko", "fabric", "invoke")
"""Libraries whose messages below warnings are shown with `-vv` only."""

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
STILL_RESTORING = "stopping services and restoring hosts; Ctrl-C once more leaves that to the watchdogs on the hosts, which take up to a minute"


class _CleanText(io.TextIOWrapper):
    """A stream on which no text can control the terminal: characters without a glyph are replaced.

    Texts come from files and hosts of others, and any of them may be printed.
    """

    def write(self, text: str, /) -> int:
        """Write text; line ends stay as they are."""
        super().write("\r\n".join(map(legible, text.split("\r\n"))))
        return len(text)


def prepare_streams() -> None:
    """Prepare stdout and stderr of a command: no text controls the terminal or fails in its encoding."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, io.TextIOWrapper):
            lines = name == "stderr" or stream.line_buffering
            encoding = stream.encoding
            text = _CleanText(stream.detach(), encoding=encoding, errors="backslashreplace", line_buffering=lines)
            setattr(sys, name, text)


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON document; pydantic models in it become what the contract states."""

    def plain(value: object) -> object:
        dump = getattr(value, "model_dump", None)
        return str(value) if dump is None else dump(mode="json")

    print(legible_json(json.dumps(document, indent=2, ensure_ascii=False, default=plain, allow_nan=False)))


def say(text: str) -> None:
    """Print a line to stderr."""
    print(text, file=sys.stderr, flush=True)


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print a table on stdout with the columns `right` (numbers) aligned to the right.

    It fits the terminal: texts are folded, numbers are not. In a pipe no line is broken.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(
            column, justify="right" if i in right else "left", overflow="fold", no_wrap=i == 0 or i in right
        )
    for row in rows:
        table.add_row(*(Text(legible(cell)) for cell in row))
    fits, printed = sys.stdout.isatty(), io.StringIO()
    width = shutil.get_terminal_size().columns if fits else UNBROKEN
    Console(file=printed, width=width).print(table, soft_wrap=not fits)
    print(printed.getvalue(), end="")


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


def show_logs(verbosity: int) -> None:
    """Log to stderr: what happens on hosts, and from verbosity 2 on every request."""
    level = logging.INFO if verbosity == 1 else logging.DEBUG
    handler = logging.StreamHandler()
    handler.setFormatter(RedactingFormatter("%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s", "%H:%M:%S"))
    logging.getLogger().addHandler(handler)
    logging.getLogger("benchkit").setLevel(level)
    for library in LIBRARIES:
        logging.getLogger(library).setLevel(logging.DEBUG if level == logging.DEBUG else logging.WARNING)


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
    """Turn the first Ctrl-C, SIGTERM or SIGHUP into KeyboardInterrupt.

    The second only prints that clean-up continues; from the third on each raises KeyboardInterrupt again.
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

    _active.append(signals)
    former = [signal.signal(number, interrupt) for number in SIGNALS]
    try:
        yield signals
    finally:
        _active.clear()
        for number, handler in zip(SIGNALS, former, strict=True):
            signal.signal(number, handler)
