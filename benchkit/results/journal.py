"""The journal of a run: one JSON object a line for every finished step, on disk before the next step begins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from benchkit.errors import InputError

_END = b"\n"
_CHUNK = 1 << 16


class Journal:
    """An append-only file; each line is synced, so that it outlives the process and the power."""

    def __init__(self, path: Path) -> None:
        """Open the journal at `path`, to go on at its end; a last line that a crash has cut goes."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.ftruncate(self._file, _whole(self._file))
        os.lseek(self._file, 0, os.SEEK_END)

    def append(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON value
        """Write one line: the event, the time, and its fields. Raises OSError, and then nothing of it stays."""
        line = {"event": event, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
        content = memoryview(json.dumps(line, ensure_ascii=False).encode() + _END)
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


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; a last line cut by a crash is left out. Raises InputError for a line that is damaged."""
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if line.endswith(_END):
                yield _event(line, f"{path}:{number}")


def _event(line: bytes, where: str) -> dict[str, Any]:
    try:
        event = json.loads(line)
    except ValueError as error:
        raise InputError("the journal is damaged", where=where, why=str(error)) from None
    if not (isinstance(event, dict) and isinstance(event.get("event"), str)):
        raise InputError("the journal is damaged", where=where, why="the line is no event")
    return event


def _whole(file: int) -> int:
    """How much of a file is whole lines, in bytes."""
    size = os.fstat(file).st_size
    while size:
        start = max(0, size - _CHUNK)
        found = os.pread(file, size - start, start).rfind(_END)
        if found >= 0:
            return start + found + 1
        size = start
    return 0
