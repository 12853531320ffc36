"""Tables for Dask and DuckDB: the rows that pandas gets, from the files of the selected runs alone."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pyarrow.parquet as pq
import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.rows import TABLES
from benchkit.store.checksums import write_checksums
from benchkit.store.remote_files import RemoteFiles
from benchkit.store.store import Store
from benchkit.store.transfer import push
from tests.support.paths import ROOT
from tests.support.s3 import BUCKET, S3, s3_server

RECORDED = ROOT / "notebooks" / "recorded"
LAZY = ("dask", "duckdb")
lazily = pytest.mark.parametrize("engine", LAZY)


def rows(table: object) -> list[dict[str, Any]]:
    """Return the rows that an engine gives, in one order, with None for null."""
    if isinstance(table, duckdb.DuckDBPyRelation):
        frame = table.to_arrow_table().to_pandas()
    else:
        frame = table if isinstance(table, pd.DataFrame) else table.compute(scheduler="synchronous")  # type: ignore[attr-defined]
    found = frame.astype(object).where(frame.notna(), None).to_dict("records")
    shown = [{name: _plain(value) for name, value in row.items()} for row in found]
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
    shutil.copytree(RECORDED, tmp_path / "store", ignore=shutil.ignore_patterns("compact"))
    return Store(tmp_path / "store")


def spoil_other_runs(store: Store, run_id: str) -> None:
    """Damage all tables of the other runs: whoever opens one of them fails."""
    for path in store.path.glob("tables/*/*/*/*.parquet"):
        if path.parent.name != f"run_id={run_id}":
            path.write_bytes(b"no Parquet")


@lazily
def test_every_table_has_the_rows_that_pandas_gets(store: Store, engine: str) -> None:
    for table in TABLES:
        expected = benchkit.load(table, store=store)
        found = benchkit.load(table, store=store, engine=engine)  # type: ignore[call-overload]
        assert list(found.columns) == list(expected.columns), table
        assert rows(found) == rows(expected), table


@lazily
def test_selections_are_those_of_pandas(store: Store, engine: str) -> None:
    run = benchkit.find(scenario="quickstart", store=store.path)
    for selection in (
        {"run": run, "valid_for": "latency_p99_s"},
        {"scenario": "quickstart"},
        {"scale": "smoke"} if "smoke" in set(benchkit.runs(store=store.path)["scale"]) else {"scale": "lab"},
        {"kind": "profile"},
    ):
        for table in ("trials", "latency"):
            expected = rows(benchkit.load(table, store=store, **selection))  # type: ignore[call-overload]
            assert rows(benchkit.load(table, store=store, engine=engine, **selection)) == expected  # type: ignore[call-overload]


@lazily
def test_only_files_of_the_selected_runs_are_opened(store: Store, engine: str) -> None:
    run = benchkit.find(scenario="quickstart", store=store.path)
    expected = rows(benchkit.load("latency", store=store, run=run, valid_for="rps"))
    spoil_other_runs(store, run)
    for selection in ({"run": run}, {"run_id": run}):
        found = benchkit.load("latency", store=store, engine=engine, valid_for="rps", **selection)  # type: ignore[call-overload]
        assert rows(found) == expected
    with pytest.raises(InputError, match="results check"):
        rows(benchkit.load("latency", store=store, engine=engine))  # type: ignore[call-overload]


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


def test_duckdb_has_null_for_columns_of_later_versions_and_refuses_newer_files(store: Store) -> None:
    run = benchkit.find(scenario="quickstart", store=store.path)
    (file,) = store.parts("trials", runs=[run]).popitem()[1]
    content = pq.read_table(file)
    pq.write_table(content.drop_columns(["stolen_share"]), file)
    relation = benchkit.load("trials", store=store, run=run, engine="duckdb")
    assert relation.filter("stolen_share IS NOT NULL").fetchall() == []
    assert len(relation.fetchall()) == content.num_rows
    pq.write_table(content.replace_schema_metadata({b"benchkit.schema_version": b"999"}), file)
    with pytest.raises(InputError, match="schema version 999"):
        benchkit.load("trials", store=store, run=run, engine="duckdb")


@lazily
def test_an_empty_table_has_its_columns(store: Store, engine: str) -> None:
    shutil.rmtree(store.table("latency"))
    found = benchkit.load("latency", store=store, engine=engine)  # type: ignore[call-overload]
    assert list(found.columns) == list(benchkit.load("latency", store=store).columns)
    assert rows(found) == []


@lazily
def test_what_is_not_installed_is_named_with_its_extra(
    store: Store, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [name for name in sys.modules if name.partition(".")[0] == engine]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, engine, None)
    with pytest.raises(InputError, match=rf"pip install 'benchkit\[{engine}\]'"):
        benchkit.load("trials", store=store, engine=engine)  # type: ignore[call-overload]


def test_an_unknown_engine_is_refused(store: Store) -> None:
    with pytest.raises(InputError, match="no engine 'duck': did you mean 'duckdb'"):
        benchkit.load("trials", store=store, engine="duck")  # type: ignore[call-overload]


@pytest.fixture(scope="module")
def server() -> Iterator[S3]:
    """An S3 server."""
    with s3_server() as served:
        yield served


@lazily
def test_a_store_below_a_url_sends_the_files_of_the_selected_run(
    store: Store, engine: str, server: S3, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    url = f"s3://{BUCKET}/{engine}"
    runs = [run for run in store.runs() if any(store.parts("latency", runs=[run.run_id]).values())][:3]
    for run in runs:
        write_checksums(store, run)
        push(store, run, RemoteFiles(url))
    run_id = runs[1].run_id
    server.requests.clear()
    relation = benchkit.load("latency", store=url, run=run_id, engine=engine)  # type: ignore[call-overload]
    assert rows(relation) == rows(benchkit.load("latency", store=store, run=run_id))
    paths = {path.removeprefix(f"/{BUCKET}/{engine}/") for method, path, size in server.requests if size}
    tables = {path for path in paths if "/tables/" in f"/{path}"}
    assert tables, server.requests
    assert all("/latency/" in path and f"run_id={run_id}/" in path for path in tables)
    assert not any(other.run_id in path for path in paths for other in (runs[0], runs[2]))
