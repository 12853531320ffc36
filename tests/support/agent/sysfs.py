"""Sysfs trees of energy counters, which the agent really reads.

No machine here has any. Names and values are in the kernel's documented format: microjoules and microwatts as decimal
text (Documentation/power/powercap/powercap.rst, Documentation/hwmon/sysfs-interface.rst and acpi_power_meter.rst).
`RANGE_UJ` is the range that Intel's driver states for zones of 32 bits with steps of 61 microjoules.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

RANGE_UJ = 262_143_328_850

SERVER: Mapping[str, str] = {
    "class/powercap/intel-rapl:0/name": "package-0",
    "class/powercap/intel-rapl:0/energy_uj": "1000000",
    "class/powercap/intel-rapl:0:0/name": "dram",
    "class/powercap/intel-rapl:0:0/energy_uj": "500000",
    "class/powercap/intel-rapl:1/name": "package-1",
    "class/powercap/intel-rapl:1/energy_uj": "2000000",
    "class/powercap/intel-rapl:1:0/name": "dram",
    "class/powercap/intel-rapl:1:0/energy_uj": "700000",
    "class/powercap/intel-rapl:0:1/name": "core",
    "class/powercap/intel-rapl:0:1/energy_uj": "900000",
    "class/powercap/intel-rapl:2/name": "psys",
    "class/powercap/intel-rapl:2/energy_uj": "9000000",
    "class/powercap/intel-rapl-mmio:0/name": "package-0",
    "class/powercap/intel-rapl-mmio:0/energy_uj": "1000000",
}
"""Zones of a server of two packages, with others that are parts of them, or the same once more."""
LAPTOP: Mapping[str, str] = {
    "class/powercap/intel-rapl:0/name": "package-0",
    "class/powercap/intel-rapl:0/energy_uj": "240422366267",
    "class/powercap/intel-rapl:0:0/name": "core",
    "class/powercap/intel-rapl:0:0/energy_uj": "118821284256",
}
"""Readings of a real machine, as the fixtures of the project prometheus/procfs have them, with the range of 262 kJ."""
METER: Mapping[str, str] = {
    "class/hwmon/hwmon0/name": "nvme",
    "class/hwmon/hwmon1/name": "power_meter",
    "class/hwmon/hwmon1/power1_average": "213000000",
    "class/hwmon/hwmon2/name": "amdgpu",
    "class/hwmon/hwmon2/power1_input": "31000000",
}
"""A meter of the machine by ACPI, beside devices that are parts of it."""


def with_ranges(tree: Mapping[str, str], range_uj: int = RANGE_UJ) -> dict[str, str]:
    """Return the files of a tree, with the range of each counter."""
    ranges = {
        path.replace("energy_uj", "max_energy_range_uj"): str(range_uj) for path in tree if path.endswith("energy_uj")
    }
    return {**tree, **ranges}


def write_sysfs(folder: Path, tree: Mapping[str, str]) -> Path:
    """Write a tree, with the ranges of its counters, and return the folder."""
    for name, text in with_ranges(tree).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")
    return folder
