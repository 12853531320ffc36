"""The journal of a run: one JSON object a line for every finished step, on disk before the next step begins."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self


class Journal:
    """An append-only file; each line is synced, so that it outlives the process and the power."""

    def __init__(self, path: Path) -> None:
        """Open the journal at `path`, to go on at its end."""
        self._file = path.open("ab")

    def append(self, event: str, **fields: Any) -> None:  # noqa: ANN401 - any JSON value
        """Write one line: the event, the time, and its fields."""
        line = {"event": event, "at": datetime.now(UTC).isoformat(timespec="milliseconds"), **fields}
        self._file.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


def read_journal(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a journal; a last line cut by a crash is left out."""
    with path.open("rb") as file:
        for line in file:
            if line.endswith(b"\n"):
                yield json.loads(line)
