from __future__ import annotations

import numpy as np
import pytest

from benchkit.comparison.gate import (
    GateLimits,
    GateResult,
    default_limits,
    judge_ratios,
    parse_limits,
)
from benchkit.comparison.ratios import block_ratios
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import Exclusion, take_samples
from tests.support.comparison.fixtures import trials_of

NOISE = np.array([0.98, 1.02, 1.0, 0.99, 1.01, 1.0])


def gate(*ratios: float, metric: str = "rps", blocks: int = 6, spread: float = 1) -> GateResult:
    """Return the result of a gate on cells with these true ratios to a baseline."""
    cells = {f"c{i}": 100 * ratio * NOISE[:blocks] ** spread for i, ratio in enumerate(ratios)}
    trials = trials_of({"base": np.full(blocks, 100), **cells}, metric=metric)
    pairs = [ComparedCells(cell, "base") for cell in cells]
    return judge_ratios(block_ratios(take_samples(trials, metric), pairs), GateLimits(metrics={metric: 0.05}))


def test_limitation_of_all_ratios_is_inconclusive() -> None:
    trials = trials_of({"base": 100 * NOISE, "c": 120 / NOISE, "d": 50 / NOISE})
    ratios = block_ratios(take_samples(trials, "rps"), [ComparedCells("c", "base"), ComparedCells("d", "base")])
    made = judge_ratios(ratios, GateLimits(metrics={"rps": 0.05}), limitation="the hosts were on fire")
    assert made.verdict == "inconclusive"
    assert [line.verdict for line in made.lines] == ["inconclusive", "inconclusive"]
    assert all(line.text.endswith("is allowed; the hosts were on fire") for line in made.lines)


def test_ratio_within_the_threshold_passes() -> None:
    result = gate(1.0, 1.3, 0.99)
    assert (result.verdict, result.exit_code) == ("passed", 0)
    assert [line.verdict for line in result.lines] == ["passed"] * 3
    assert result.lines[0].limit == pytest.approx(0.95)


def test_ratio_beyond_the_threshold_regresses() -> None:
    result = gate(1.0, 0.8)
    assert (result.verdict, result.exit_code) == ("regressed", 3)
    assert [line.verdict for line in result.lines] == ["passed", "regressed"]
    assert result.lines[1].text.endswith("at least 0.95 is allowed")
    # Latency is worse when it rises, and its threshold is a rise.
    result = gate(1.2, 0.8, metric="latency_p99_s")
    assert [line.verdict for line in result.lines] == ["regressed", "passed"]
    assert result.lines[0].limit == pytest.approx(1.05)


def test_interval_across_the_threshold_is_inconclusive() -> None:
    result = gate(1.3, 0.95)
    assert (result.verdict, result.exit_code) == ("inconclusive", 4)
    assert [line.verdict for line in result.lines] == ["passed", "inconclusive"]
    assert gate(0.8, spread=15).verdict == "inconclusive"  # too noisy to tell, though the point is far beyond


def test_an_alarm_is_adjusted_for_the_number_of_ratios_and_a_pass_is_not() -> None:
    alone = gate(0.93)
    assert alone.verdict == "regressed"
    among = gate(0.93, *[1.0] * 19)
    assert among.verdict == "inconclusive"
    assert among.lines[0].p_holm == pytest.approx(20 * (alone.lines[0].p_holm or 0))
    assert all(line.verdict == "passed" for line in among.lines[1:])


def test_gate_ignores_invalid_trials_and_controls() -> None:
    trials = trials_of({"a": 100 * NOISE, "b": 100 / NOISE, "b~control": 50 * NOISE})
    trials.loc[trials["trial_id"] == "r1.b.b1", "rps"] = 1
    pairs = [ComparedCells("b", "a"), ComparedCells("b~control", "b", control=True)]
    excluded = Exclusion("r1.b.b1", "the service was killed")
    result = judge_ratios(
        block_ratios(take_samples(trials, "rps", [excluded]), pairs), GateLimits(metrics={"rps": 0.1})
    )
    assert [line.cell_id for line in result.lines] == ["b"]
    assert result.verdict == "passed"


def test_thresholds_are_read_from_options() -> None:
    assert parse_limits(["rps=5%", "latency_p99_s=0.1"]).metrics == {"rps": 0.05, "latency_p99_s": 0.1}
    assert default_limits(["rps"]).metrics == {"rps": 0.05}
