"""Tests of the checks cold, plateau, unstable and drifted-host."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from benchkit.judge.check import ALL, Finding
from benchkit.judge.checks.between_trials import first_over_last
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import (
    SERVERS,
    WINDOW_S,
    Telemetry,
    build_slices,
    build_trial,
    counted_slices,
    run_findings,
    skip_reason,
    trial_ids,
)


def served_requests(first: float, last: float) -> Telemetry:
    """Return request counts at these rates in the first and the last third, with the mean of both in the second."""
    third, rates = WINDOW_S / 3, (first, (first + last) / 2, last)
    times = (-0.01, third, 2 * third, WINDOW_S + 0.05)
    counts = (0.0, rates[0] * third, sum(rates[:2]) * third, sum(rates) * third)
    return {("requests_total", "sut", "app", "1"): dict(zip(times, counts, strict=True))}


@pytest.mark.parametrize("first", [0.8, 1.0, 1.25])
def test_ratio_of_first_to_last_third(first: float) -> None:
    assert first_over_last(build_trial(served_requests(first * 50_000, 50_000))) == pytest.approx(first, rel=0.01)


def test_too_few_samples_are_skipped() -> None:
    seldom: Telemetry = {("requests_total", "sut", "app", "1"): {-0.01: 0, 1.0: 9, 3.05: 10}}
    assert skip_reason("cold", build_trial(seldom))
    assert first_over_last(build_trial(seldom)) is None


def cold_findings(*ratios: float | None) -> dict[str, Finding]:
    trials = trials_of({"stack=a": [100.0] * len(ratios)}).assign(rate_first_over_last=np.array(ratios, dtype=float))
    return run_findings("cold", manifest_of(SERVERS[:1], blocks=len(ratios)), trials)


def test_server_that_is_slow_at_first_in_every_trial_is_cold() -> None:
    expected = cold_findings(0.8, 0.85, 0.92, 0.7)
    assert set(expected) == trial_ids("stack=a", 4)
    assert {(each.severity, each.metrics) for each in expected.values()} == {("invalid", ALL)}
    assert "over 4 trials of the cell the server answered 18.7 % fewer requests" in expected["r1.stack=a.b1"].seen


@pytest.mark.parametrize(
    "ratios",
    [
        (0.95, 0.92, 0.93, 0.94),  # within the threshold
        (0.6, 1.3, 0.7, 1.4),  # a host whose speed changes by itself
        (0.55, 0.95, 1.0),  # as much on average, but by one trial alone
        (0.1, 0.1, 0.82),  # not clearly in each
        (1.3, 1.4, 1.5),
        (None, None),
    ],
)
def test_other_cells_are_not_cold(ratios: tuple[float | None, ...]) -> None:
    assert cold_findings(*ratios) == {}


def test_single_trial_is_compared_with_the_threshold() -> None:
    assert set(cold_findings(0.89)) == trial_ids("stack=a", 1)
    assert cold_findings(0.91) == {}
    assert "in the only trial of the cell" in cold_findings(0.5)["r1.stack=a.b1"].seen


@pytest.mark.parametrize(("first", "expected"), [(800, 0.8), (1000, 1.0), (0, 1 / 3000)])
def test_ratio_of_first_to_last_slices(first: int, expected: float) -> None:
    counted = counted_slices([first] * 3 + [900] * 4 + [1000] * 3)
    trial = dataclasses.replace(build_trial(served_requests(1, 50_000), slices=build_slices(10)), slices=counted)
    assert first_over_last(trial) == pytest.approx(expected)
