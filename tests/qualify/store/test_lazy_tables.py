"""Tables for Dask: the rows that pandas gets, from the files of the selected runs alone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.rows import TABLES
from benchkit.store.store import Store
from tests.support.paths import ROOT

RECORDED = ROOT / "notebooks" / "recorded"


def rows(table: Any) -> list[dict[str, Any]]:  # noqa: ANN401 - a table of pandas or Dask
    """Return the rows that an engine gives, in one order, with None for null."""
    frame = table if isinstance(table, pd.DataFrame) else table.compute(scheduler="synchronous")
    found = frame.astype(object).where(frame.notna(), None).to_dict("records")
    shown = [{str(name): _plain(value) for name, value in row.items()} for row in found]
    return sorted(shown, key=str)


def _plain(value: object) -> object:
    """Return a value as all engines have it: numbers as floats, times in UTC, lists as tuples."""
    if isinstance(value, pd.Timestamp):
        return value.tz_convert("UTC").isoformat()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    return value if value is None or isinstance(value, (str, bool)) else tuple(value)  # type: ignore[arg-type] # a list


SCENARIOS = {"quickstart", "nginx-vs-go", "capacity"}
"""Scenarios whose runs have rows in all kinds of tables."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Some of the recorded runs."""
    copied = Store(Path(shutil.copytree(RECORDED, tmp_path / "store")))
    for run in copied.runs():
        if run.manifest().scenario_name not in SCENARIOS:
            copied.remove(run)
    return copied


def spoil_other_runs(store: Store, run_id: str) -> None:
    """Damage all tables of the other runs: whoever opens one of them fails."""
    for path in store.path.glob("tables/*/*/*/*.parquet"):
        if path.parent.name != f"run_id={run_id}":
            path.write_bytes(b"no Parquet")


def test_every_table_has_the_rows_that_pandas_gets(store: Store) -> None:
    for table in TABLES:
        expected = benchkit.load(table, store=store)
        found = benchkit.load(table, store=store, engine="dask")
        assert list(found.columns) == list(expected.columns), table
        assert rows(found) == rows(expected), table


def test_selections_open_only_the_files_of_their_runs(store: Store) -> None:
    run = benchkit.find(scenario="quickstart", store=store.path)
    expected = rows(benchkit.load("latency", store=store, run=run, valid_for="rps"))
    spoil_other_runs(store, run)
    assert rows(benchkit.load("latency", store=store, engine="dask", run=run, valid_for="rps")) == expected
    with pytest.raises(InputError, match="is damaged"):
        rows(benchkit.load("latency", store=store, engine="dask"))
