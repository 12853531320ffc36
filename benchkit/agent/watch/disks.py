"""Bytes read from and written to every disk, from /proc/diskstats (Documentation/admin-guide/iostats.rst of Linux).

psutil takes four times as long for them: it looks every device up in /sys each time.
"""

from __future__ import annotations

from pathlib import Path
from typing import Dict

from benchkit.agent.watch.collector import Collector, KernelFile, UnseenError, Values

SECTOR_BYTES = 512
"""In this file, whatever the disk's own are."""
READ, WRITTEN = 5, 9
NO_DISKS = ("loop", "ram", "zram")
"""Devices that have nothing of their own."""


class Disks(Collector):
    """Whole disks; their partitions are in them."""

    def __init__(self) -> None:
        self._file = KernelFile("/proc/diskstats")
        self._is_whole: Dict[bytes, bool] = {}
        if not self.sample():
            raise UnseenError("disks: the host shows none")

    def sample(self) -> Values:
        """Bytes by disk."""
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
        """Let go of the file."""
        self._file.close()


def is_whole(disk: str) -> bool:
    """Whether it is a disk, and not a part of one."""
    return not disk.startswith(NO_DISKS) and Path("/sys/block", disk.replace("/", "!")).exists()
