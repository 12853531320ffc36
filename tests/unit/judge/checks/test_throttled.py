"""Tests of the check throttled."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from tests.support.judge.builders import (
    WINDOW_S,
    Telemetry,
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
