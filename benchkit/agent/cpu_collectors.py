"""Collectors of CPU time, clock rates and throttling.

Verdicts depend on these values.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Tuple

from benchkit.agent.cgroup_accounting import throttling_in
from benchkit.agent.cgroups import own_cgroups
from benchkit.agent.collector import Collector, KernelFile, UnavailableError, Values, number_after, read_once
from benchkit.agent.proc import TICKS

CPU_TIMES: Tuple[Tuple[str, int], ...] = (
    ("cpu_system_s_total", 3),
    ("cpu_idle_s_total", 4),
    ("cpu_iowait_s_total", 5),
    ("cpu_irq_s_total", 6),
    ("cpu_softirq_s_total", 7),
    ("cpu_steal_s_total", 8),
)
"""Metric, and position of its ticks in the line; user and nice are added up and include guests."""

CPUINFO = "/proc/cpuinfo"
CPUS = Path("/sys/devices/system/cpu")
CLOCK_RATE = re.compile(rb"^processor\s*:\s*(\d+)$|^cpu MHz\s*:\s*([0-9.]+)$", re.MULTILINE)
MHZ, KHZ = 1e6, 1e3

THROTTLING = ("cgroup_periods_total", "cgroup_throttled_total", "cgroup_throttled_s_total")


class Cores(Collector):
    """All cores of the machine; a container or a lab host may use only some of them."""

    def __init__(self) -> None:
        self._stat = KernelFile("/proc/stat")
        self._load = KernelFile("/proc/loadavg")
        self.files = (self._stat, self._load)

    def sample(self) -> Values:
        """Return the CPU time of each core, and the counters of the whole machine."""
        content = self._stat.read()
        found: Values = {("load1", None): float(self._load.read().split(None, 1)[0])}
        for line in content.split(b"\n"):
            if not line.startswith(b"cpu"):
                break
            field = line.split()
            core = field[0][3:].decode()
            if core:
                found["cpu_user_s_total", core] = (int(field[1]) + int(field[2])) / TICKS
                for metric, place in CPU_TIMES:
                    found[metric, core] = int(field[place]) / TICKS
        for metric, word in (("context_switches_total", b"ctxt "), ("interrupts_total", b"intr ")):
            value = number_after(content, word)
            if value is not None:
                found[metric, None] = value
        if len(found) == 1:
            raise UnavailableError(f"{self._stat.path} lists no cores")
        return found


class Frequency(Collector):
    """Clock rate by core. On many machines reading it interrupts the core, so it is read rarely.

    It has to be read under load: an idle core clocks down.
    """

    def __init__(self) -> None:
        self.sample()

    def sample(self) -> Values:
        """Return hertz by core. Raises UnavailableError where the host has no clock rates."""
        rates = self._cpuinfo() or self._cpufreq()
        if not rates:
            raise UnavailableError("clock rate: the host does not report it")
        return rates

    def _cpuinfo(self) -> Values:
        rates: Values = {}
        core = ""
        with open(CPUINFO, "rb") as file:  # noqa: PTH123 - longer than one read
            for number, mhz in CLOCK_RATE.findall(file.read()):
                if number:
                    core = number.decode()
                else:
                    rates["cpu_frequency_hz", core] = float(mhz) * MHZ
        return rates

    def _cpufreq(self) -> Values:
        rates: Values = {}
        for path in CPUS.glob("cpu[0-9]*/cpufreq/scaling_cur_freq"):
            core = path.parents[1].name[len("cpu") :]
            rates["cpu_frequency_hz", core] = int(read_once(str(path))) * KHZ
        return rates


class CpuThrottling(Collector):
    """Periods, throttled periods and throttled time, summed over all groups in force; 0 without a quota."""

    def __init__(self) -> None:
        self.files = []
        for folder in own_cgroups():
            try:
                file = KernelFile(str(folder / "cpu.stat"))
            except UnavailableError:  # the root of a hierarchy has no file and no quota
                continue
            if throttling_in(file.read()) is not None:
                self.files.append(file)
            else:
                file.close()

    def sample(self) -> Values:
        """Return the counters; nothing where no group can have a quota."""
        found: Values = {}
        for file in self.files:
            for metric, value in zip(THROTTLING, throttling_in(file.read()) or ()):  # noqa: B905 - Python 3.8 has no strict
                found[metric, None] = found.get((metric, None), 0) + value
        return found
