"""The journal of a run: one JSON object per line for every finished step, on disk before the next step begins."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from pydantic import ValidationError
from pydantic_core import from_json

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.store.journal_events import JournalEvent, parse_event
from benchkit.validation import first_fault

_END = b"\n"
_CHUNK = 1 << 16


class Journal:
    """An append-only file, safe for many threads; each line is synced, so that it survives a crash of the machine."""

    def __init__(self, path: Path) -> None:
        """Open the journal at `path` for appending, and remove an incomplete last line that a crash left."""
        self._lock = threading.Lock()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, _complete_size(self._file))
        os.lseek(self._file, 0, os.SEEK_END)

    def append(self, event: JournalEvent) -> None:
        """Write an event as one line. Raises OSError, and then nothing of it stays in the file."""
        line = event.model_dump_json(exclude_none=True)
        content = memoryview(line.encode() + _END)
        with self._lock:
            before = os.lseek(self._file, 0, os.SEEK_CUR)
            try:
                while content:
                    content = content[os.write(self._file, content) :]
                os.fsync(self._file)
            except OSError:
                os.ftruncate(self._file, before)
                os.lseek(self._file, before, os.SEEK_SET)
                raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._file)


def read_journal(path: Path) -> Iterator[JournalEvent]:
    """Yield the events of a journal, without an incomplete last line.

    Raises InputError for a damaged line, and where the file cannot be read.
    """
    for number, line in enumerate(io.BytesIO(journal_content(path)), 1):
        if line.endswith(_END):
            yield _event(line, path, number)


def journal_content(path: Path) -> bytes:
    """Return the content of a journal. Raises InputError where it cannot be read."""
    try:
        return read_regular(path)
    except OSError as error:
        raise InputError(
            "cannot read the journal of the run",
            where=str(path),
            why=error.strerror,
            hint="move the file away; `benchkit results check --repair` then restores what the raw files can give",
        ) from None


def read_undamaged_lines(content: bytes) -> bytes:
    """Return the lines of a journal that are complete events, as they are."""
    path = Path("journal")
    undamaged = []
    for number, line in enumerate(io.BytesIO(content), 1):
        try:
            _event(line, path, number)
        except InputError:
            continue
        if line.endswith(_END):
            undamaged.append(line)
    return b"".join(undamaged)


def _event(line: bytes, path: Path, number: int) -> JournalEvent:
    try:
        document = from_json(line)
    except ValueError as error:
        raise _damaged(path, number, str(error)) from None
    if not isinstance(document, dict):
        raise _damaged(path, number, "the line is not an event")
    try:
        return parse_event(document)
    except ValidationError as error:
        raise _damaged(path, number, first_fault(error)) from None


def _damaged(path: Path, number: int, why: str) -> InputError:
    return InputError(
        "the journal is damaged",
        where=f"{path}:{number}",
        why=why,
        hint=f"`benchkit results check {path.parent.name} --repair` restores what the raw files can give",
    )


def _complete_size(file: int) -> int:
    """Return the size of the complete lines of a file, in bytes."""
    size = os.fstat(file).st_size
    while size:
        start = max(0, size - _CHUNK)
        found = os.pread(file, size - start, start).rfind(_END)
        if found >= 0:
            return start + found + 1
        size = start
    return 0
