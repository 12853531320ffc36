"""Shifts in simulated histories: how many steps are found and how soon, how many are invented, and what it takes."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np

from benchkit.run_history.change_points import find_shifts
from benchkit.run_history.estimates import read_estimates
from benchkit.store.store import Store
from tests.support.comparison.fixtures import STARTED, manifest_of, store_run, trials_of
from tests.support.simulation.histories import (
    RUNS,
    STEP,
    WITHIN_RUNS,
    count_invented,
    runs_until_found,
    simulate_history,
)

HISTORIES = range(10_000, 10_200)
"""Seeds of the simulated histories; the parameters of the search were chosen on others, those from 0 to 199."""
LONG = 1000
CELLS = [{"stack": "old"}, {"stack": "new"}]


def test_steps_are_found_soon_and_few_are_invented() -> None:
    found = [runs_until_found(simulate_history(seed, step=STEP)) for seed in HISTORIES]
    invented = sum(count_invented(simulate_history(seed)) for seed in HISTORIES)
    share = sum(after is not None for after in found) / len(HISTORIES)
    per_100 = 100 * invented / (len(HISTORIES) * RUNS)
    print(
        f"\n{len(HISTORIES)} histories of {RUNS} runs: {share:.1%} of steps of {STEP:.0%} found within {WITHIN_RUNS} runs; "
        f"without a step, {per_100:.2f} shifts invented in 100 runs, over all the searches that each new run makes"
    )
    assert share >= 0.9
    assert per_100 <= 1


def test_change_points_of_1000_runs_take_at_most_a_second() -> None:
    history = simulate_history(1, runs=LONG)
    steps = 2 * STEP * (np.arange(LONG) // 100 % 2)
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        shifts = find_shifts(history.values + steps, history.errors, history.dfs)
        spent.append(time.perf_counter() - began)
    print(f"\n{LONG} runs with 9 steps: {statistics.median(spent):.2f} s, {len(shifts)} found")
    assert statistics.median(spent) <= 1


def test_history_of_1000_runs_takes_at_most_2_seconds(tmp_path: Path) -> None:
    generator = np.random.default_rng(1)
    for i in range(LONG):
        run_id = f"r{i:04}"
        noise = np.exp(0.05 * generator.standard_normal((2, 10)))
        manifest = manifest_of(CELLS, run_id=run_id, started_at=STARTED + timedelta(hours=i))
        rates = {"stack=old": 1000 * noise[0], "stack=new": (0.9 if i >= LONG // 2 else 1.0) * 1000 * noise[1]}
        store_run(tmp_path, manifest, trials_of(rates, run_id=run_id, tool="wrk"))
    began = time.perf_counter()
    read_estimates(Store(tmp_path), "small", "rps")
    first_s = time.perf_counter() - began
    program = [str(Path(sys.executable).parent / "benchkit"), "history", "small", "--store", str(tmp_path)]
    spent = []
    for _ in range(3):
        began = time.perf_counter()
        done = subprocess.run(program, capture_output=True, text=True, check=True, env={**os.environ, "COLUMNS": "120"})
        spent.append(time.perf_counter() - began)
    print(
        f"\nhistory of {LONG} runs, whole process: {statistics.median(spent):.2f} s; the first time {first_s:.1f} s more"
    )
    assert "shifts with run r05" in done.stdout
    assert statistics.median(spent) <= 2
