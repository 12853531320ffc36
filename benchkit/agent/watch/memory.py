"""Memory of the host, from /proc/meminfo (proc(5)); psutil takes four times as long for the same values."""

from __future__ import annotations

from benchkit.agent.watch.collector import Collector, KernelFile, UnavailableError, Values, number_after

KIB = 1024


class Memory(Collector):
    """Memory of the host."""

    def __init__(self) -> None:
        self._meminfo = KernelFile("/proc/meminfo")
        self.sample()

    def sample(self) -> Values:
        """Return the memory available without swapping (from Linux 3.14 on), and the rest as used."""
        content = b"\n" + self._meminfo.read()
        total, available = (number_after(content, word) for word in (b"MemTotal:", b"MemAvailable:"))
        if total is None or available is None:
            raise UnavailableError(f"memory: {self._meminfo.path} has no available memory")
        return {
            ("memory_available_bytes", None): available * KIB,
            ("memory_used_bytes", None): (total - available) * KIB,
        }

    def close(self) -> None:
        """Close the file."""
        self._meminfo.close()
