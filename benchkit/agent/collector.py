"""The interface of collectors, and the kernel's files that they read."""

from __future__ import annotations

import os
from typing import Callable, Dict, Optional, Tuple

MetricKey = Tuple[str, Optional[str]]
"""A metric of `benchkit.models.telemetry`, and its instance where it has one."""

Values = Dict[MetricKey, float]
"""One sample of a source, in seconds, bytes or counts."""

READ_BYTES = 1 << 16


class UnavailableError(Exception):
    """Data that cannot be sampled on this host, with the reason."""


class KernelFile:
    """A small file of the kernel that is kept open: reading it again costs a third of opening it again."""

    def __init__(self, path: str) -> None:
        """Open the file. Raises UnavailableError."""
        self.path = path
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise UnavailableError(f"{path}: {error.strerror}") from None

    def read(self, is_enough: Callable[[bytes], bool] = lambda _: False) -> bytes:
        """Return the present content, in parts until it `is_enough`. Raises OSError."""
        content = b""
        while not is_enough(content):
            more = os.pread(self._fd, READ_BYTES, len(content))
            if not more:
                break
            content += more
        return content

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class Collector:
    """A source of samples on the host. Its creation raises UnavailableError where the host does not have the source."""

    is_sparse = False
    """True for a source that is expensive to read: it is read for requested samples only."""
    problem: Optional[str] = None
    """Reason why its samples lack a part; None where they are complete."""

    def __init__(self, *paths: str) -> None:
        """Keep files open; only the first must exist."""
        self.files = [KernelFile(path) for path in paths[:1]]
        for path in paths[1:]:
            if os.path.exists(path):  # noqa: PTH110 - as all of the agent
                self.files.append(KernelFile(path))

    def sample(self) -> Values:
        """Read the source. Raises UnavailableError or OSError where it no longer has data."""
        raise NotImplementedError

    def close(self) -> None:
        """Close its files."""
        for file in self.files:
            file.close()


class FileCollector(Collector):
    """Kernel files whose contents, one behind the other, a function parses."""

    def __init__(self, parse: Callable[[bytes], Values], *paths: str) -> None:
        """Read the files once. Raises UnavailableError where they have nothing that is known."""
        super().__init__(*paths)
        self._parse = parse
        if not self.sample():
            raise UnavailableError(f"{paths[0]} has no known values")

    def sample(self) -> Values:
        """Return the values in the files."""
        return self._parse(b"".join(b"\n" + file.read() for file in self.files))


def read_once(path: str) -> bytes:
    """Return the content of a small file of the kernel. Raises OSError."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(fd, READ_BYTES)
    finally:
        os.close(fd)


def number_after(content: bytes, word: bytes) -> Optional[int]:
    """Return the number after `word` at the start of a line; None where no line starts with it."""
    start = content.find(b"\n" + word)
    if start < 0:
        return None
    return int(content[start + 1 + len(word) : start + 1 + len(word) + 24].split(None, 1)[0])
