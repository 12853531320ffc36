"""Tests of the check busy-neighbour."""

from __future__ import annotations

import pytest

from benchkit.analysis.verdicts.check import LOAD
from tests.analysis.verdicts.builders import build_slices, build_trial, finding_of, skip_reason


@pytest.mark.parametrize(("cores", "expected"), [(0.009, False), (0.011, True)])
def test_cpu_time_of_idle_servers(cores: float, *, expected: bool) -> None:
    found = finding_of("busy-neighbour", build_trial(slices=build_slices(neighbour_cpu_s=0.25 * cores)))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


def test_the_mean_over_all_slices_counts() -> None:
    quiet, one_busy = build_slices(11, neighbour_cpu_s=0.0), build_slices(1, neighbour_cpu_s=0.02)
    assert finding_of("busy-neighbour", build_trial(slices=(*quiet, *one_busy))) is None


def test_trial_of_another_design_has_no_neighbours() -> None:
    assert finding_of("busy-neighbour", build_trial()) is None


def test_missing_telemetry() -> None:
    assert "is unknown" in skip_reason("busy-neighbour", build_trial(slices=build_slices()))
