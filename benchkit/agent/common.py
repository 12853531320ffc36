"""What all parts of the agent use: the refusal of a request, and small readers and writers."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from pathlib import Path
from typing import Iterator, Optional, Tuple, Union

from benchkit.agent.frames import Json

Answer = Union[Json, Tuple[Json, bytes]]
"""What an operation gives back: fields, and bytes where there are some."""


class RefusedError(Exception):
    """A request that cannot be carried out, with the reason for people."""

    def __init__(self, kind: str, what: str, why: Optional[str] = None) -> None:
        """`kind` is for programs (not-found, denied, busy, …), `what` and `why` for people."""
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.why = why


def read_bytes(path: str) -> Optional[bytes]:
    """The content of a small file of the kernel's; None where it is absent or may not be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - called for every process of the host
            return file.read()
    except OSError:
        return None


def read_text(path: str) -> Optional[str]:
    """Like `read_bytes`, as text without the blanks around it."""
    content = read_bytes(path)
    return None if content is None else content.decode(errors="replace").strip()


def write_all(fd: int, content: bytes) -> None:
    """Write everything, however many writes it takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def write_synced(path: Path, content: bytes) -> None:
    """A file that is whole and on disk once this returns, or not there."""
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.rename(path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder last."""
    fd = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def poll_until(deadline: float, first_s: float = 0.001, most_s: float = 0.05) -> Iterator[None]:
    """Yield, sleeping in growing steps in between, until `deadline` (monotonic) has passed; at least once."""
    pause = first_s
    while True:
        yield
        left = deadline - time.monotonic()
        if left <= 0:
            return
        time.sleep(min(pause, left))
        pause = min(pause * 1.5, most_s)
