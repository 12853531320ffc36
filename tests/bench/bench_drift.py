"""A host that slows down during the run: the ratio that each design finds for a known difference."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchkit.cli.progress import SilentProgress
from benchkit.comparison.power import mde, noise_of
from benchkit.comparison.ratios import Ratio
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.stats.inference import MIN_BLOCKS
from benchkit.store.tables import load
from tests.bench.real_runs import QUIET, STACKS, interval, ratio_of, run_once, table
from tests.qualify.faults.disturbances import set_quota

PILOT_BLOCKS, MOST_BLOCKS = 8, 60
"""More blocks would take an hour; a machine that needs them is too noisy for this benchmark."""
RESOLVED = 1.08
"""Ratio that the number of blocks, derived from the pilot's noise, detects in 80 % of runs; a tenth is detected in
nearly all."""
WINDOW_S = 3
"""Rates of one second vary so much more than rates of several seconds that a higher number of blocks does not
compensate.
"""
SLOW, FAST = "loop:223000", "loop:200000"
"""Loops whose rates differ by a tenth, because a request also takes time outside of its loop."""
LEAST_QUOTA = 0.55
"""CPU quota of the server's host at the end of the run; at the start it is 1."""

SLICED_TRIES, SLICED_BLOCKS = 10, 6
STEP_S = 0.2
"""Pause between two changes of the quota while sliced blocks run, in seconds: less than a slice."""

SCENARIO = f"""\
name: drift
title: A difference of about a tenth on a host that gets slower
{STACKS}
factors: {{work: ["{SLOW}", "{FAST}"]}}
baseline: {{work: "{SLOW}"}}
blocks: {PILOT_BLOCKS}
"""


class Tightening(SilentProgress):
    """A CPU quota of the server's host that decreases with each trial."""

    def __init__(self, lab: Lab, trials: int) -> None:
        self._lab = lab
        self._trials = trials
        self._begun = 0

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:  # noqa: ARG002 - the quota depends on neither
        """Set the quota for the next trial."""
        set_quota(self._lab, "sut", 1 - (1 - LEAST_QUOTA) * self._begun / (self._trials - 1))
        self._begun += 1


def test_blocks_find_the_ratio_that_a_sequential_design_misses(lab: Lab, tmp_path: Path) -> None:
    scenario, store = tmp_path / "drift.yaml", tmp_path / "store"
    scenario.write_text(SCENARIO)
    with connect_all(lab.inventory()) as hosts:

        def run(design: str, blocks: int, watcher: SilentProgress = QUIET) -> str:
            settings = [f"design={design}", f"blocks={blocks}", f"load.duration_s={WINDOW_S}"]
            return run_once(store, read_experiment(str(scenario), settings=settings), hosts, watcher=watcher)

        pilot = load("trials", store=store, run_id=run("blocks", PILOT_BLOCKS))
        noise = noise_of(pilot, "rps")
        assert noise is not None
        detected = ((blocks, mde(noise, blocks)) for blocks in range(MIN_BLOCKS, MOST_BLOCKS + 1))
        pairs = next((blocks for blocks, ratio in detected if ratio is not None and ratio <= RESOLVED), None)
        print(f"\nlog-ratios of {PILOT_BLOCKS} blocks have a standard deviation of {noise.sd:.3f}: {pairs} blocks")
        assert pairs is not None, f"{MOST_BLOCKS} blocks are not enough"
        # The quota rightly makes trials invalid. No trial is excluded here, to test the design alone.
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
    heads = ("design", "host gets slower", "blocks", "fast over slow", "95 % interval", "p", "result", "error")
    print(f"\n{table(heads, rows)}")
    assert true.outcome == "higher"
    assert 1.05 < true.ratio < 1.2
    assert _covers(found["blocks"], true)
    assert found["blocks"].outcome == "higher"
    assert not _covers(found["sequential"], true)
    assert found["sequential"].outcome != "higher"


def test_sliced_blocks_find_the_ratio_each_time(lab: Lab, tmp_path: Path) -> None:
    """Tighten the quota all the time, within blocks too, and find the difference in each of several runs."""
    scenario, store = tmp_path / "drift.yaml", tmp_path / "store"
    scenario.write_text(SCENARIO)
    settings = ["design=sliced", "load.tool=h2load", f"load.duration_s={WINDOW_S}"]
    with connect_all(lab.inventory()) as hosts:

        def run(blocks: int, seed: int) -> Ratio:
            experiment = read_experiment(str(scenario), settings=[*settings, f"blocks={blocks}"])
            # The quota rightly makes trials suspect. None is excluded here, to test the design alone.
            return ratio_of(store, run_once(store, experiment, hosts, seed=seed), ())

        run(1, 1)  # builds the servers
        started_s = time.monotonic()
        true = run(2 * SLICED_BLOCKS, 1)
        took_s = (time.monotonic() - started_s) / 2
        found = []
        for seed in range(1, SLICED_TRIES + 1):
            with tightening(lab, took_s):
                found.append(run(SLICED_BLOCKS, seed))
    assert true.ratio is not None
    rows = [_row("sliced", "none", true, true.ratio)]
    rows += [_row("sliced", f"to {LEAST_QUOTA:.0%} of its CPU", ratio, true.ratio) for ratio in found]
    heads = ("design", "host gets slower", "blocks", "fast over slow", "95 % interval", "p", "result", "error")
    print(f"\n{table(heads, rows)}")
    assert true.outcome == "higher"
    assert 1.05 < true.ratio < 1.2
    assert [ratio.outcome for ratio in found] == ["higher"] * SLICED_TRIES


@contextmanager
def tightening(lab: Lab, seconds: float) -> Iterator[None]:
    """Decrease the CPU quota of the server's host steadily over this time, and remove it at the end."""
    ended = threading.Event()
    started_s = time.monotonic()

    def tighten() -> None:
        while not ended.wait(STEP_S):
            passed = min(1.0, (time.monotonic() - started_s) / seconds)
            set_quota(lab, "sut", 1 - (1 - LEAST_QUOTA) * passed)

    thread = threading.Thread(target=tighten)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()
        set_quota(lab, "sut", None)


def _covers(ratio: Ratio, true: Ratio) -> bool:
    """Return True if the intervals of a ratio and of the true ratio, which is measured too, overlap."""
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
