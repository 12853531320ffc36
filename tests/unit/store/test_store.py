from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.facts import RecordedFacts
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.models.protocol import Negotiated, TlsOptions
from benchkit.models.rows import SliceRow
from benchkit.models.run import SCHEMA_VERSION, CellRecord, Manifest
from benchkit.models.trial import GeneratorRecord, ProbeRecord, ServiceRecord, TrialRecord
from benchkit.run.judge import rebuild_tables
from benchkit.store.journal import HostFactsRead, TrialEnded
from benchkit.store.parquet_files import VERSION_KEY
from benchkit.store.row_builders import host_rows, trial_row
from benchkit.store.run_folder import LARGE_BYTES, RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.support import builders

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)

WRK = """\
Running 1s test @ http://10.0.0.1:8080/
  1 threads and 4 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   100.00us   10.00us   1.00ms   90.00%
    Req/Sec    10.00k     1.00k   11.00k    70.00%
  Latency Distribution
     50%   90.00us
     75%  100.00us
     90%  110.00us
     99%  200.00us
  10000 requests in 1.10s, 1.46MB read
Requests/sec:   9090.91
Transfer/sec:      1.33MB
"""


def manifest(run_id: str, scenario: str = "small", cells: tuple[CellRecord, ...] = ()) -> Manifest:
    return builders.manifest(
        run_id=run_id,
        scenario={"name": scenario, "title": "Small"},
        scale="smoke",
        cells=cells,
        versions={"benchkit": benchkit.__version__},
        started_at=STARTED,
    )


def record(trial_id: str, cell: CellRecord, position: int = 1) -> TrialRecord:
    return TrialRecord(
        trial_id=trial_id,
        cell_id=cell.cell_id,
        levels=cell.levels,
        block=1,
        position=position,
        started_at=STARTED,
        wall_s=2.0,
        warmed_up_s=0.51,
        load=Load(tool="wrk", connections=4, duration_s=1, warmup_s=0.5),
        target="http://10.0.0.1:8080/",
        services=(ServiceRecord(name="app", backend="nethttp", host="sut", pid=7, argv=("app",), cpu_s=0.5),),
        generators=(
            GeneratorRecord(
                number=1,
                host="load",
                argv=("wrk",),
                load=Load(tool="wrk", connections=4, duration_s=1, histogram=False),
                files={"stdout": "wrk.txt"},
                started_s=0,
                wall_s=1.1,
                late_s=0,
                cpu_s=1,
            ),
        ),
        probe=ProbeRecord(status=200, header_bytes=141, headers=(), body_bytes=12, body_sha256="0" * 64),
    )


def stored(store: Store, run_id: str, scenario: str, levels: list[dict[str, str | int]]) -> RunFolder:
    """Store a run of one block over these cells, as `benchkit run` does."""
    cells = tuple(CellRecord(cell_id=",".join(f"{k}={v}" for k, v in level.items()), levels=level) for level in levels)
    run = store.create(manifest(run_id, scenario, cells))
    with run.journal() as journal:
        facts = {"cpus": [0, 1], "kernel": "6.1"}
        journal.append(HostFactsRead(host="sut", roles=("sut",), stage="start", facts=facts))
        for i, cell in enumerate(cells, start=1):
            trial_id = f"{run_id}.b01.p{i:02}"
            run.commit_trial(record(trial_id, cell, i), {"wrk.txt": WRK.encode()})
            journal.append(TrialEnded(trial_id=trial_id))
    rebuild_tables(store, run)
    return run


@pytest.mark.parametrize(
    ("duration_s", "cpu_s_per_request"), [(2.0, 0.5 / 20_000), (2.2, 0.5 / (20_000 / 1.1)), (1.9, 0.5 / 20_000)]
)
def test_requests_beyond_the_window_of_a_slice_have_no_cpu_time(duration_s: float, cpu_s_per_request: float) -> None:
    in_slices = record("t", CellRecord(cell_id="stack=go", levels={"stack": "go"})).model_copy(
        update={
            "slices": tuple(
                SliceRow(trial_id="t", slice=number, place=1, started_s=2.0 * number, duration_s=1.0, late_s=0.0)
                for number in (1, 2)
            )
        }
    )
    result = LoadResult(tool="wrk", duration_s=duration_s, requests=20_000)
    assert trial_row(in_slices, result).server_cpu_s_per_request == pytest.approx(cpu_s_per_request)


def test_a_trial_becomes_a_row(tmp_path: Path) -> None:
    stored(Store(tmp_path), "r1", "small", [{"stack": "go", "threads": 2}])
    (row,) = benchkit.load("trials", store=tmp_path).to_dict("records")
    assert (row["scenario"], row["run_id"], row["trial_id"]) == ("small", "r1", "r1.b01.p01")
    assert row["rps"] == 9090.91
    assert row["latency_p99_s"] == pytest.approx(200e-6)
    assert pd.isna(row["latency_p999_s"])
    assert row["server_cpu_s_per_request"] == pytest.approx(0.5 / 10000)
    assert row["overhead_s"] == pytest.approx(2.0 - 0.51 - 1.1)
    assert (row["factor_stack"], row["factor_threads"]) == ("go", 2.0)
    assert row["started_at"] == pd.Timestamp(STARTED)


@pytest.mark.parametrize(
    ("by_tool", "allowed", "expected"),
    [("A", None, "A"), (None, None, None), (None, "P", "P"), (None, "P:Q", None), ("A", "P", "A")],
)
def test_the_cipher_is_that_of_the_load_and_not_of_a_probe_with_a_choice(
    by_tool: str | None, allowed: str | None, expected: str | None
) -> None:
    plain = record("r1.b01.p01", CellRecord(cell_id="only", levels={}), 1)
    agreed = Negotiated(protocol="https1", tls_version="1.3", cipher="P")
    (probe,) = (each.model_copy(update={"negotiated": agreed}) for each in plain.probes)
    trial = plain.model_copy(update={"tls": TlsOptions(ciphers=allowed), "probe": probe})
    stated = None if by_tool is None else Negotiated(protocol="https1", cipher=by_tool)
    row = trial_row(trial, LoadResult(tool="h2load", negotiated=stated), None)
    assert (row.protocol, row.tls_version, row.cipher) == ("https1", "1.3", expected)


def test_runs_with_different_factors_read_as_one_table(tmp_path: Path) -> None:
    store = Store(tmp_path)
    stored(store, "r1", "small", [{"stack": "go"}, {"stack": "nginx"}])
    stored(store, "r2", "other", [{"connections": 8}])
    frame = benchkit.load("trials", store=tmp_path).sort_values("trial_id")
    assert frame["factor_stack"].tolist()[:2] == ["go", "nginx"]
    assert frame["factor_connections"].tolist()[2] == 8
    assert frame[["factor_stack"]].isna().sum().item() == 1
    assert benchkit.load("trials", store=tmp_path, run_id="r2")["cell_id"].tolist() == ["connections=8"]
    assert len(benchkit.load("trials", store=tmp_path, scenario="small")) == 2


def test_pandas_duckdb_and_polars_read_the_same_files(tmp_path: Path) -> None:
    import duckdb  # noqa: PLC0415 - slow, like the next
    import polars as pl  # noqa: PLC0415

    store = Store(tmp_path)
    stored(store, "r1", "small", [{"stack": "go"}, {"stack": "nginx"}])
    stored(store, "r2", "other", [{"connections": 8}])
    folder = tmp_path / "tables" / "trials"
    wanted = [("other", "r2", "r2.b01.p01"), ("small", "r1", "r1.b01.p01"), ("small", "r1", "r1.b01.p02")]
    columns = ["scenario", "run_id", "trial_id"]
    by_pandas = pd.read_parquet(folder)[columns].astype(str).sort_values("trial_id")
    assert sorted(by_pandas.itertuples(index=False, name=None)) == wanted
    by_duckdb = duckdb.read_parquet(f"{folder}/**/*.parquet", hive_partitioning=True).select(*columns)
    assert sorted(by_duckdb.fetchall()) == wanted
    by_polars = pl.scan_parquet(folder, hive_partitioning=True).select(columns).collect()
    assert sorted(by_polars.rows()) == wanted


def test_files_of_trials_are_merged_into_one_with_the_same_rows(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = stored(store, "r1", "small", [{"stack": "go"}, {"stack": "nginx"}, {"stack": "x"}])
    before = benchkit.load("trials", store=tmp_path).sort_values("trial_id", ignore_index=True)
    folder = store.table_folder("trials", "small", run.run_id)
    tables = RunTables(store, "small", run.run_id)
    rows = tables.trials()
    tables.replace("trials", [])
    for row in rows:
        tables.add("trials", row.trial_id, [row])
    assert len(list(folder.glob("*.parquet"))) == 4
    tables.merge()
    assert len(list(folder.glob("*"))) == 1
    after = benchkit.load("trials", store=tmp_path).sort_values("trial_id", ignore_index=True)
    pd.testing.assert_frame_equal(before, after)


def test_a_newer_schema_is_refused_and_an_older_one_is_read(tmp_path: Path) -> None:
    run = stored(Store(tmp_path), "r1", "small", [{"stack": "go"}])
    (path,) = Store(tmp_path).table_folder("trials", "small", "r1").glob("*.parquet")
    table = pq.read_table(path)
    assert table.schema.metadata[VERSION_KEY] == str(SCHEMA_VERSION).encode()
    assert not {"scenario", "run_id"} & set(pq.ParquetFile(path).schema_arrow.names)
    for version, readable in ((SCHEMA_VERSION - 1, True), (SCHEMA_VERSION + 1, False)):
        pq.write_table(table.replace_schema_metadata({VERSION_KEY: str(version)}), path)
        if readable:
            assert len(benchkit.load("trials", store=tmp_path)) == 1
        else:
            with pytest.raises(InputError, match="update benchkit"):
                benchkit.load("trials", store=tmp_path)
    text = (run.path / "manifest.json").read_text()
    newer = text.replace('"schema_version": 1', '"schema_version": 99, "field_of_the_future": 1')
    (run.path / "manifest.json").write_text(newer)
    with pytest.raises(InputError, match="schema version 99"):
        run.manifest()
    stored(Store(tmp_path), "r2", "small", [{"stack": "go"}])
    assert Store(tmp_path).run("r2").run_id == "r2"  # one run that is too new does not hide the others


def test_a_trial_is_stored_completely_or_not_at_all(tmp_path: Path) -> None:
    run = Store(tmp_path).create(manifest("r1"))
    cell = CellRecord(cell_id="only", levels={})
    with pytest.raises(FileNotFoundError):
        run.commit_trial(record("r1.b01.p01", cell), {"wrk.txt": b"x", "no/such/folder": b"y"})
    assert not run.raw("r1.b01.p01").exists()
    run.commit_trial(record("r1.b01.p01", cell), {"wrk.txt": WRK.encode()})
    with run.journal() as journal:
        assert list(run.records()) == []  # stored, but not yet said to count
        journal.append(TrialEnded(trial_id="r1.b01.p01"))
    assert [r.trial_id for r in run.records()] == ["r1.b01.p01"]
    assert sorted(f.name for f in run.raw("r1.b01.p01").iterdir()) == ["trial.json", "wrk.txt"]


def test_large_raw_files_are_compressed_and_read_back(tmp_path: Path) -> None:
    run = Store(tmp_path).create(manifest("r1"))
    large, small = b"0.001,200\n" * 100_000, b"x" * LARGE_BYTES
    run.commit_trial(record("r1.b01.p01", CellRecord(cell_id="only", levels={})), {"a.txt": large, "b.txt": small})
    folder = run.raw("r1.b01.p01")
    assert sorted(f.name for f in folder.iterdir()) == ["a.txt.zst", "b.txt", "trial.json"]
    assert (folder / "a.txt.zst").stat().st_size < len(large) / 100
    assert (folder / "a.txt.zst").read_bytes()[:4] == b"\x28\xb5\x2f\xfd"  # RFC 8878, 3.1.1: a frame of Zstandard
    assert run.raw_file("r1.b01.p01", "a.txt") == large
    assert run.raw_file("r1.b01.p01", "b.txt") == small
    with pytest.raises(InputError, match=r"a file of the run is missing"):
        run.raw_file("r1.b01.p01", "c.txt")


def test_runs_are_found_by_id_prefix_and_latest(tmp_path: Path) -> None:
    store = Store(tmp_path)
    store.create(manifest("r20260101-aa"))
    store.create(manifest("r20260102-bb").model_copy(update={"started_at": datetime(2026, 1, 3, tzinfo=UTC)}))
    assert store.run("r20260101").run_id == "r20260101-aa"
    assert store.run("latest").run_id == "r20260102-bb"
    calibration = manifest("r20260104-cc").model_copy(update={"scenario": {"name": "versus-calibration"}})
    store.create(calibration.model_copy(update={"started_at": datetime(2026, 1, 4, tzinfo=UTC)}))
    assert store.run("latest").run_id == "r20260102-bb"
    with pytest.raises(InputError, match="3 runs have this prefix"):
        store.run("r2026")
    with pytest.raises(InputError, match="no run 'x'"):
        store.run("x")
    with pytest.raises(InputError, match=r"no run '\.\./\.\./etc'"):
        store.run("../../etc")


def test_host_facts_are_flat_rows() -> None:
    facts = {
        "cpus": [0, 1],
        "sysctls": {"net.core.somaxconn": "4096"},
        "cpu_groups": True,
        "governor": None,
        "interfaces": [{"name": "eth0", "mtu": 1500}],
        "of_a_later_version": {"wrk": {"version": "4.1"}},
    }
    rows = host_rows("h", ["sut"], "start", RecordedFacts.model_validate(facts))
    assert {row.fact: row.value for row in rows} == {
        "cpus": "0,1",
        "cpu_groups": "true",
        "interfaces.0.name": "eth0",
        "interfaces.0.mtu": "1500",
        "interfaces.0.speed_bps": None,
        "interfaces.0.virtual": None,
        "interfaces.0.up": None,
        "interfaces.0.gso": None,
        "interfaces.0.gro": None,
        "interfaces.0.addresses": "",
        "sysctls.net.core.somaxconn": "4096",
        "governor": None,
        "of_a_later_version.wrk.version": "4.1",
    }
