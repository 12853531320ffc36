"""Runs of a cell against itself: the share of false differences with real noise on the lab."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from scipy import stats

from benchkit.comparison.ratios import Ratio
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from tests.bench.real_runs import STACKS, interval, ratio_of, run_once, table

RUNS = int(os.environ.get("BENCHKIT_AA_RUNS", "20"))
MOST_SIGNIFICANT = 3
"""Maximum of 20 comparisons at a level of 0.05; the probability of more by chance is 1.6 % (binomial)."""

SCENARIO = f"""\
name: aa
title: A cell compared with itself
{STACKS}
factors: {{work: ["loop:50000"]}}
control: [{{work: "loop:50000"}}]
blocks: 8
"""


def test_a_cell_seldom_differs_from_itself(lab: Lab, tmp_path: Path) -> None:
    """Compare runs of one cell, each with its own seed; all runs are included."""
    scenario, store = tmp_path / "aa.yaml", tmp_path / "store"
    scenario.write_text(SCENARIO)
    judged, all_trials = [], []
    with connect_all(lab.inventory()) as hosts:
        for seed in range(1, RUNS + 1):
            run_id = run_once(store, read_experiment(str(scenario)), hosts, seed=seed)
            judged.append(ratio_of(store, run_id))
            all_trials.append(ratio_of(store, run_id, ()))
    each = ("blocks", "ratio", "95 % interval", "p", "difference")
    heads = ("run", *each, *(f"{head}, all trials" for head in each))
    pairs = enumerate(zip(judged, all_trials, strict=True), start=1)
    print("\n" + table(heads, ((str(seed), *_columns(one), *_columns(other)) for seed, (one, other) in pairs)))
    print("\n" + _sentence("as judged", judged) + "\n" + _sentence("with the trials of all verdicts", all_trials))
    assert _significant(judged) <= MOST_SIGNIFICANT
    assert _significant(all_trials) <= MOST_SIGNIFICANT
    assert not any(ratio.outcome == "undecided" for ratio in all_trials)


def _significant(ratios: Sequence[Ratio]) -> int:
    return sum(ratio.outcome in {"higher", "lower"} for ratio in ratios)


def _sentence(which: str, ratios: Sequence[Ratio]) -> str:
    found = _significant(ratios)
    undecided = sum(ratio.outcome == "undecided" for ratio in ratios)
    by_chance = float(stats.binom.sf(found - 1, len(ratios), 0.05))
    return (
        f"{found} of {len(ratios)} comparisons of a cell with itself are significant at 5 % {which}, {undecided} undecided. "
        f"As many or more come by chance in {by_chance:.1%} of such series."
    )


def _columns(ratio: Ratio) -> tuple[str, ...]:
    point = "" if ratio.ratio is None else f"{ratio.ratio:.3f}"
    p = "" if ratio.p_holm is None else f"{ratio.p_holm:.3f}"
    return str(ratio.blocks), point, interval(ratio), p, ratio.outcome
