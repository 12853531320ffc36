"""Clock rate of each core, from /proc/cpuinfo or, failing that, from cpufreq in /sys (admin-guide/pm/cpufreq.rst)."""

from __future__ import annotations

import re
from pathlib import Path

from benchkit.agent.watch.collector import Collector, UnavailableError, Values, read_once

CPUINFO = "/proc/cpuinfo"
CPUS = Path("/sys/devices/system/cpu")
RATE = re.compile(rb"^processor\s*:\s*(\d+)$|^cpu MHz\s*:\s*([0-9.]+)$", re.MULTILINE)
MHZ, KHZ = 1e6, 1e3


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
            for number, mhz in RATE.findall(file.read()):
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
