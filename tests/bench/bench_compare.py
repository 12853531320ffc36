"""Time to compare a run of 500 cells and 10 blocks, as a whole process and inside one."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from benchkit.comparison.claims import judge_claims
from benchkit.comparison.compare import compare
from benchkit.comparison.gate import GateLimits
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.facts import RecordedFacts
from benchkit.store.row_builders import host_rows
from benchkit.store.store import Store
from benchkit.store.tables import load
from tests.bench.large_run import BLOCKS, CELLS, REPEATS, save_large_run

METRICS = ("rps", "latency_p99_s", "server_cpu_s_per_request")
PROGRAM = "import typer; from benchkit.cli.compare import compare; app = typer.Typer(); app.command()(compare); app()"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store with two runs of 500 cells in 10 blocks."""
    where = Store(tmp_path_factory.mktemp("store"))
    for run_id in ("r1", "r2"):
        _save(where, run_id)
    return where.path


def _save(store: Store, run_id: str) -> None:
    claims = [
        {
            "text": f"s{i} is slower",
            "ratio": {"of": {"stack": f"s{i}"}, "to": {"stack": "s0"}},
            "at_most": 1,
        }
        for i in range(1, 5)
    ]
    noise = np.random.default_rng(1).lognormal(0, 0.05, (BLOCKS, CELLS, len(METRICS)))
    columns = {metric: noise[:, :, i] for i, metric in enumerate(METRICS)}
    tables, _ = save_large_run(store, run_id, columns, constants={}, claims=claims)
    tables.replace("hosts", host_rows("sut", ["sut"], "start", RecordedFacts(kernel="6.1")))


def test_comparing_a_run_of_500_cells_takes_at_most_3_seconds(store: Path) -> None:
    argv = [sys.executable, "-c", PROGRAM, "r1", "--json", "--gate", "--store", str(store)]
    argv += [part for metric in METRICS for part in ("--metric", metric)]
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        done = subprocess.run(argv, capture_output=True, check=False)
        times.append(time.perf_counter() - started)
        assert done.returncode in {0, 3, 4}, done.stderr.decode()
    print(
        f"\n{CELLS} cells, {BLOCKS} blocks, {len(METRICS)} metrics, gate, JSON, whole process: "
        f"median {statistics.median(times):.2f} s, at most {max(times):.2f} s of {REPEATS}"
    )
    assert statistics.median(times) <= 3.0


def test_comparing_and_judging_claims_takes_less_inside_a_process(store: Path) -> None:
    times: dict[str, list[float]] = {"cells": [], "two runs": [], "claims": []}
    thresholds = GateLimits(metrics=dict.fromkeys(METRICS, 0.05))
    for _ in range(REPEATS):
        started = time.perf_counter()
        compare("r1", store=store, metrics=METRICS, thresholds=thresholds)
        times["cells"].append(time.perf_counter() - started)
        started = time.perf_counter()
        compare("r1", "r2", store=store, metrics=METRICS, thresholds=thresholds)
        times["two runs"].append(time.perf_counter() - started)
        manifest = Store(store).run("r1").manifest()
        started = time.perf_counter()
        results = judge_claims(RunData(manifest, load("trials", store=store, run_id="r1")))
        times["claims"].append(time.perf_counter() - started)
        assert sum(len(result.ratios) for result in results) == 400
    for what, taken in times.items():
        print(f"\n{what}: median {statistics.median(taken):.2f} s, at most {max(taken):.2f} s of {REPEATS}")
        assert statistics.median(taken) <= 2.0
