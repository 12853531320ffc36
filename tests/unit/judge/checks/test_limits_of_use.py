"""Tests of checks of the use of the load tool, the server and the link."""

from __future__ import annotations

import pytest

from benchkit.judge.check import LOAD
from benchkit.judge.evidence import Evidence
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_generator,
    build_trial,
    core_counters,
    cpu_time,
    finding_of,
    sent_traffic,
)


@pytest.mark.parametrize(("share", "expected"), [(0.89, False), (0.91, True)])
def test_process_at_the_limit(share: float, *, expected: bool) -> None:
    found = finding_of("generator-saturated", build_trial(generators=(build_generator(cpu_s=share * WINDOW_S),)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


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


def trial_with_cpu_use(share: float, **fields: object) -> Evidence:
    taken = {**cpu_time(app=share), **core_counters("sut", 0, user=share)}
    return build_trial(taken, **fields)  # type: ignore[arg-type] # fields of the record


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
