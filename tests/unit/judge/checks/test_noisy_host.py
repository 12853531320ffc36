"""Tests of the check noisy-host."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.judge.checks.disturbances import foreign_share
from benchkit.judge.evidence import Evidence
from tests.support.judge.builders import (
    Telemetry,
    build_service,
    build_slices,
    build_trial,
    core_counters,
    cpu_time,
    finding_of,
)


@pytest.mark.parametrize(("foreign", "expected"), [(0.049, False), (0.051, True)])
def test_cpu_time_of_other_processes(foreign: float, *, expected: bool) -> None:
    found = finding_of("noisy-host", build_trial(core_counters("sut", 0, user=0.9 + foreign)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)


@pytest.mark.parametrize(("neighbour", "expected"), [(0.1, False), (0.02, True)])
def test_servers_of_other_cells_of_the_block_are_no_foreign_processes(neighbour: float, *, expected: bool) -> None:
    samples = core_counters("sut", 0, user=1.0) | cpu_time(**{"neighbour.2.app": neighbour})
    share = foreign_share(build_trial(samples, slices=build_slices()))
    assert share is not None
    assert share == pytest.approx(0.1 - neighbour, abs=1e-3)
    assert (share > 0.05) == expected


def test_interrupts_are_no_noise() -> None:
    assert finding_of("noisy-host", build_trial(core_counters("sut", 0, user=0.9, softirq=0.1))) is None


@pytest.mark.parametrize(("foreign", "expected"), [(0.03, False), (0.07, True)])
def test_kernel_that_charges_interrupts_to_processes(foreign: float, *, expected: bool) -> None:
    """Fill a core with 30 % of interrupts that the server's CPU time includes."""
    full = core_counters("sut", 0, user=0.7, softirq=0.3)
    assert (finding_of("noisy-host", build_trial({**full, **cpu_time(app=1 - foreign)})) is not None) == expected


def many_core_trial(samples: Telemetry, took: float, *, of: int = 16, **fields: object) -> Evidence:
    """Return a trial on an idle server host of many cores, changed by samples; its load host is another machine."""
    cpus = tuple(range(of))
    idle = {key: value for cpu in cpus for key, value in core_counters("sut", cpu).items()}
    facts: dict[str, dict[str, object]] = {"sut": {"cpus": cpus}, "load": {"boot_id": "another"}}
    services = (build_service(**{"cpus": cpus, **fields}),)
    return build_trial({**idle, **cpu_time(app=took), **samples}, facts=facts, services=services)


def test_rounding_of_counters_is_no_work() -> None:
    """Let idle times of idle cores exceed and fall short of the elapsed time equally often."""
    off: Telemetry = {
        ("cpu_idle_s_total", "sut", None, str(cpu)): {-0.01: 0.0, 3.05: 3.06 + 0.01 * (-1) ** cpu} for cpu in range(32)
    }
    assert finding_of("noisy-host", many_core_trial(off, 0.0, of=32)) is None
