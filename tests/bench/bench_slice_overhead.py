"""The wall time that a slice takes beyond its seconds: lead, margin, and reading and judging it after the block."""

from __future__ import annotations

import random
import statistics
import time
from pathlib import Path

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.loadtools.load_shares import pauses
from benchkit.models.load import Load
from benchkit.scenario.read import read_experiment
from tests.bench.real_runs import run_once, table

LIMIT_S = 0.03
PAIRS = 6
CONNECTIONS, WINDOW_S = 16, 4
FEW_S, MANY_S = 0.5, 0.1
"""Lengths of slices that divide the same window into few and into many: 8 and 40 for each cell."""
MORE = 2 * (WINDOW_S / MANY_S - WINDOW_S / FEW_S)
"""Slices that a block of two cells has more."""

SCENARIO = f"""\
name: slices
title: Two Go servers in slices
question: How long does a slice take beyond its seconds?
stacks:
  one: {{entry: app, services: {{app: {{backend: nethttp, role: sut, listen: 8080, work: "loop:50000"}}}}}}
factors: {{stack: [one]}}
control: [{{stack: one}}]
load: {{tool: h2load, connections: {CONNECTIONS}, threads: 1, duration_s: {WINDOW_S}, warmup_s: 1}}
telemetry: {{interval_s: 1}}
design: sliced
blocks: 1
"""


def test_overhead_of_a_slice(lab: Lab, tmp_path: Path) -> None:
    """Compare runs of a block that measure for the same time in few and in many slices, in random turns."""
    file, store = tmp_path / "slices.yaml", tmp_path / "store"
    file.write_text(SCENARIO)
    walls: dict[float, list[float]] = {FEW_S: [], MANY_S: []}
    rng = random.Random(1)  # noqa: S311 - an order, no secret
    with connect_all(lab.inventory()) as hosts:
        run_once(store, read_experiment(str(file)), hosts, seed=0)  # builds the server
        for seed in range(1, PAIRS + 1):
            for slice_s in rng.sample(sorted(walls), 2):
                experiment = read_experiment(str(file), "lab", [f"slice_s={slice_s}"])
                began_s = time.monotonic()
                run_once(store, experiment, hosts, seed=seed)
                walls[slice_s].append(time.monotonic() - began_s)
    overheads_s = [(many - few) / MORE for few, many in zip(walls[FEW_S], walls[MANY_S], strict=True)]
    overhead_s = statistics.median(overheads_s)
    planned_s = sum(pauses(Load(tool="h2load", connections=CONNECTIONS, duration_s=FEW_S)))
    rows = [
        [f"a run of {2 * WINDOW_S / slice_s:.0f} slices of {slice_s:g} s", f"{statistics.median(of_length):.2f} s"]
        for slice_s, of_length in walls.items()
    ]
    rows += [
        ["a slice beyond its seconds: median", f"{overhead_s * 1000:.1f} ms"],
        ["the same: all pairs of runs", ", ".join(f"{each * 1000:.1f}" for each in overheads_s) + " ms"],
        ["of that lead and margin", f"{planned_s * 1000:.0f} ms"],
    ]
    print("\n" + table(["wall time", ""], rows))
    assert overhead_s <= LIMIT_S
