"""Tests of the check service-restarted."""

from __future__ import annotations

import pytest

from benchkit.judge.check import ALL
from tests.support.judge.builders import build_service, build_trial, finding_of


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (((10, 100), (11, 100)), False),
        (((10, 100), (12, 170)), True),
        (((10, 100),), True),
        (((10, 100), (11, 170)), True),
    ],
)
def test_changed_processes(after: tuple[tuple[int, int], ...], *, expected: bool) -> None:
    """Treat a reused pid as another process."""
    one = build_service(pids_before=((10, 100), (11, 100)), pids_after=after)
    found = finding_of("service-restarted", build_trial(services=(one,)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)
