"""The shape of a collector, and what collectors share."""

from __future__ import annotations

import os
import time
from typing import Dict, Optional, Tuple

Key = Tuple[str, Optional[str]]
"""A metric of `benchkit.models.telemetry`, and its instance where it has one."""

Values = Dict[Key, float]
"""What one look at a source gave: seconds, bytes, counts."""

PIECE = 1 << 16


class UnseenError(Exception):
    """Something that cannot be watched on this host, and why, for people."""


class Collector:
    """One source of the host's. Making one raises UnseenError where the host does not have the source."""

    def sample(self) -> Values:
        """Look at the source now. Raises UnseenError or OSError where it gives nothing any more."""
        raise NotImplementedError

    def hurry(self) -> None:
        """Somebody asked for the next look: nothing is to be held back for what it costs."""

    def close(self) -> None:
        """Let go of what was opened."""


class KernelFile:
    """A small file of the kernel's that is kept open: reading it again costs a third of what opening it again would."""

    def __init__(self, path: str) -> None:
        """Open it. Raises UnseenError."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise UnseenError(f"{path}: {error.strerror}") from None

    def read(self) -> bytes:
        """Its content now. Raises OSError."""
        content = os.pread(self._fd, PIECE, 0)
        while True:  # the kernel hands out long lists in pieces
            more = os.pread(self._fd, PIECE, len(content))
            if not more:
                return content
            content += more

    def close(self) -> None:
        """Let it go."""
        os.close(self._fd)


def read_once(path: str) -> bytes:
    """The content of a small file of the kernel's, read at once. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, PIECE)
    finally:
        os.close(fd)


def number_after(content: bytes, word: bytes) -> Optional[int]:
    """The number behind `word`, where a line begins with it; None where none does."""
    start = content.find(b"\n" + word)
    if start < 0:
        return None
    return int(content[start + 1 + len(word) : start + 1 + len(word) + 24].split(None, 1)[0])


class Pace:
    """Holds back what may be dear on some hosts, so that on the average it takes no more than a share of a CPU."""

    def __init__(self, share: float) -> None:
        """Let it take `share` of a CPU at most."""
        self._share = share
        self._next = 0.0
        self._began = 0.0

    def hurry(self) -> None:
        """It may be done at once."""
        self._next = 0.0

    def begin(self) -> bool:
        """Whether it may be done now; if so, `end` says that it is done."""
        if time.monotonic() < self._next:
            return False
        self._began = time.thread_time()
        return True

    def end(self) -> None:
        """It is done."""
        self._next = time.monotonic() + (time.thread_time() - self._began) / self._share
