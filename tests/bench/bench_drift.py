"""A host that gets slower during the run: what each design makes of a difference that is known."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from benchkit.analysis.ratio import Ratio
from benchkit.analysis.resolution import blocks_for, noise_of
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.results.tables import load
from benchkit.scenario.read import read_experiment
from benchkit.scenario.trial_order import PlannedTrial
from tests.bench.real_runs import QUIET, STACKS, interval, ratio_of, run_once, table
from tests.faults.outsiders import set_quota

pytestmark = pytest.mark.lab

PILOT_BLOCKS, MOST_BLOCKS = 8, 60
"""More of these would take an hour; a machine that needs them is too noisy for this."""
RESOLVED = 1.08
"""The pilot's noise sets the number of blocks so that this much is shown in 80 % of runs, and a tenth in nearly all."""
WINDOW_S = 3
"""Over a second rates vary more than over several, by more than blocks of shorter trials make up for."""
SLOW, FAST = "loop:223000", "loop:200000"
"""Rates differ by a tenth: a request takes some time beside its loop."""
LEAST_QUOTA = 0.55
"""CPUs that the server's host has in the end, of one: rates fall by so much over the run."""

SCENARIO = f"""\
name: drift
title: A difference of about a tenth on a host that gets slower
{STACKS}
factors: {{work: ["{SLOW}", "{FAST}"]}}
baseline: {{work: "{SLOW}"}}
blocks: {PILOT_BLOCKS}
"""


class Tightening(SilentProgress):
    """The CPU quota of the server's host, tighter at each trial than at the one before."""

    def __init__(self, lab: Lab, trials: int) -> None:
        self._lab = lab
        self._trials = trials
        self._begun = 0

    def trial_started(self, planned_trial: PlannedTrial) -> None:  # noqa: ARG002 - it tightens whatever is run
        """A trial begins."""
        set_quota(self._lab, "sut", 1 - (1 - LEAST_QUOTA) * self._begun / (self._trials - 1))
        self._begun += 1


def test_blocks_resolve_what_a_sequential_design_gets_wrong(lab: Lab, tmp_path: Path) -> None:
    scenario, store = tmp_path / "drift.yaml", tmp_path / "store"
    scenario.write_text(SCENARIO)
    with connect_all(lab.inventory()) as hosts:

        def run(design: str, blocks: int, watcher: SilentProgress = QUIET) -> str:
            settings = [f"design={design}", f"blocks={blocks}", f"load.duration_s={WINDOW_S}"]
            return run_once(store, read_experiment(str(scenario), settings=settings), hosts, watcher=watcher)

        pilot = load("trials", store=store, run_id=run("blocks", PILOT_BLOCKS))
        noise = noise_of(pilot, "rps")
        assert noise is not None
        pairs = blocks_for(RESOLVED, noise, most=MOST_BLOCKS)
        print(f"\nlog-ratios of {PILOT_BLOCKS} blocks have a standard deviation of {noise.sd:.3f}: {pairs} blocks")
        assert pairs is not None, f"{MOST_BLOCKS} blocks would not do"
        # A quota that nobody asked for makes trials invalid, and rightly so. Here the design alone has to cope.
        true = ratio_of(store, run("blocks", pairs), ())
        found = {}
        for design, per_block in (("sequential", 2), ("blocks", 2), ("abba", 4)):
            blocks = math.ceil(2 * pairs / per_block)
            try:
                run_id = run(design, blocks, Tightening(lab, per_block * blocks))
                found[design] = ratio_of(store, run_id, ())
            finally:
                set_quota(lab, "sut", None)
    assert true.ratio is not None
    rows = [_row("blocks", "none", true, true.ratio)]
    rows += [_row(design, f"to {LEAST_QUOTA:.0%} of its CPU", ratio, true.ratio) for design, ratio in found.items()]
    heads = ("design", "host gets slower", "blocks", "fast over slow", "95 % interval", "p", "shows", "error")
    print(f"\n{table(heads, rows)}")
    assert true.outcome == "higher"
    assert 1.05 < true.ratio < 1.2
    assert _covers(found["blocks"], true)
    assert found["blocks"].outcome == "higher"
    assert not _covers(found["sequential"], true)
    assert found["sequential"].outcome != "higher"


def _covers(ratio: Ratio, true: Ratio) -> bool:
    """Whether the intervals of a ratio and of the true one, which is measured too, have anything in common."""
    if ratio.low is None or ratio.high is None or true.low is None or true.high is None:
        return False
    return ratio.low <= true.high and true.low <= ratio.high


def _row(design: str, drift: str, ratio: Ratio, true: float) -> tuple[str, ...]:
    shown = f"{ratio.outcome} ({ratio.worth})" if ratio.worth else ratio.outcome
    if ratio.ratio is None:
        return design, drift, str(ratio.blocks), "none", interval(ratio), "", shown, ""
    p = "" if ratio.p_holm is None else f"{ratio.p_holm:.3g}"
    return (
        design,
        drift,
        str(ratio.blocks),
        f"{ratio.ratio:.3f}",
        interval(ratio),
        p,
        shown,
        f"{ratio.ratio / true - 1:+.1%}",
    )
