"""Tables for Dask and DuckDB: the rows that pandas gets, from the files of the selected runs alone."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

import benchkit
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
