"""The interface of collectors, and what they share."""

from __future__ import annotations

import os
import time
from typing import Dict, Optional, Sequence, Tuple

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
            self._fd = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise UnavailableError(f"{path}: {error.strerror}") from None

    def read(self) -> bytes:
        """Return the present content. Raises OSError."""
        content = os.pread(self._fd, READ_BYTES, 0)
        while True:  # the kernel returns long lists in parts
            more = os.pread(self._fd, READ_BYTES, len(content))
            if not more:
                return content
            content += more

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)


class CpuBudget:
    """Limits work that is expensive on some hosts to an average share of a CPU."""

    def __init__(self, share: float) -> None:
        self._share = share
        self._next = 0.0
        self._started = 0.0

    def reset(self) -> None:
        """Allow the work at once."""
        self._next = 0.0

    def start(self) -> bool:
        """Return True where the budget allows the work now; the caller then calls `stop` after it."""
        if time.monotonic() < self._next:
            return False
        self._started = time.thread_time()
        return True

    def stop(self) -> None:
        """Charge the work to the budget."""
        self._next = time.monotonic() + (time.thread_time() - self._started) / self._share


class Collector:
    """A source of samples on the host. Its creation raises UnavailableError where the host does not have the source."""

    files: Sequence[KernelFile] = ()
    """Files that the collector keeps open."""

    def sample(self) -> Values:
        """Read the source. Raises UnavailableError or OSError where it no longer has data."""
        raise NotImplementedError

    def reset_budget(self) -> None:
        """Sample next time, whatever it costs; for collectors with a CPU budget."""

    def close(self) -> None:
        """Close its files."""
        for file in self.files:
            file.close()


class BudgetedCollector(Collector):
    """A collector that may use only a share of a CPU."""

    CPU_SHARE: float

    def __init__(self) -> None:
        self.budget = CpuBudget(self.CPU_SHARE)

    def reset_budget(self) -> None:
        """Sample next time, whatever it costs."""
        self.budget.reset()


def read_once(path: str) -> bytes:
    """Return the content of a small file of the kernel. Raises OSError."""
    fd = os.open(path, os.O_RDONLY)
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
