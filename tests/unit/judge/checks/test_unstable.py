"""Tests of the check unstable."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest

from benchkit import units
from benchkit.comparison.power import RatioNoise, half_width
from benchkit.judge.check import RATES, Finding
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import SERVERS, run_findings, skipped_trials, trial_ids


@pytest.mark.parametrize(
    ("blocks", "spread", "expected"),
    [
        (6, 0.099, False),
        (6, 0.101, True),
        (3, 0.042, False),
        (3, 0.043, True),
        (30, 0.28, False),
        (30, 0.282, True),
    ],
)
def test_limit_depends_on_the_number_of_blocks(blocks: int, spread: float, *, expected: bool) -> None:
    evenly = np.linspace(-1, 1, blocks)
    rates = {"stack=a": 1000 * np.exp(spread * evenly / evenly.std(ddof=1)), "stack=b": [900, 901, 902] * 2}
    reasons = run_findings("unstable", manifest_of(SERVERS[:2]), trials_of(rates))
    assert set(reasons) == (trial_ids("stack=a", blocks) if expected else set())
    assert all((each.severity, each.metrics) == ("suspect", RATES) for each in reasons.values())


@pytest.mark.parametrize("blocks", [3, 6, 30])
def test_finding_states_the_interval_of_a_ratio(blocks: int) -> None:
    evenly = np.linspace(-1, 1, blocks)
    rates = 1000 * np.exp(0.5 * evenly / evenly.std(ddof=1))
    reason = run_findings("unstable", manifest_of(SERVERS[:1]), trials_of({"stack=a": rates}))["r1.stack=a.b1"]
    width = half_width(RatioNoise(0.5 * np.sqrt(2)), blocks)
    assert width is not None
    assert f"± {units.share(width - 1)}:" in reason.text


def spread_finding(rates: npt.ArrayLike, loops_s: Sequence[float | None] | npt.NDArray[np.float64]) -> Finding:
    trials = trials_of({"stack=a": rates}).assign(server_loop_s=np.array(loops_s, dtype=float))
    return run_findings("unstable", manifest_of(SERVERS[:1], blocks=len(loops_s)), trials)["r1.stack=a.b1"]


def test_spread_that_follows_core_speed_is_explained() -> None:
    """Use rates and loop times of a run on a lab whose cores were sometimes slowed."""
    reason = spread_finding(
        (62_626, 59_753, 58_539, 48_246, 47_796, 48_923, 43_426, 52_931),
        (9.37e-6, 9.95e-6, 9.41e-6, 11.05e-6, 11.74e-6, 10.44e-6, 14.35e-6, 11.33e-6),
    )
    assert "Core speed explains 77.6 % of the variance" in reason.means
    assert "a short loop took 9.37 µs to 14.3 µs on the server's cores" in reason.means
    assert reason.advice.startswith("The machine itself probably varies")


@pytest.mark.parametrize(
    ("squared", "reported"),
    [
        (0.66, True),
        (0.64, False),
    ],
)
def test_correlation_by_chance_explains_nothing(squared: float, *, reported: bool) -> None:
    along, across = np.array([-2, -1, 0, 1, 2]) / np.sqrt(10), np.array([2, -1, -2, -1, 2]) / np.sqrt(14)
    logs = np.sqrt(squared) * along + np.sqrt(1 - squared) * across
    reason = spread_finding(100 * np.exp(logs), 1e-5 * np.exp(-along))
    assert (f"Core speed explains {units.share(squared)} of the variance" in reason.means) == reported


@pytest.mark.parametrize(
    "loops_s",
    [
        (5e-5, 4e-5, 3e-5, 2e-5, None),  # of one trial nobody knows
        (1e-5, 1e-5, 1e-5, 1e-5, 1e-5),  # at their speed all the time
        (1e-5, 2e-5, 3e-5, 4e-5, 5e-5),  # the slower they were the faster the server
    ],
)
def test_spread_without_correlation_has_an_unknown_cause(loops_s: Sequence[float | None]) -> None:
    reason = spread_finding((100, 130, 160, 190, 220), loops_s)
    assert "Core speed" not in reason.means
    assert reason.advice.startswith("Find what varies")


def test_four_trials_explain_nothing() -> None:
    reason = spread_finding((100, 130, 160, 190), (5e-5, 4e-5, 3e-5, 2e-5))
    assert reason.advice.startswith("Find what varies")


def test_target_rate_does_not_depend_on_core_speed() -> None:
    rates, loops_s = (100, 130, 160, 190, 220), (5e-5, 4e-5, 3e-5, 2e-5, 1e-5)
    trials = trials_of({"stack=a": rates}, rate_requested=200.0).assign(server_loop_s=loops_s)
    reason = run_findings("unstable", manifest_of(SERVERS[:1], blocks=5), trials)["r1.stack=a.b1"]
    assert reason.advice.startswith("Find what varies")


def test_two_trials_are_skipped() -> None:
    assert skipped_trials("unstable", manifest_of(SERVERS[:1]), trials_of({"stack=a": [1, 9]})) == trial_ids(
        "stack=a", 2
    )


@pytest.mark.parametrize(("differences", "expected"), [([0.01, -0.01] * 3, False), ([0.3, -0.3] * 3, True)])
def test_sliced_blocks_are_unstable_by_what_their_cells_do_not_share(
    differences: list[float], *, expected: bool
) -> None:
    shared = np.exp([0.0, 0.5, -0.8, 0.3, 0.9, -0.2])
    rates = {"stack=a": 1e4 * shared, "stack=b": 1e4 * shared * np.exp(differences)}
    findings = run_findings("unstable", manifest_of(SERVERS[:2]), trials_of(rates, slices=20))
    assert set(findings) == (trial_ids("stack=a", 6) | trial_ids("stack=b", 6) if expected else set())
    assert all("relative to the others of their blocks" in found.seen for found in findings.values())


def test_blocks_with_other_cells_make_no_cell_unstable() -> None:
    noise = np.exp([0.01, -0.01, 0.01, -0.01, 0.01, -0.01])
    trials = trials_of({"stack=a": 1e4 * noise, "stack=b": [3e4] * 6, "stack=c": [2e3] * 6}, slices=20)
    in_group = np.where(trials["block"] % 2 == 1, "stack=b", "stack=c")
    grouped = trials[(trials["cell_id"] == "stack=a") | (trials["cell_id"] == in_group)]
    cells = [*SERVERS[:1], {"stack": "b"}, {"stack": "c"}]
    assert run_findings("unstable", manifest_of(cells), grouped) == {}
