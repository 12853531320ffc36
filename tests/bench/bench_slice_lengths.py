"""Blocks against slices of different lengths, in equal wall time: the noise of a block's ratio."""

from __future__ import annotations

import math
import random
import statistics
import time
from pathlib import Path

from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.scenario.read import read_experiment
from benchkit.store.tables import load
from tests.bench.real_runs import run_once, table

BLOCKS = 7
SLICES_S = (None, 0.1, 0.25, 0.5)
"""Lengths of slices; None: blocks, one trial after the other."""
METRICS = {"rps": "RPS", "latency_p99_s": "p99", "server_cpu_s_per_request": "CPU per request"}

SCENARIO = """\
name: designs
title: Two Go servers whose core is the limit
question: How noisy is their ratio?
stacks:
  less: {entry: app, services: {app: {backend: nethttp, listen: 8080, work: "loop:50000"}}}
  more: {entry: app, services: {app: {backend: nethttp, listen: 8080, work: "loop:52000"}}}
factors: {stack: [less, more]}
load: {tool: h2load, connections: 16, duration_s: 4, warmup_s: 1}
blocks: 1
"""
"""A cell whose limit is the load tool would follow the speed of another core than a cell whose limit is the server."""


def _changes(slice_s: float | None) -> list[str]:
    return ["design=blocks"] if slice_s is None else ["design=sliced", f"slice_s={slice_s}"]


def test_noise_by_length_of_slices(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "designs.yaml"
    file.write_text(SCENARIO)
    store = tmp_path / "store"
    ratios: dict[tuple[float | None, str], list[float]] = {}
    walls: dict[float | None, list[float]] = {}
    rng = random.Random(1)  # noqa: S311 - an order, no secret
    with connect_all(lab.inventory()) as hosts:
        for block in range(BLOCKS):
            for slice_s in rng.sample(SLICES_S, len(SLICES_S)):
                began_s = time.monotonic()
                run_id = run_once(store, read_experiment(str(file), "lab", _changes(slice_s)), hosts, seed=block)
                walls.setdefault(slice_s, []).append(time.monotonic() - began_s)
                trials = load("trials", store=store, run_id=run_id).set_index("cell_id")
                for metric in METRICS:
                    values = dict(zip(trials.index, trials[metric].astype(float), strict=True))
                    ratio = values["stack=more"] / values["stack=less"]
                    ratios.setdefault((slice_s, metric), []).append(math.log(ratio))
    rows = [
        [
            "blocks" if slice_s is None else f"sliced, {slice_s:g} s",
            f"{statistics.median(walls[slice_s]):.1f} s",
            *(f"{statistics.stdev(ratios[slice_s, metric]):.3f}" for metric in METRICS),
            f"{math.exp(statistics.mean(ratios[slice_s, 'rps'])):.3f}",
        ]
        for slice_s in SLICES_S
    ]
    heads = ["design", "wall of a run of a block", *(f"sd of the log-ratio: {name}" for name in METRICS.values())]
    print("\n" + table([*heads, "mean ratio of RPS"], rows))
    assert statistics.stdev(ratios[0.25, "rps"]) < statistics.stdev(ratios[None, "rps"])
