"""Energy and power of the host, from the kernel: counters of processors (RAPL), and meters of the whole machine.

Linux has the formats in Documentation/power/powercap/powercap.rst and Documentation/hwmon/sysfs-interface.rst:
microjoules and microwatts as decimal text. A folder `sys` in the work directory replaces /sys, for a container whose
own /sys has no counters.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List

from benchkit.agent import operations as ops
from benchkit.agent.collector import Collector, UnavailableError, Values, read_once
from benchkit.agent.workdir import Workdir

SYS = Path("/sys")
MICRO = 1e-6
ENERGY, POWER = "energy_j_total", "power_w"
PACKAGE, DRAM = "package-", "dram"
"""Names of the zones that are read. Other zones are parts of a package (core, uncore) or the machine (psys), and
intel-rapl-mmio repeats the packages.
"""
METERS = ("power_meter", "aem", "ibmpex")
"""Names of hwmon devices that measure the whole machine: acpi_power_meter, and IBM's over IPMI (ibmaem, ibmpex)."""
MOST_IDLE_S = 10.0


class _Zone:
    """A counter of energy, which wraps around to 0 beyond its range."""

    def __init__(self, folder: Path, instance: str) -> None:
        self.instance = instance
        self._path = str(folder / "energy_uj")
        self._range_uj = int(read_once(str(folder / "max_energy_range_uj")))
        self._last_uj = int(read_once(self._path))
        self._before_uj = 0

    def joules(self) -> float:
        """Return the counter's reading, corrected for its wraparounds."""
        now_uj = int(read_once(self._path))
        if now_uj < self._last_uj:
            self._before_uj += self._range_uj
        self._last_uj = now_uj
        return (self._before_uj + now_uj) * MICRO


class Energy(Collector):
    """Counters of all packages and their DRAM, and meters of the machine."""

    def __init__(self, sys: Path) -> None:
        self._zones: List[_Zone] = []
        self._meters: Dict[str, str] = {}
        problems: List[str] = []
        for folder in sorted((sys / "class/powercap").glob("intel-rapl:*")):
            try:
                name = read_once(str(folder / "name")).decode().strip()
                if name.startswith(PACKAGE):
                    self._zones.append(_Zone(folder, name))
                elif name == DRAM:
                    self._zones.append(_Zone(folder, f"{DRAM}-{folder.name.split(':')[1]}"))
            except OSError as error:
                problems.append(f"{error.filename}: {error.strerror}")
        for folder in sorted((sys / "class/hwmon").glob("hwmon*")):
            try:
                self._add_meter(folder)
            except OSError as error:
                problems.append(f"{error.filename}: {error.strerror}")
        if not self._zones and not self._meters:
            nothing = f"no zone of intel-rapl in {sys}/class/powercap, and no power meter in {sys}/class/hwmon"
            raise UnavailableError(f"energy: {problems[0] if problems else nothing}")

    def _add_meter(self, folder: Path) -> None:
        name = read_once(str(folder / "name")).decode().strip()
        sensors = [*sorted(folder.glob("power*_average")), *sorted(folder.glob("power*_input"))]
        if name.startswith(METERS) and sensors:
            read_once(str(sensors[0]))
            self._meters[f"{name}.{folder.name}"] = str(sensors[0])

    def sample(self) -> Values:
        """Return joules by zone since an arbitrary instant, and watts by meter."""
        found: Values = {(ENERGY, zone.instance): zone.joules() for zone in self._zones}
        found.update({(POWER, name): int(read_once(path)) * MICRO for name, path in self._meters.items()})
        return found


def sys_of(workdir: Workdir) -> Path:
    """Return /sys, or the folder in the work directory that replaces it."""
    own = Path(str(workdir.root)) / "sys"
    return own if own.is_dir() else SYS


def find_energy(workdir: Workdir) -> List[Callable[[], Collector]]:
    """Return the factory of the collector; none where nothing can be read. `read_idle_power` returns the reason."""
    sys = sys_of(workdir)
    try:
        Energy(sys)
    except UnavailableError:
        return []
    return [partial(Energy, sys)]


def read_idle_power(workdir: Workdir, seconds: float) -> ops.IdlePower:
    """Return the mean power of the host over a short time, by zone or meter; without counters, the reason at once."""
    try:
        energy = Energy(sys_of(workdir))
    except UnavailableError as error:
        return ops.IdlePower({}, str(error))
    began, before = time.monotonic(), energy.sample()
    time.sleep(min(seconds, MOST_IDLE_S))
    elapsed_s, after = time.monotonic() - began, energy.sample()
    watts: Dict[str, float] = {}
    for (metric, instance), value in after.items():
        first = before[metric, instance]
        watts[str(instance)] = (value - first) / elapsed_s if metric == ENERGY else (first + value) / 2
    return ops.IdlePower(watts, None)
