"""Shifts in simulated histories: how many steps are found and how soon, how many are invented, and what it takes."""

from __future__ import annotations

import statistics
import time

import numpy as np

from benchkit.run_history.change_points import find_shifts
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
