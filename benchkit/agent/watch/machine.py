"""Memory, disks and clock rate of the host: psutil's work, which knows what differs between kernels and machines.

A host without psutil goes without them; no verdict rests on them but that of the clock rate.
"""

from __future__ import annotations

from typing import Any

from benchkit.agent.watch.base import Collector, Pace, UnseenError, Values

Psutil = Any
"""The module; None where there is none."""


def needed(psutil: Psutil, what: str) -> Psutil:
    """The module. Raises UnseenError where there is none, saying what for it was needed."""
    if psutil is None:
        raise UnseenError(f"{what}: there is no psutil")
    return psutil


class Memory(Collector):
    """Memory of the host."""

    def __init__(self, psutil: Psutil) -> None:
        self._psutil = needed(psutil, "memory")

    def sample(self) -> Values:
        """What can be had without swapping, and the rest."""
        memory = self._psutil.virtual_memory()
        return {
            ("memory_available_bytes", None): memory.available,
            ("memory_used_bytes", None): memory.total - memory.available,
        }


class Disks(Collector):
    """Whole disks; their partitions are in them."""

    def __init__(self, psutil: Psutil) -> None:
        self._psutil = needed(psutil, "disks")
        self._parts: Any = {}
        if not self.sample():
            raise UnseenError("disks: the host shows none")

    def sample(self) -> Values:
        """Bytes read and written by disk."""
        found: Values = {}
        for disk, counters in self._psutil.disk_io_counters(perdisk=True, nowrap=False).items():
            if disk not in self._parts:
                self._parts[disk] = self._is_part(disk)
            if not self._parts[disk]:
                found["disk_read_bytes_total", disk] = counters.read_bytes
                found["disk_written_bytes_total", disk] = counters.write_bytes
        return found

    @staticmethod
    def _is_part(disk: str) -> bool:
        """Whether it is a partition, or a device that has nothing of its own (loop, RAM)."""
        from pathlib import Path  # noqa: PLC0415 - asked once for each disk

        return not Path("/sys/block", disk.replace("/", "!")).exists() or disk.startswith(("loop", "ram", "zram"))


class Frequency(Collector):
    """Clock rate by core. On many a machine each look disturbs the core that is looked at, so it is taken seldom."""

    SHARE = 0.0002

    def __init__(self, psutil: Psutil) -> None:
        self._psutil = needed(psutil, "clock rate")
        self._pace = Pace(self.SHARE)
        if not self._look():
            raise UnseenError("clock rate: the host does not tell it")

    def sample(self) -> Values:
        """Hertz by core, where it is time."""
        if not self._pace.begin():
            return {}
        found = self._look()
        self._pace.end()
        return found

    def _look(self) -> Values:
        try:
            rates = self._psutil.cpu_freq(percpu=True) or []
        except (NotImplementedError, OSError) as error:
            raise UnseenError(f"clock rate: {error}") from None
        return {("cpu_frequency_hz", str(core)): rate.current * 1e6 for core, rate in enumerate(rates) if rate.current}
