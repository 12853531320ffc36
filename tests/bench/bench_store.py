"""Time to read all trials of a compacted store of 1,000 runs, and the telemetry of one run in it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from benchkit.models.rows import FactorRow, TelemetryRow, TrialRow
from benchkit.store.store import Store
from benchkit.store.tables import RunTables, compact, load

RUNS, TRIALS = 1000, 20
CELLS = ("go", "nginx")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Store:
    """Store with 1,000 runs of two cells in ten blocks, with telemetry."""
    made = Store(tmp_path_factory.mktemp("store"))
    for number in range(RUNS):
        run_id = f"r{number:04}"
        tables = RunTables(made, f"scenario{number % 5}", run_id)
        ids = [f"{run_id}.t{i}" for i in range(TRIALS)]
        tables.add(
            "trials",
            "trials",
            [
                TrialRow(
                    cell_id=CELLS[i % 2], trial_id=trial, block=i // 2 + 1, position=1, kind="measure", rps=100.0 + i
                )
                for i, trial in enumerate(ids)
            ],
        )
        tables.add(
            "factors",
            "factors",
            [FactorRow(cell_id=cell, factor="stack", level=cell, level_num=None) for cell in CELLS],
        )
        samples = [
            TelemetryRow(
                trial_id=trial,
                host="sut",
                role="sut",
                service=None,
                instance=None,
                t_s=float(s),
                metric="load1",
                unit="1",
                value=1.0,
            )
            for trial in ids
            for s in range(6)
        ]
        tables.add("telemetry", "telemetry", samples)
    return made


def median_s(read: Callable[[], pd.DataFrame], times: int = 7) -> float:
    """Return the median time of a read in seconds, after a first read that includes imports."""
    read()
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        read()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent)


def test_all_trials_of_a_compacted_store_take_at_most_half_a_second(store: Store) -> None:
    folder = store.table("trials")
    plain = median_s(lambda: pd.read_parquet(folder), times=3)
    before = median_s(lambda: load("trials", store=store.path), times=3)
    compact(store)
    after = median_s(lambda: load("trials", store=store.path))
    print(f"\n{RUNS} runs: pandas {plain:.2f} s, benchkit.loadtools {before:.2f} s, compacted {after:.2f} s")
    assert len(load("trials", store=store.path)) == RUNS * TRIALS
    assert after <= 0.5


def test_telemetry_of_one_run_takes_no_longer_in_a_large_store(store: Store, tmp_path: Path) -> None:
    alone = Store(tmp_path)
    rows = RunTables(store, "scenario2", "r0502").rows("telemetry")
    RunTables(alone, "scenario2", "r0502").replace("telemetry", rows)
    among = median_s(lambda: load("telemetry", store=store.path, run_id="r0502"))
    by_itself = median_s(lambda: load("telemetry", store=alone.path, run_id="r0502"))
    print(f"\ntelemetry of one run: {among * 1e3:.0f} ms among {RUNS}, {by_itself * 1e3:.0f} ms by itself")
    assert among <= 0.2
