"""Tests of the check throttled."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
    build_service,
    build_trial,
    core_counters,
    finding_of,
)


@pytest.mark.parametrize(("steal", "expected"), [(0.019, False), (0.021, True)])
def test_cpu_time_withheld_by_the_hypervisor(steal: float, *, expected: bool) -> None:
    found = finding_of("throttled", build_trial(core_counters("sut", 0, user=0.9, steal=steal)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("suspect", ALL)


@pytest.mark.parametrize(("share", "expected"), [(0.019, False), (0.021, True)])
def test_cpu_time_withheld_by_a_quota(share: float, *, expected: bool) -> None:
    waited: Telemetry = {("cgroup_throttled_s_total", "sut", None, None): {-0.01: 0.0, 3.05: share * WINDOW_S}}
    assert (finding_of("throttled", build_trial(waited)) is not None) == expected
    # What the scenario asks for holds in a group of its own: what is seen here is somebody else's nevertheless.
    asked = {"roles": {"sut": {"quota": 0.5}}}
    assert (finding_of("throttled", build_trial(waited, scenario=asked)) is not None) == expected


def test_a_container_at_its_own_limit_is_no_throttled_host() -> None:
    """A container's quota withholds time from its own group, as is wanted; a host's quota is not."""
    limited = build_service(quota=0.5, has_own_quota=True)
    of_container: Telemetry = {("quota_throttled_s_total", "sut", "app", None): {-0.01: 0.0, 3.05: 0.5 * WINDOW_S}}
    assert finding_of("throttled", build_trial(of_container, services=(limited,))) is None
    of_host: Telemetry = {("cgroup_throttled_s_total", "sut", None, None): {-0.01: 0.0, 3.05: 0.5 * WINDOW_S}}
    found = finding_of("throttled", build_trial({**of_container, **of_host}, services=(limited,)))
    assert found is not None
    assert "withheld CPU time from sut: 50.0 % of the window" in found.seen
