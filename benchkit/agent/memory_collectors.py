"""Collectors of the host's memory, paging and disks (proc(5); Documentation/admin-guide/iostats.rst of Linux).

psutil takes four times as long for the same values.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Dict

from benchkit.agent.collector import Collector, KernelFile, UnavailableError, Values, number_after

KIB = 1024

SECTOR_BYTES = 512
"""Size of a sector in /proc/diskstats, whatever the disk."""
READ, WRITTEN = 5, 9
NO_DISKS = ("loop", "ram", "zram")
"""Prefixes of devices that are no disks of their own."""


class Memory(Collector):
    """Memory of the host."""

    def __init__(self) -> None:
        self._meminfo = KernelFile("/proc/meminfo")
        self.files = (self._meminfo,)
        self.sample()

    def sample(self) -> Values:
        """Return the memory available without swapping (Linux 3.14 or newer), and the rest as used."""
        content = b"\n" + self._meminfo.read()
        total, available = (number_after(content, word) for word in (b"MemTotal:", b"MemAvailable:"))
        if total is None or available is None:
            raise UnavailableError(f"memory: {self._meminfo.path} has no available memory")
        return {
            ("memory_available_bytes", None): available * KIB,
            ("memory_used_bytes", None): (total - available) * KIB,
        }


class Paging(Collector):
    """Pages that the host moved between memory and swap (dstat's "paging")."""

    def __init__(self) -> None:
        self._vmstat = KernelFile("/proc/vmstat")
        self.files = (self._vmstat,)
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


class Disks(Collector):
    """Whole disks, which include their partitions."""

    def __init__(self) -> None:
        self._file = KernelFile("/proc/diskstats")
        self.files = (self._file,)
        self._is_whole: Dict[bytes, bool] = {}
        if not self.sample():
            raise UnavailableError("disks: the host lists none")

    def sample(self) -> Values:
        """Return bytes by disk."""
        found: Values = {}
        for line in self._file.read().split(b"\n"):
            field = line.split(None, WRITTEN + 1)
            if len(field) > WRITTEN:
                name = field[2]
                if name not in self._is_whole:
                    self._is_whole[name] = is_whole(name.decode())
                if self._is_whole[name]:
                    disk = name.decode()
                    found["disk_read_bytes_total", disk] = int(field[READ]) * SECTOR_BYTES
                    found["disk_written_bytes_total", disk] = int(field[WRITTEN]) * SECTOR_BYTES
        return found


def is_whole(disk: str) -> bool:
    """Return True for a disk, False for a partition."""
    return not disk.startswith(NO_DISKS) and Path("/sys/block", disk.replace("/", "!")).exists()
