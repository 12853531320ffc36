"""Missing telemetry of one of several hosts is reported, unless the others are enough for a finding."""

from __future__ import annotations

import pytest

from benchkit.judge.evidence import Evidence
from benchkit.models.trial import WatchRecord
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_generator,
    build_load,
    build_service,
    build_trial,
    build_watch,
    core_counters,
    finding_of,
    skip_reason,
)


def trial_with_unwatched_host(samples: Telemetry | None = None, **fields: object) -> Evidence:
    """Return a trial whose second generator and second service are on a host without telemetry."""
    generators = (build_generator(), build_generator(number=2, host="other", cpus=(0,)))
    services = (build_service(), build_service(name="back", host="other"))
    parts = {"generators": generators, "services": services, **fields}
    return build_trial(samples, **parts)  # type: ignore[arg-type] # fields of the record


def test_load_host_without_telemetry() -> None:
    assert skip_reason("generator-saturated", trial_with_unwatched_host()) == "no telemetry for the cores of other"
    full = (build_generator(cpu_s=0.95 * WINDOW_S), build_generator(number=2, host="other", cpus=(0,)))
    assert finding_of("generator-saturated", trial_with_unwatched_host(generators=full)) is not None


def test_ports_of_a_load_host_without_telemetry() -> None:
    short = build_load(keepalive=False)
    reported = skip_reason("ports-exhausted", trial_with_unwatched_host(load=short, row={"errors_connect": 3}))
    assert reported == "the sockets or the port range of other are unknown"
    full: Telemetry = {("tcp_sockets", "load", None, "time_wait"): {1.0: 930}}
    assert (
        finding_of("ports-exhausted", trial_with_unwatched_host(full, load=short, row={"errors_connect": 3}))
        is not None
    )


def test_drops_of_a_server_host_without_telemetry() -> None:
    assert skip_reason("accept-overflow", trial_with_unwatched_host()) == "no telemetry of other"
    dropped: Telemetry = {("listen_drops_total", "sut", None, None): {-0.01: 7.0, 3.05: 8.0}}
    assert finding_of("accept-overflow", trial_with_unwatched_host(dropped)) is not None


def test_throttling_of_a_host_without_telemetry() -> None:
    reported = skip_reason("throttled", trial_with_unwatched_host())
    assert reported == "unknown: CPU time that the hypervisor withheld from other"
    assert finding_of("throttled", trial_with_unwatched_host(core_counters("sut", 0, user=0.9, steal=0.1))) is not None


@pytest.mark.parametrize(
    ("watched", "known"),
    [
        ((build_watch("sut"), build_watch("load")), True),
        ((build_watch("sut", cpu_quota=0.5), build_watch("load")), False),
    ],
)
def test_throttling_by_a_quota_is_unknown_only_with_a_quota(watched: tuple[WatchRecord, ...], *, known: bool) -> None:
    evidence = build_trial(without=("cgroup_throttled_s_total",), watched=watched)
    if known:
        assert finding_of("throttled", evidence) is None
    else:
        assert (
            skip_reason("throttled", evidence)
            == "unknown: CPU time that a CPU quota that the scenario does not state withheld from sut"
        )
