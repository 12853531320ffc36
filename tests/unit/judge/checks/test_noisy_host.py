"""Tests of the check noisy-host."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from benchkit.judge.checks.disturbances import foreign_share
from benchkit.judge.evidence import Evidence
from benchkit.models.trial import ProfileRecord
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_generator,
    build_service,
    build_slices,
    build_trial,
    core_counters,
    cpu_time,
    finding_of,
    skip_reason,
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


def test_interrupts_on_an_idle_core() -> None:
    half = core_counters("sut", 0, user=0.4, softirq=0.3)
    assert finding_of("noisy-host", build_trial({**half, **cpu_time(app=0.45)})) is None


def test_agent_is_no_noise() -> None:
    seen = core_counters("sut", 0, user=0.96)
    assert finding_of("noisy-host", build_trial(seen)) is not None
    assert finding_of("noisy-host", build_trial({**seen, **cpu_time(agent=0.04)})) is None


def test_profiler_is_no_noise() -> None:
    """Run perf on the server's CPUs; pprof would be part of the server."""
    seen = core_counters("sut", 0, user=1.0)

    def profiled(cpu_s: float | None) -> Evidence:
        perf = ProfileRecord(service="app", host="sut", profiler="perf", file="app.perf", cpu_s=cpu_s)
        return build_trial(seen, kind="profile", profiles=(perf,))

    assert finding_of("noisy-host", profiled(None)) is not None
    assert finding_of("noisy-host", profiled(0.1 * WINDOW_S)) is None
    assert finding_of("noisy-host", profiled(0.04 * WINDOW_S)) is not None


def test_processes_that_share_cores_form_one_group() -> None:
    """Let both processes run on both cores, as on a shared lab."""
    both = {"services": (build_service(cpus=(0, 1)),), "generators": (build_generator(cpus=(0, 1)),)}
    moved = {**core_counters("sut", 0, user=0.75), **core_counters("sut", 1, user=0.75)}
    assert finding_of("noisy-host", build_trial(moved, **both)) is None  # type: ignore[arg-type] # fields of the record


def many_core_trial(samples: Telemetry, took: float, *, of: int = 16, **fields: object) -> Evidence:
    """Return a trial on an idle server host of many cores, changed by samples; its load host is another machine."""
    cpus = tuple(range(of))
    idle = {key: value for cpu in cpus for key, value in core_counters("sut", cpu).items()}
    facts: dict[str, dict[str, object]] = {"sut": {"cpus": cpus}, "load": {"boot_id": "another"}}
    services = (build_service(**{"cpus": cpus, **fields}),)
    return build_trial({**idle, **cpu_time(app=took), **samples}, facts=facts, services=services)


@pytest.mark.parametrize(("cpu", "expected"), [(9, False), (2, True)])
def test_only_cpus_of_the_trial_count(cpu: int, *, expected: bool) -> None:
    """Let the agent run on all CPUs, the server on four."""
    seen = {**core_counters("sut", 0, user=0.5), **core_counters("sut", cpu, user=0.2), **cpu_time(agent=0.01)}
    assert (finding_of("noisy-host", many_core_trial(seen, 0.5, cpus=(0, 1, 2, 3))) is not None) == expected


@pytest.mark.parametrize(("foreign", "expected"), [(0.08, False), (0.1, True)])
def test_agent_may_have_run_on_any_core(foreign: float, *, expected: bool) -> None:
    seen = {**core_counters("sut", 0, user=0.5 + foreign), **cpu_time(agent=0.04)}
    assert (finding_of("noisy-host", many_core_trial(seen, 0.5, cpus=(0, 1))) is not None) == expected


def test_agent_elsewhere_does_not_show_charged_interrupts() -> None:
    seen = {**core_counters("sut", 0, user=0.6, softirq=0.4), **cpu_time(agent=0.04)}
    assert finding_of("noisy-host", many_core_trial(seen, 0.6, cpus=(0,))) is None


@pytest.mark.parametrize(("server", "expected"), [(0.5, True), (0.95, False)])
def test_full_core_next_to_an_idle_one_with_charged_interrupts(server: float, *, expected: bool) -> None:
    """Attribute the rest of the full core, including its interrupts, to others."""
    seen = {**core_counters("sut", 0, user=0.5, softirq=0.5), **core_counters("sut", 1, user=0.3, softirq=0.2)}
    assert (finding_of("noisy-host", many_core_trial(seen, server + 0.5, cpus=(0, 1))) is not None) == expected


def test_rounding_of_counters_is_no_work() -> None:
    """Let idle times of idle cores exceed and fall short of the elapsed time equally often."""
    off: Telemetry = {
        ("cpu_idle_s_total", "sut", None, str(cpu)): {-0.01: 0.0, 3.05: 3.06 + 0.01 * (-1) ** cpu} for cpu in range(32)
    }
    assert finding_of("noisy-host", many_core_trial(off, 0.0, of=32)) is None


@pytest.mark.parametrize(("foreign", "expected"), [(0.06, False), (0.07, True)])
def test_limit_grows_with_the_rounding_of_many_cores(foreign: float, *, expected: bool) -> None:
    seen = many_core_trial(core_counters("sut", 5, user=foreign), 0.0, of=256)
    assert (finding_of("noisy-host", seen) is not None) == expected


def test_cores_without_telemetry_are_named_unless_others_are_noisy() -> None:
    facts: dict[str, dict[str, object]] = {"load": {"boot_id": "another"}}
    elsewhere = (build_generator(cpus=(4, 5)),)
    assert (
        skip_reason("noisy-host", build_trial(facts=facts, generators=elsewhere))
        == "no telemetry for CPU 4, 5 of host load"
    )
    noisy = build_trial(core_counters("sut", 0, user=1.0), facts=facts, generators=elsewhere)
    assert finding_of("noisy-host", noisy) is not None
