"""Tables for Dask: the rows that pandas gets, from the files of the selected runs alone."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
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


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Recorded runs, small ones of several scenarios."""
    shutil.copytree(RECORDED, tmp_path / "store")
    return Store(tmp_path / "store")


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


def test_dask_opens_files_when_it_computes_and_reads_the_columns_that_it_needs(store: Store) -> None:
    run = benchkit.find(scenario="quickstart", store=store.path)
    frame = benchkit.load("latency", store=store, run=run, engine="dask")
    assert frame.npartitions == 1
    assert benchkit.load("latency", store=store, engine="dask").npartitions == len(store.parts("latency"))
    counts = frame.groupby("high_s")["count"].sum()
    (file,) = store.parts("latency", runs=[run]).popitem()[1]
    content = pq.read_table(file)
    pq.write_table(content.drop_columns(["low_s"]), file)
    total = sum(content["count"].to_pylist())
    assert counts.sum().compute(scheduler="synchronous") == total
    file.write_bytes(b"no Parquet")
    with pytest.raises(InputError, match="damaged"):
        counts.compute(scheduler="synchronous")


def test_an_empty_table_has_its_columns(store: Store) -> None:
    shutil.rmtree(store.table("latency"))
    found = benchkit.load("latency", store=store, engine="dask")
    assert list(found.columns) == list(benchkit.load("latency", store=store).columns)
    assert rows(found) == []


def test_a_missing_or_unknown_engine_is_named(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == "dask"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "dask", None)
    with pytest.raises(InputError, match=r"pip install 'benchkit\[dask\]'"):
        benchkit.load("trials", store=store, engine="dask")
    with pytest.raises(InputError, match="no engine 'das': did you mean 'dask'"):
        benchkit.load("trials", store=store, engine="das")  # type: ignore[call-overload]
