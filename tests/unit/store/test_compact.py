"""Compact tables: the same rows as the runs' own files, also if runs are written or removed later."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchkit.models.rows import TABLES, FactorRow, TelemetryRow, TrialRow
from benchkit.store.store import Store
from benchkit.store.tables import RunTables, compact, load, merge_killed_runs
from tests.unit.store.test_store import manifest


def sample(trial_id: str, value: float) -> TelemetryRow:
    """Return a sample of a trial."""
    return TelemetryRow(
        trial_id=trial_id,
        host="sut",
        role="sut",
        service=None,
        instance=None,
        t_s=0.0,
        metric="load1",
        unit="1",
        value=value,
    )


def add_run(store: Store, run_id: str, scenario: str = "one", rps: float = 100.0) -> None:
    """Add a run with one trial of each of two cells, as tables only."""
    tables = RunTables(store, scenario, run_id)
    tables.replace(
        "trials",
        [
            TrialRow(cell_id=cell, trial_id=f"{run_id}.{cell}", block=1, position=1, kind="measure", rps=rps)
            for cell in ("a", "b")
        ],
    )
    tables.replace(
        "factors",
        [FactorRow(cell_id=cell, factor="x", level=str(n), level_num=float(n)) for n, cell in enumerate("ab")],
    )
    tables.replace("telemetry", [sample(f"{run_id}.a", rps)])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three runs of two scenarios."""
    store = Store(tmp_path / "store")
    for number, scenario in enumerate(("one", "two", "one")):
        add_run(store, f"r{number}", scenario, rps=100.0 + number)
    return store


def trials(store: Store, **part: str) -> pd.DataFrame:
    return load("trials", store=store.path, **part)


@pytest.mark.parametrize("part", [{}, {"scenario": "one"}, {"run_id": "r1"}, {"scenario": "two", "run_id": "r0"}])
def test_the_same_rows_are_read(store: Store, part: dict[str, str]) -> None:
    before = trials(store, **part)
    assert {table: runs for table, runs in compact(store).runs.items() if runs} == {"trials": 3, "factors": 3}
    pd.testing.assert_frame_equal(trials(store, **part), before)


def test_runs_written_later_are_read_from_their_own_files(store: Store) -> None:
    compact(store)
    add_run(store, "r9", rps=900.0)
    add_run(store, "r0", rps=50.0)
    found = trials(store).groupby("run_id")["rps"].first().to_dict()
    assert found == {"r0": 50.0, "r1": 101.0, "r2": 102.0, "r9": 900.0}
    assert list(trials(store)["run_id"]) == sorted(trials(store)["run_id"], key=lambda run: (run == "r1", run))


def test_a_removed_run_has_no_rows(store: Store) -> None:
    compact(store)
    for table in ("trials", "factors", "telemetry"):
        shutil.rmtree(store.table_folder(table, "one", "r0"))
    assert set(trials(store)["run_id"]) == {"r1", "r2"}


def test_the_copy_is_read(store: Store) -> None:
    compact(store)
    for table in ("trials", "factors"):
        for files in store.parts(table).values():
            for file in files:  # damaged, with the same size and time
                before = file.stat()
                file.write_bytes(b"\0" * before.st_size)
                os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(trials(store)) == 6


def test_one_run_is_read_without_the_others_files(store: Store) -> None:
    compact(store)
    for (scenario, run_id), files in store.parts("telemetry").items():
        if run_id != "r1":
            for file in files:
                file.write_bytes(f"not Parquet: {scenario}".encode())
    assert load("telemetry", store=store.path, run_id="r1")["value"].tolist() == [101.0]


def test_large_tables_are_not_copied(store: Store) -> None:
    assert "telemetry" not in compact(store).runs
    assert not store.compact_file("telemetry").exists()
    assert len(load("telemetry", store=store.path)) == 3


def parquet_files(store: Store) -> dict[str, int]:
    """Return the number of files that each run has of each table."""
    return {f"{table} {run}": len(files) for table in TABLES for (_, run), files in store.parts(table).items()}


def test_the_files_of_killed_runs_are_merged_and_those_of_running_ones_are_not(store: Store) -> None:
    for name in ("killed", "running"):
        store.create(manifest(name))
        for trial in "ab":
            RunTables(store, "small", name).add("telemetry", trial, [sample(f"{name}.{trial}", 1.0)] * 2)
    before = load("telemetry", store=store.path)
    with store.run("running").locked():
        assert merge_killed_runs(store) == (1, {})
        files = parquet_files(store)
        assert (files["telemetry killed"], files["telemetry running"]) == (1, 2)
    pd.testing.assert_frame_equal(load("telemetry", store=store.path), before)
    assert (merge_killed_runs(store), merge_killed_runs(store)) == ((1, {}), (0, {}))
    assert set(parquet_files(store).values()) == {1}


def test_a_compact_file_with_other_columns_is_ignored(store: Store) -> None:
    before = trials(store)
    compact(store)
    path = store.compact_file("trials")
    pq.write_table(pq.read_table(path).drop_columns(["tool"]), path)
    pd.testing.assert_frame_equal(trials(store), before)
