"""Tests of checks of the use of the load tool, the server and the link."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD, RATES
from benchkit.judge.evidence import Evidence
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_generator,
    build_service,
    build_trial,
    core_counters,
    cpu_time,
    finding_of,
    sent_traffic,
    skip_reason,
)


@pytest.mark.parametrize(("share", "expected"), [(0.89, False), (0.91, True)])
def test_process_at_the_limit(share: float, *, expected: bool) -> None:
    found = finding_of("generator-saturated", build_trial(generators=(build_generator(cpu_s=share * WINDOW_S),)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


def test_single_thread_fills_one_of_two_cores() -> None:
    """Limit a wrk of one thread on two cores to one."""
    one = build_generator(cpu_s=0.95 * WINDOW_S, cpus=(1, 2))
    two = build_generator(cpu_s=0.95 * WINDOW_S, cpus=(1, 2), threads=2)
    more = core_counters("load", 2)
    assert finding_of("generator-saturated", build_trial(more, generators=(one,))) is not None
    assert finding_of("generator-saturated", build_trial(more, generators=(two,))) is None


def test_busiest_thread_counts_where_threads_own_connections() -> None:
    threads: Telemetry = {
        ("thread_cpu_s_total", "load", "generator-1", "71"): {0.1: 0.0, 1.9: 1.75},
        ("thread_cpu_s_total", "load", "generator-1", "72"): {0.1: 0.0, 1.9: 0.2},
    }
    two = build_generator(cpu_s=1.95, cpus=(1, 2), threads=2)
    assert (
        finding_of("generator-saturated", build_trial({**core_counters("load", 2), **threads}, generators=(two,)))
        is not None
    )
    go = build_generator(cpu_s=1.95, cpus=(1, 2), threads=None, argv=("hey",))
    assert (
        finding_of("generator-saturated", build_trial({**core_counters("load", 2), **threads}, generators=(go,)))
        is None
    )


@pytest.mark.parametrize(("user", "expected"), [(0.84, False), (0.86, True)])
def test_load_host_filled_by_other_processes(user: float, *, expected: bool) -> None:
    found = finding_of("generator-saturated", build_trial(core_counters("load", 1, user=user, softirq=0.05)))
    assert (found is not None) == expected
    assert found is None or found.severity == "suspect"


def test_host_without_telemetry_is_reported_unless_the_process_is_saturated() -> None:
    without = tuple(f"cpu_{kind}_s_total" for kind in ("idle", "iowait", "steal"))
    assert skip_reason("generator-saturated", build_trial(without=without)) == "no telemetry for the cores of load"
    full = build_generator(cpu_s=0.95 * WINDOW_S)
    assert finding_of("generator-saturated", build_trial(without=without, generators=(full,))) is not None


def trial_with_cpu_use(share: float, **fields: object) -> Evidence:
    taken = {**cpu_time(app=share), **core_counters("sut", 0, user=share)}
    return build_trial(taken, **fields)  # type: ignore[arg-type] # fields of the record


@pytest.mark.parametrize(("share", "expected"), [(0.61, False), (0.59, True)])
def test_share_of_one_core(share: float, *, expected: bool) -> None:
    found = finding_of("server-idle", trial_with_cpu_use(share))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", RATES)


def test_interrupts_count_as_use() -> None:
    taken = {**cpu_time(app=0.5), **core_counters("sut", 0, user=0.5, softirq=0.2)}
    assert finding_of("server-idle", build_trial(taken)) is None


@pytest.mark.parametrize(("each", "expected"), [(0.08, True), (0.1, False)])
def test_services_of_a_role_share_its_quota(each: float, *, expected: bool) -> None:
    services = (build_service(quota=0.3), build_service(name="front", quota=0.3))
    seen = {**cpu_time(front=each, app=each), **core_counters("sut", 0, user=2 * each)}
    assert (finding_of("server-idle", build_trial(seen, services=services)) is not None) == expected


@pytest.mark.parametrize(("parallelism", "expected"), [(1, False), (4, True)])
def test_parallelism_limits_the_available_cpu(parallelism: int, *, expected: bool) -> None:
    four = build_service(cpus=(0, 1, 2, 3), parallelism=parallelism)
    assert (finding_of("server-idle", build_trial(services=(four,))) is not None) == expected


FAST: dict[str, object] = {"link_bps": 10e9}


def network_card(**fields: object) -> dict[str, object]:
    return {"interfaces": [{"name": "eth0", "speed_bps": 1e9, "virtual": False, "addresses": [], **fields}]}


@pytest.mark.parametrize(("share", "expected"), [(0.89, False), (0.91, True)])
def test_capped_link(share: float, *, expected: bool) -> None:
    capped: dict[str, dict[str, object]] = {"sut": {"link_bps": 50e6}, "load": FAST}
    found = finding_of("link-saturated", build_trial(sent_traffic("sut", share * 50e6), facts=capped))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


@pytest.mark.parametrize(("packets", "expected"), [(0, False), (4_200_000, True)])
def test_small_packets_fill_ethernet(packets: int, *, expected: bool) -> None:
    facts = {"sut": network_card(), "load": FAST}
    found = finding_of("link-saturated", build_trial(sent_traffic("sut", 0.7e9, packets), facts=facts))
    assert (found is not None) == expected


@pytest.mark.parametrize(("app", "busy", "load_user"), [(0.6, 0.95, 0.6), (0.3, 0.3, 0.95)])
def test_server_beside_other_programs_is_not_called_idle(app: float, busy: float, load_user: float) -> None:
    """Let others take the server's core, or the load tool's, which `generator-saturated` reports."""
    taken = {**cpu_time(app=app), **core_counters("sut", 0, user=busy), **core_counters("load", 1, user=load_user)}
    assert finding_of("server-idle", build_trial(taken)) is None
