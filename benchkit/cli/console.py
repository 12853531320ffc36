"""Output of commands: documents and tables on stdout, everything else on stderr; colour only on a terminal."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from benchkit.errors import InputError
from benchkit.models.scale import Scale

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

MOMENT_S = 1.5
"""Time that a command may take in silence."""

UNBROKEN = 1000
"""Width of a table that goes to a program or file, where no line may be broken."""


class _Output(io.FileIO):
    """A stream of this process whose reader may go away: what nobody can read any more is dropped.

    A command then ends as it would have ended: a run goes on, and a gate keeps its exit code.
    """

    def __init__(self, descriptor: int, *, is_essential: bool) -> None:
        super().__init__(descriptor, "w", closefd=False)
        self._is_essential = is_essential

    def write(self, data: Buffer, /) -> int:
        """Write data.

        Where that fails for good, write no more, unless the output is essential and its reader is there.
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


_READER_GONE = frozenset({errno.EPIPE, errno.EIO})
"""Errors of a pipe and of a terminal whose other end is closed."""


def survive_closed_outputs() -> None:
    """Let no command fail because its output is not read to the end (`benchkit … | head -2`), or its messages not."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        output = io.BufferedWriter(_Output(stream.fileno(), is_essential=name == "stdout"))
        lines = name == "stderr" or stream.line_buffering
        text = io.TextIOWrapper(output, encoding=stream.encoding, errors=stream.errors, line_buffering=lines)
        setattr(sys, name, text)


def print_json(document: Any) -> None:  # noqa: ANN401 - any JSON value
    """Print one JSON document; pydantic models in it become what the contract states."""
    print(json.dumps(document, indent=2, ensure_ascii=False, default=str, allow_nan=False))


def say(text: str) -> None:
    """Print a line to stderr."""
    print(text, file=sys.stderr)


@contextmanager
def announced_if_slow(text: str, *, quiet: bool = False) -> Iterator[None]:
    """Print the text to stderr if what runs within the context takes longer than a moment."""
    timer = threading.Timer(MOMENT_S, say, [text])
    timer.daemon = True
    if not quiet:
        timer.start()
    try:
        yield
    finally:
        timer.cancel()


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], *, right: Sequence[int] = ()) -> None:
    """Print a table on stdout with the columns `right` (numbers) aligned to the right; in a pipe no line is broken."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE, show_edge=False, pad_edge=False)
    for i, column in enumerate(columns):
        table.add_column(column, justify="right" if i in right else "left", overflow="fold", no_wrap=i == 0)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    console = Console() if sys.stdout.isatty() else Console(width=UNBROKEN)
    console.print(table)


def scale_named(name: str) -> Scale:
    """Return the scale of that name. Raises InputError with the names of all scales."""
    from benchkit.scenario.read import SCALES

    for scale in SCALES:
        if scale == name:
            return scale
    raise InputError(f"no scale {name!r}", why=f"scales: {', '.join(SCALES)}")
