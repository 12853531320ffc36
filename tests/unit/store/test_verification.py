"""`results check` and `results reparse`: damaged files are named, and tables come back from raw files."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.rows import TABLES
from benchkit.run.judge import rebuild_tables, reparse_run
from benchkit.store.journal import BlockInterrupted, RunEnded
from benchkit.store.store import Store
from benchkit.store.verification import CheckedRun, check_store, write_checksums
from tests.unit.store.test_store import stored

TRIALS = ("r1.b01.p01", "r1.b01.p02")
TABLE = "tables/trials/scenario=small/run_id=r1/trials.parquet"
RAW = f"runs/r1/raw/{TRIALS[0]}"


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a store with a run of two trials that has ended; tests use copies."""
    path = tmp_path_factory.mktemp("finished")
    store = Store(path)
    run = stored(store, "r1", "small", [{"stack": "go"}, {"stack": "nginx"}])
    with run.journal() as journal:
        journal.append(RunEnded(status="done"))
    run.finish("done")
    write_checksums(store, run)
    return path


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Store:
    """A copy of the finished run's store."""
    return Store(shutil.copytree(finished, tmp_path / "store"))


def check(store: Store) -> CheckedRun:
    (result,) = check_store(store, "r1")
    return result


def overwrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"garbage!" + content[68:])


def tables(store: Store) -> dict[str, pd.DataFrame]:
    return {table: benchkit.load(table, store=store.path) for table in TABLES}


def test_a_run_that_nobody_touched_is_intact(store: Store) -> None:
    found = check(store)
    assert (found.status, found.damages) == ("intact", {})
    lines = (store.run("r1").path / "checksums.sha256").read_text().splitlines()
    assert len(lines) == 2 + 2 * 2 + len(TABLES), "manifest, journal, two files per trial, one file per table"
    assert f"{hashlib.sha256((store.path / TABLE).read_bytes()).hexdigest()}  {TABLE}" in lines


@pytest.mark.parametrize("damage", [overwrite, Path.unlink, lambda path: path.write_bytes(b"")])
@pytest.mark.parametrize(
    "file", [TABLE, "runs/r1/journal.jsonl", "runs/r1/manifest.json", f"{RAW}/wrk.txt", f"{RAW}/trial.json"]
)
def test_a_damaged_file_is_named(store: Store, file: str, damage: Callable[[Path], object]) -> None:
    damage(store.path / file)
    (found,) = check_store(store, None)
    assert found.status == "damaged"
    assert list(found.damages) == [file]


def test_a_run_in_use_is_not_checked_and_a_folder_without_a_manifest_is_damaged(store: Store) -> None:
    with store.run("r1").locked():
        assert check(store).status == "in use"
    (store.path / "runs" / ".r2.partial").mkdir()
    store.run("r1").manifest_file.unlink()
    assert [(each.run_id, each.status) for each in check_store(store, None)] == [
        (".r2.partial", "damaged"),
        ("r1", "damaged"),
    ]


def test_reparse_builds_all_tables_from_raw_files(store: Store) -> None:
    before = tables(store)
    shutil.rmtree(store.path / "tables")
    assert reparse_run(store, store.run("r1")) == 2
    for table, frame in tables(store).items():
        pd.testing.assert_frame_equal(frame, before[table], obj=table)
    assert check(store).status == "intact"


@pytest.mark.parametrize("damage", [overwrite, Path.unlink])
def test_a_damaged_raw_file_stops_reparse_and_the_tables_stay(store: Store, damage: Callable[[Path], object]) -> None:
    before = benchkit.load("trials", store=store.path)
    damage(store.path / RAW / "wrk.txt")
    with pytest.raises(InputError, match=f"{RAW}/wrk.txt"):
        reparse_run(store, store.run("r1"))
    pd.testing.assert_frame_equal(benchkit.load("trials", store=store.path), before)


def test_trials_of_interrupted_blocks_are_marked(store: Store) -> None:
    run = store.run("r1")
    with run.journal() as journal:
        journal.append(BlockInterrupted(block=1, round=2, trials=TRIALS))
    rebuild_tables(store, run)
    assert set(benchkit.load("trials", store=store.path)["kind"]) == {"split"}
