"""Memory of the host and its paging, from /proc/meminfo and /proc/vmstat (proc(5)).

psutil takes four times as long for the same values.
"""

from __future__ import annotations

import os

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


class Paging(Collector):
    """Pages that the host moved between memory and swap: what dstat calls paging."""

    def __init__(self) -> None:
        self._vmstat = KernelFile("/proc/vmstat")
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self.sample()

    def sample(self) -> Values:
        """Return the bytes swapped in and out, and the page faults that waited for a disk, since the host's start."""
        content = b"\n" + self._vmstat.read()
        read, written, faults = (number_after(content, word) for word in (b"pswpin ", b"pswpout ", b"pgmajfault "))
        if read is None or written is None or faults is None:
            raise UnavailableError(f"paging: {self._vmstat.path} has no counters of swap")
        return {
            ("swap_read_bytes_total", None): read * self._page_bytes,
            ("swap_written_bytes_total", None): written * self._page_bytes,
            ("major_page_faults_total", None): faults,
        }

    def close(self) -> None:
        """Close the file."""
        self._vmstat.close()
