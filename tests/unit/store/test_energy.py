"""The energy of a request, from the telemetry of the servers' hosts."""

from __future__ import annotations

import pytest

from benchkit.models.trial import TrialRecord
from benchkit.store.energy import energy_columns
from tests.support.judge.builders import Telemetry, build_service, build_trial, build_watch, telemetry_columns

WINDOW_NS = (10**9, 3 * 10**9)


def record_of(*machines: str | None, idle: dict[str, float] | None = None) -> TrialRecord:
    """Return a trial of two seconds with a server on each of these machines, and the load tool on a host of its own."""
    hosts = [f"sut{number}" for number, _ in enumerate(machines)]
    watches = [
        build_watch(host, machine=machine, window_ns=WINDOW_NS, idle_power_w=idle or {})
        for host, machine in zip(hosts, machines, strict=True)
    ]
    load = build_watch("load", machine="of the load", window_ns=WINDOW_NS)
    services = tuple(build_service(name=f"app{number}", host=host) for number, host in enumerate(hosts))
    return build_trial(services=services, watched=(*watches, load)).record


def counter(host: str, zone: str, watts: float, start_j: float = 7.0) -> Telemetry:
    """Return a counter that was read from half a second before the window to half a second after it."""
    return {("energy_j_total", host, None, zone): {t_s: start_j + watts * (t_s + 0.5) for t_s in (-0.5, 0.9, 2.5)}}


def meter(host: str, *watts: float) -> Telemetry:
    return {("power_w", host, None, "power_meter.hwmon1"): dict(zip((-0.1, 1.0, 2.1), watts, strict=True))}


def test_packages_and_dram_over_the_window_and_over_idle() -> None:
    samples = {**counter("sut0", "package-0", 40), **counter("sut0", "package-1", 20), **counter("sut0", "dram-0", 5)}
    idle = {"package-0": 10.0, "package-1": 10.0, "dram-0": 2.0}
    assert energy_columns(record_of("a", idle=idle), telemetry_columns(samples), 1000) == {
        "energy_j_per_request": pytest.approx(65 * 2 / 1000),
        "active_energy_j_per_request": pytest.approx(43 * 2 / 1000),
        "energy_covers": "package + DRAM",
    }


def test_without_an_idle_baseline_there_is_no_energy_over_it() -> None:
    found = energy_columns(record_of("a"), telemetry_columns(counter("sut0", "package-0", 40)), 1000)
    assert (found["active_energy_j_per_request"], found["energy_covers"]) == (None, "package")


def test_hosts_count_as_far_as_all_are_known() -> None:
    one = {**counter("sut0", "package-0", 40), **counter("sut0", "dram-0", 5)}
    both = {**one, **counter("sut1", "package-0", 30)}
    found = energy_columns(record_of("a", "b"), telemetry_columns(both), 100)
    assert (found["energy_j_per_request"], found["energy_covers"]) == (pytest.approx(70 * 2 / 100), "package")
    assert energy_columns(record_of("a", "b"), telemetry_columns(one), 100) == {}
    assert energy_columns(record_of("a"), telemetry_columns(one), None) == {}


def test_a_meter_of_the_whole_host_comes_first_and_is_integrated() -> None:
    samples = {**counter("sut0", "package-0", 40), **meter("sut0", 100, 100, 210)}
    found = energy_columns(record_of("a", idle={"power_meter.hwmon1": 50}), telemetry_columns(samples), 100)
    # 100 W for a second, then a second in which it rises by 100 W.
    assert found["energy_j_per_request"] == pytest.approx((100 + 150) / 100)
    assert found["active_energy_j_per_request"] == pytest.approx((250 - 100) / 100)
    assert found["energy_covers"] == "whole host"


def test_hosts_of_one_machine_count_once_and_the_load_tool_there_is_named() -> None:
    samples = {**counter("sut0", "package-0", 40), **counter("sut1", "package-0", 40)}
    found = energy_columns(record_of("a", "a"), telemetry_columns(samples), 100)
    assert found["energy_j_per_request"] == pytest.approx(80 / 100)
    found = energy_columns(record_of("of the load"), telemetry_columns(samples), 100)
    assert found["energy_covers"] == "package, with the load tool"
