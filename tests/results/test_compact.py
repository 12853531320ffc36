"""Compact tables: the same rows as the runs' own files, whatever has become of the runs since."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from benchkit.results.compact import compact
from benchkit.results.schema import TABLES
from benchkit.results.store import Store
from benchkit.results.tables import RunTables, join_runs, load
from tests.results.test_store import manifest


def add_run(store: Store, run_id: str, scenario: str = "one", rps: float = 100.0) -> None:
    """A run with a trial of two cells each, as tables only."""
    tables = RunTables(store, scenario, run_id)
    trials = [
        {"cell_id": cell, "trial_id": f"{run_id}.{cell}", "block": 1, "kind": "measure", "rps": rps}
        for cell in ("a", "b")
    ]
    tables.replace("trials", trials)
    tables.replace(
        "factors", [{"cell_id": c, "factor": "x", "level": str(n), "level_num": n} for n, c in enumerate("ab")]
    )
    tables.replace("telemetry", [{"trial_id": f"{run_id}.a", "metric": "load1", "t_s": 0.0, "value": rps}])


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Three runs of two scenarios."""
    made = Store(tmp_path / "store")
    for number, scenario in enumerate(("one", "two", "one")):
        add_run(made, f"r{number}", scenario, rps=100.0 + number)
    return made


def trials(store: Store, **part: str) -> pd.DataFrame:
    return load("trials", store=store.path, **part)


@pytest.mark.parametrize("part", [{}, {"scenario": "one"}, {"run_id": "r1"}, {"scenario": "two", "run_id": "r0"}])
def test_the_same_rows_are_read(store: Store, part: dict[str, str]) -> None:
    before = trials(store, **part)
    assert {table: runs for table, runs in compact(store).items() if runs} == {"trials": 3, "factors": 3}
    pd.testing.assert_frame_equal(trials(store, **part), before)


def test_runs_written_since_are_read_from_their_own_files(store: Store) -> None:
    compact(store)
    add_run(store, "r9", rps=900.0)
    add_run(store, "r0", rps=50.0)
    found = trials(store).groupby("run_id")["rps"].first().to_dict()
    assert found == {"r0": 50.0, "r1": 101.0, "r2": 102.0, "r9": 900.0}
    assert list(trials(store)["run_id"]) == sorted(trials(store)["run_id"], key=lambda run: (run == "r1", run))


def test_a_run_that_is_gone_has_no_rows(store: Store) -> None:
    compact(store)
    for table in ("trials", "factors", "telemetry"):
        shutil.rmtree(store.table_folder(table, "one", "r0"))
    assert set(trials(store)["run_id"]) == {"r1", "r2"}


def test_the_copy_is_what_is_read(store: Store) -> None:
    compact(store)
    for table in ("trials", "factors"):
        for _, _, files in store.parts(table):
            for file in files:  # nobody has seen them change
                before = file.stat()
                file.write_bytes(b"\0" * before.st_size)
                os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(trials(store)) == 6


def test_one_run_is_read_without_the_others_files(store: Store) -> None:
    compact(store)
    for scenario, run_id, files in store.parts("telemetry"):
        if run_id != "r1":
            for file in files:
                file.write_bytes(f"not Parquet: {scenario}".encode())
    assert load("telemetry", store=store.path, run_id="r1")["value"].tolist() == [101.0]


def test_large_tables_are_not_copied(store: Store) -> None:
    assert "telemetry" not in compact(store)
    assert not store.compact_file("telemetry").exists()
    assert len(load("telemetry", store=store.path)) == 3


def parquet_files(store: Store) -> dict[str, int]:
    """How many files each run has of each table."""
    return {f"{table} {run}": len(files) for table in TABLES for _, run, files in store.parts(table)}


def test_the_files_of_runs_that_were_killed_are_joined_and_those_of_others_left_alone(store: Store) -> None:
    for name in ("killed", "going-on"):
        store.create(manifest(name))
        for trial in "ab":
            row = {"trial_id": f"{name}.{trial}", "metric": "load1", "t_s": 0.0, "value": 1.0}
            RunTables(store, "small", name).add("telemetry", trial, [row] * 2)
    before = load("telemetry", store=store.path)
    with store.run("going-on").locked():
        assert join_runs(store) == 1
        files = parquet_files(store)
        assert (files["telemetry killed"], files["telemetry going-on"]) == (1, 2)
    pd.testing.assert_frame_equal(load("telemetry", store=store.path), before)
    assert (join_runs(store), join_runs(store)) == (1, 0)
    assert set(parquet_files(store).values()) == {1}


def test_a_file_of_a_benchkit_whose_tables_had_other_columns_is_left_alone(store: Store) -> None:
    before = trials(store)
    compact(store)
    path = store.compact_file("trials")
    pq.write_table(pq.read_table(path).drop_columns(["tool"]), path)
    pd.testing.assert_frame_equal(trials(store), before)
