"""Bytes read from and written to every disk, from /proc/diskstats (Documentation/admin-guide/iostats.rst of Linux).

psutil takes four times as long: it searches /sys for every device each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict

from benchkit.agent.watch.collector import Collector, KernelFile, UnavailableError, Values

SECTOR_BYTES = 512
"""Size of a sector in this file, for every disk."""
READ, WRITTEN = 5, 9
NO_DISKS = ("loop", "ram", "zram")
"""Devices without a disk of their own."""


class Disks(Collector):
    """Whole disks, which include their partitions."""

    def __init__(self) -> None:
        self._file = KernelFile("/proc/diskstats")
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

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def is_whole(disk: str) -> bool:
    """Return True for a disk, False for a partition."""
    return not disk.startswith(NO_DISKS) and Path("/sys/block", disk.replace("/", "!")).exists()
