"""Counters of energy and meters of power, from trees in the kernel's documented format (tests.support.agent.sysfs)."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchkit.agent.collector import UnavailableError
from benchkit.agent.energy import Energy, read_idle_power
from benchkit.agent.workdir import Workdir
from tests.support.agent.sysfs import LAPTOP, METER, RANGE_UJ, SERVER, write_sysfs


def test_packages_dram_and_the_meter_of_the_machine_are_read_and_nothing_twice(tmp_path: Path) -> None:
    energy = Energy(write_sysfs(tmp_path, {**SERVER, **METER}))
    assert energy.sample() == {
        ("energy_j_total", "package-0"): pytest.approx(1.0),
        ("energy_j_total", "dram-0"): pytest.approx(0.5),
        ("energy_j_total", "package-1"): pytest.approx(2.0),
        ("energy_j_total", "dram-1"): pytest.approx(0.7),
        ("power_w", "power_meter.hwmon1"): pytest.approx(213),
    }


def test_recorded_counters_of_a_real_machine_are_read(tmp_path: Path) -> None:
    assert Energy(write_sysfs(tmp_path, LAPTOP)).sample() == {
        ("energy_j_total", "package-0"): pytest.approx(240_422.366267)
    }, "its cores are a part of the package"


def test_a_counter_that_begins_again_goes_on(tmp_path: Path) -> None:
    counter = write_sysfs(tmp_path, SERVER) / "class/powercap/intel-rapl:0/energy_uj"
    counter.write_text(f"{RANGE_UJ - 1_000_000}\n")
    energy = Energy(tmp_path)
    readings = []
    for microjoules in (RANGE_UJ - 1_000_000, 2_000_000, 5_000_000, 1_000_000):
        counter.write_text(f"{microjoules}\n")
        readings.append(energy.sample()["energy_j_total", "package-0"])
    grown = [each - readings[0] for each in readings]
    assert grown == pytest.approx([0, 3, 6, 2 + RANGE_UJ / 1e6])


@pytest.mark.parametrize("tree", [{}, {"class/hwmon/hwmon0/name": "nvme", "class/hwmon/hwmon0/power1_input": "5"}])
def test_nothing_is_estimated_where_nothing_can_be_read(tmp_path: Path, tree: dict[str, str]) -> None:
    with pytest.raises(UnavailableError, match=r"no zone of intel-rapl in .*, and no power meter in"):
        Energy(write_sysfs(tmp_path, tree))


def test_a_counter_that_may_not_be_read_is_named(tmp_path: Path) -> None:
    (write_sysfs(tmp_path, SERVER) / "class/powercap/intel-rapl:0/energy_uj").unlink()
    (tmp_path / "class/powercap/intel-rapl:1/energy_uj").unlink()
    for zone in ("0:0", "1:0"):
        (tmp_path / f"class/powercap/intel-rapl:{zone}/energy_uj").unlink()
    with pytest.raises(UnavailableError, match="intel-rapl:0/energy_uj: No such file"):
        Energy(tmp_path)


def test_idle_power_is_measured_where_there_is_a_counter(tmp_path: Path) -> None:
    workdir = Workdir(str(tmp_path))
    write_sysfs(tmp_path / "sys", {**SERVER, **METER})
    idle = read_idle_power(workdir, 0.1)
    assert idle.missing is None
    assert idle.watts == pytest.approx(
        {"package-0": 0, "dram-0": 0, "package-1": 0, "dram-1": 0, "power_meter.hwmon1": 213}
    )
