"""Memory of the host, from /proc/meminfo (proc(5)): psutil takes four times as long for the same two figures."""

from __future__ import annotations

from benchkit.agent.watch.collector import Collector, KernelFile, UnseenError, Values, number_after

KIB = 1024


class Memory(Collector):
    """Memory of the host."""

    def __init__(self) -> None:
        self._meminfo = KernelFile("/proc/meminfo")
        self.sample()

    def sample(self) -> Values:
        """What can be had without swapping (Linux 3.14 and newer tell), and the rest."""
        content = b"\n" + self._meminfo.read()
        total, available = (number_after(content, word) for word in (b"MemTotal:", b"MemAvailable:"))
        if total is None or available is None:
            raise UnseenError(f"memory: {self._meminfo.path} does not say what is available")
        return {
            ("memory_available_bytes", None): available * KIB,
            ("memory_used_bytes", None): (total - available) * KIB,
        }

    def close(self) -> None:
        """Let go of the file."""
        self._meminfo.close()
