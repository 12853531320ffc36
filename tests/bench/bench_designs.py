"""Sliced blocks against blocks and sequential runs: width of intervals at equal wall time, A/A runs, agreement, power.

Each comparison can be repeated by itself: `make bench ARGS="-k equal_wall_time"`. Designs take random turns.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np
import pytest

from benchkit.comparison.compare import compare
from benchkit.comparison.power import RatioNoise, mde, noise_of
from benchkit.comparison.ratios import Ratio
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from benchkit.stats.inference import MIN_BLOCKS
from benchkit.store.tables import load
from tests.bench.real_runs import interval, run_once, table

SERIES = int(os.environ.get("BENCHKIT_DESIGN_SERIES", "10"))
"""Series of one run of each design."""
RUN_S = float(os.environ.get("BENCHKIT_DESIGN_RUN_S", "60"))
"""Wall time of a run, about."""
AA_RUNS = int(os.environ.get("BENCHKIT_SLICED_AA_RUNS", "40"))
MOST_SIGNIFICANT = 5
"""Maximum of 40 comparisons at a level of 0.05; the probability of more by chance is 1.4 % (binomial)."""
TWO_PER_CENT_TRIES = int(os.environ.get("BENCHKIT_TWO_PER_CENT_TRIES", "20"))
TWO_PER_CENT_S = 60.0
"""Wall time of a run that is to show a difference of 2 %, about: half of the limit."""
LONGEST_S = 120.0
"""The limit."""
SHORT_WINDOW_S = 3.0
"""Measured time of a cell in a block of short runs, in seconds: seven sliced blocks take a minute."""
LEAST_POWER = 0.8
PILOT_BLOCKS, MOST_BLOCKS = 12, 2000
"""Blocks that the noise of the design `blocks` is taken from, and the most that are considered."""
WINDOW_S = 5.0
"""Measured time of a cell in a block, in seconds."""
METRICS = ("rps", "latency_p99_s", "server_cpu_s_per_request")
LARGEST_SHARE: Mapping[str, float] = {"rps": 1 / 5, "latency_p99_s": 1 / 3, "server_cpu_s_per_request": 1 / 3}
"""Median half-width of sliced blocks relative to blocks, at most."""

SCENARIO = """\
name: designs
title: Two servers that differ by a few per cent
question: Which design shows the difference?
stacks:
  one: {{entry: app, services: {{app: {{backend: nethttp, role: sut, listen: 8080, work: "{work}"}}}}}}
  two: {{entry: app, services: {{app: {{backend: {backend}, role: sut, listen: 8080, {options}}}}}}}
{cells}
load: {{tool: h2load, connections: 16, threads: 1, duration_s: {window_s:g}, warmup_s: 1, histogram: {histogram}}}
telemetry: {{interval_s: 1}}
design: {design}
blocks: {blocks}
"""

TWO_CELLS = "factors: {stack: [one, two]}\nbaseline: {stack: one}"
A_CONTROL = "factors: {stack: [one]}\ncontrol: [{stack: one}]"


class ComparedCells(NamedTuple):
    """The server that net/http is compared with, and the work of net/http. The work of both saturates their core."""

    backend: str
    options: str
    cells: str = TWO_CELLS
    work: str = "loop:50000"


EQUAL, SLOWER = "itself", "more work"
PAIRS: Mapping[str, ComparedCells] = {
    EQUAL: ComparedCells("nethttp", 'work: "loop:50000"', A_CONTROL),
    SLOWER: ComparedCells("nethttp", 'work: "loop:56000"'),
    "fasthttp": ComparedCells("fasthttp", 'work: "loop:50000"'),
    "netpoll": ComparedCells("netpoll", 'work: "loop:50000"'),
    "netpoll with two threads": ComparedCells("netpoll", 'work: "loop:50000", gomaxprocs: 2'),
    "hertz": ComparedCells("hertz", 'work: "loop:50000"'),
    "hertz with two threads": ComparedCells("hertz", 'work: "loop:50000", gomaxprocs: 2'),
    "gnet": ComparedCells("gnet", 'work: "loop:50000"'),
}
TWO_PER_CENT = ComparedCells("nethttp", 'work: "loop:206200"', work="loop:200000")
"""A loop longer by 3.1 %, which takes two thirds of the time of a request: its rate is about 2 % lower."""


LONG_LOOPS = ComparedCells("nethttp", 'work: "loop:2200000"', work="loop:2000000")
KNOWN_COST = (1.094, 1.1)
"""Ratio of the costs of their requests, known by construction. It is 1.1 of the loops, and a little less with the rest
of a request. The rest takes 20 to 30 us, and 2,000,000 additions more than 500 us.
"""
LARGEST_HALF_WIDTH = 0.02
"""Half-width of the log-ratio, at most: a fifth of the difference."""


class DesignRun(NamedTuple):
    """A run of one design: its wall time, its ratios by metric, and the noise of its log-ratios of RPS."""

    wall_s: float
    ratios: Mapping[str, Ratio]
    noise: RatioNoise | None


def run_design(
    hosts: Hosts,
    folder: Path,
    pair: ComparedCells,
    design: str,
    *,
    blocks: int,
    seed: int,
    window_s: float = WINDOW_S,
    rows: bool = True,
) -> DesignRun:
    """Compare net/http with another server, with the trials of all verdicts; `rows`: every request is recorded."""
    scenario, store = folder / "designs.yaml", folder / "store"
    fields = {"design": design, "blocks": blocks, "window_s": window_s, "histogram": str(rows).lower()}
    scenario.write_text(SCENARIO.format(**pair._asdict(), **fields))
    started_s = time.monotonic()
    run_id = run_once(store, read_experiment(str(scenario)), hosts, seed=seed)
    wall_s = time.monotonic() - started_s
    ratios = compare(run_id, store=store, metrics=METRICS, exclusions=()).ratios
    noise = noise_of(load("trials", store=store, run_id=run_id), "rps")
    return DesignRun(wall_s, {ratio.metric: ratio for ratio in ratios}, noise)


def half_width(ratio: Ratio) -> float:
    """Return half the width of the interval of a log-ratio; fail if there is none."""
    assert ratio.low is not None, ratio.reason
    assert ratio.high is not None, ratio.reason
    return math.log(ratio.high / ratio.low) / 2


def test_half_width_at_equal_wall_time(lab: Lab, tmp_path: Path) -> None:
    """Compare the intervals of three designs that take the same time; blocks follow from a first block of each."""
    pair = PAIRS[SLOWER]
    widths: dict[tuple[str, str], list[float]] = {}
    rows = []
    with connect_all(lab.inventory()) as hosts:
        run_design(hosts, tmp_path, pair, "blocks", blocks=1, seed=1)  # builds the servers
        of_block = {
            design: run_design(hosts, tmp_path, pair, design, blocks=2, seed=1).wall_s / 2 for design in _DESIGNS
        }
        for series in range(1, SERIES + 1):
            for design in np.random.default_rng(series).permutation(_DESIGNS):
                blocks = max(3, round(RUN_S / of_block[design]))
                run = run_design(hosts, tmp_path, pair, design, blocks=blocks, seed=series)
                for metric, ratio in run.ratios.items():
                    if ratio.low is not None:
                        widths.setdefault((design, metric), []).append(half_width(ratio))
                each = (interval(run.ratios[metric]) for metric in METRICS)
                rows.append((str(series), design, str(blocks), f"{run.wall_s:.0f} s", *each))
    print("\n" + table(("series", "design", "blocks", "wall time", *METRICS), rows))
    medians = {key: median(values) for key, values in widths.items()}
    summary = [(design, *(f"{medians[design, metric]:.4f}" for metric in METRICS)) for design in _DESIGNS]
    print("\n" + table(("median half-width of a log-ratio", *METRICS), summary))
    shares = {metric: medians["sliced", metric] / medians["blocks", metric] for metric in METRICS}
    print("\nsliced relative to blocks: " + ", ".join(f"{metric} {share:.2f}" for metric, share in shares.items()))
    missed = {metric: share for metric, share in shares.items() if share > LARGEST_SHARE[metric]}
    assert not missed


def test_equal_cells_seldom_differ_in_sliced_blocks(lab: Lab, tmp_path: Path) -> None:
    with connect_all(lab.inventory()) as hosts:
        runs = [
            run_design(hosts, tmp_path, PAIRS[EQUAL], "sliced", blocks=6, seed=seed) for seed in range(1, AA_RUNS + 1)
        ]
    rows = [(str(seed), *_figures(run.ratios["rps"])) for seed, run in enumerate(runs, start=1)]
    print("\n" + table(("run", "blocks", "ratio", "95 % interval", "difference"), rows))
    for metric in METRICS:
        found = sum(run.ratios[metric].outcome in {"higher", "lower"} for run in runs)
        print(f"{metric}: {found} of {AA_RUNS} comparisons of equal cells are significant at 5 %")
    assert sum(run.ratios["rps"].outcome in {"higher", "lower"} for run in runs) <= MOST_SIGNIFICANT * AA_RUNS / 40


@pytest.mark.parametrize("name", PAIRS)
def test_designs_agree(name: str, lab: Lab, tmp_path: Path) -> None:
    """Compare the ratio of many blocks with the ratio of sliced blocks: their difference lies within its interval.

    No rows are recorded: blocks reduce them beside the load, and slices after it. That changes the load of a closed
    loop by more than the intervals are wide.
    """
    pair = PAIRS[name]
    with connect_all(lab.inventory()) as hosts:
        run_design(hosts, tmp_path, pair, "blocks", blocks=1, seed=1)  # builds the servers
        each = partial(run_design, hosts, tmp_path, pair, seed=2, window_s=SHORT_WINDOW_S, rows=False)
        runs = {design: each(design, blocks=blocks).ratios["rps"] for design, blocks in (("blocks", 12), ("sliced", 6))}
    print("\n" + table(("design", *_HEADS), [(design, *_figures(ratio)) for design, ratio in runs.items()]))
    one, other = runs.values()
    assert one.ratio is not None
    assert other.ratio is not None
    assert abs(math.log(one.ratio / other.ratio)) <= math.hypot(half_width(one), half_width(other))


def test_two_per_cent_in_two_minutes(lab: Lab, tmp_path: Path) -> None:
    """Count the sliced runs that show a difference of 2 %, and say how long blocks need for it."""
    with connect_all(lab.inventory()) as hosts:

        def run(blocks: int, seed: int) -> DesignRun:
            window_s = SHORT_WINDOW_S
            return run_design(hosts, tmp_path, TWO_PER_CENT, "sliced", blocks=blocks, seed=seed, window_s=window_s)

        run(1, 1)  # builds the servers
        blocks = max(MIN_BLOCKS, int(TWO_PER_CENT_S / (run(3, 1).wall_s / 3)))
        runs = [run(blocks, seed) for seed in range(1, TWO_PER_CENT_TRIES + 1)]
        pilot = run_design(hosts, tmp_path, TWO_PER_CENT, "blocks", blocks=PILOT_BLOCKS, seed=1)
    rows = [(str(seed), f"{run.wall_s:.0f} s", *_figures(run.ratios["rps"])) for seed, run in enumerate(runs, start=1)]
    print("\n" + table(("try", "wall time", *_HEADS), rows))
    ratios = [run.ratios["rps"] for run in runs]
    logs = [math.log(ratio.ratio) for ratio in ratios if ratio.ratio is not None]
    mean = sum(logs) / len(logs)
    shown = sum(ratio.outcome == "lower" for ratio in ratios)
    print(f"{shown} of {len(runs)} runs show it; mean ratio of all {math.exp(mean):.4f}")
    assert pilot.noise is not None
    needed = next(
        (n for n in range(MIN_BLOCKS, MOST_BLOCKS) if (mde(pilot.noise, n) or math.inf) <= math.exp(-mean)), None
    )
    time_needed = "more" if needed is None else f"{needed * pilot.wall_s / PILOT_BLOCKS / 60:.0f} min"
    print(
        f"blocks: sd of {pilot.noise.sd:.3f} in {PILOT_BLOCKS} blocks of {pilot.wall_s / PILOT_BLOCKS:.1f} s; for a power of "
        f"80 % they need {needed or f'more than {MOST_BLOCKS}'} blocks, {time_needed}"
    )
    assert all(run.wall_s <= LONGEST_S for run in runs)
    assert shown >= LEAST_POWER * len(runs)


def test_sliced_blocks_meet_a_difference_known_by_construction(lab: Lab, tmp_path: Path) -> None:
    """Compare a long loop with one that is longer by a tenth: nearly all of a request is the loop."""
    with connect_all(lab.inventory()) as hosts:
        run = run_design(hosts, tmp_path, LONG_LOOPS, "sliced", blocks=8, seed=1)
    print("\n" + table(("metric", *_HEADS), [(metric, *_figures(run.ratios[metric])) for metric in METRICS]))
    low, high = KNOWN_COST
    for metric, is_cost in (("server_cpu_s_per_request", True), ("rps", False)):
        ratio = run.ratios[metric]
        assert ratio.low is not None
        assert ratio.high is not None
        costs = (ratio.low, ratio.high) if is_cost else (1 / ratio.high, 1 / ratio.low)
        assert costs[0] <= high, metric
        assert costs[1] >= low, metric
        assert half_width(ratio) <= LARGEST_HALF_WIDTH, metric


_DESIGNS: Sequence[str] = ("sequential", "blocks", "sliced")
_HEADS = ("blocks", "ratio", "95 % interval", "difference")


def _figures(ratio: Ratio) -> tuple[str, ...]:
    point = "" if ratio.ratio is None else f"{ratio.ratio:.3f}"
    return str(ratio.blocks), point, interval(ratio), ratio.outcome
