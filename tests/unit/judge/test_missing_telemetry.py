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
