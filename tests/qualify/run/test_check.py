"""Checks of damaged runs: what raw files can give is rebuilt, and nothing good is replaced by less."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.rows import TABLES
from benchkit.run.check import CheckedRun, check_store
from benchkit.run.rebuild import rebuild_tables
from benchkit.store.checksums import write_checksums
from benchkit.store.journal import BlockInterrupted, HostFactsRead, RunEnded
from benchkit.store.parquet_files import Rows
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.unit.store.test_store import stored

TRIALS = ("r1.b01.p01", "r1.b01.p02")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a store with a run of two trials that has ended; tests use copies."""
    path = tmp_path_factory.mktemp("finished")
    store = Store(path)
    run = stored(store, "r1", "small", [{"stack": "go"}, {"stack": "nginx"}])
    with run.journal() as journal:
        journal.append(HostFactsRead(host="sut", roles=("sut",), stage="tuned", facts={"somaxconn": 4096}))
        journal.append(RunEnded(status="done"))
    rebuild_tables(store, run)
    run.finish("done")
    write_checksums(store, run)
    return path


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Store:
    """A copy of the finished run's store."""
    shutil.copytree(finished, tmp_path, dirs_exist_ok=True)
    return Store(tmp_path)


def tables(store: Store) -> dict[str, pd.DataFrame]:
    """Return the rows of all tables in one order."""
    frames = {table: benchkit.load(table, store=store.path) for table in TABLES}
    return {
        table: frame.sort_values([str(name) for name in frame.columns if name != "metrics"], ignore_index=True)
        for table, frame in frames.items()
    }


@pytest.fixture(scope="module")
def before(finished: Path) -> dict[str, pd.DataFrame]:
    """Rows of all tables of the finished run."""
    return tables(Store(finished))


def assert_equal(frames: dict[str, pd.DataFrame], others: dict[str, pd.DataFrame]) -> None:
    for table, frame in frames.items():
        pd.testing.assert_frame_equal(frame, others[table], obj=table)


def check(store: Store, *, repair: bool = False) -> CheckedRun:
    (result,) = check_store(store, "r1", repair=repair)
    return result


def journal_of(store: Store) -> Path:
    return store.run("r1").journal_file


def overwrite(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:60] + b"garbage!" + content[68:])


def test_a_run_that_nobody_touched_is_intact(store: Store) -> None:
    found = check(store, repair=True)
    assert (found.status, found.damages, found.repaired) == ("intact", (), ())
    assert found.checksums == 2 + 2 * 2 + len(TABLES), "manifest, journal, two files per trial, one file per table"


def test_sha256sum_verifies_the_checksums(store: Store) -> None:
    file = store.run("r1").path / "checksums.sha256"
    done = subprocess.run(["sha256sum", "--quiet", "-c", str(file)], cwd=store.path, check=False)
    assert done.returncode == 0


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:50])


@pytest.mark.parametrize(
    ("table", "damage"),
    [
        ("trials", cut),
        ("trials", overwrite),
        ("trials", Path.unlink),
        ("verdicts", cut),
        ("hosts", overwrite),
        ("factors", Path.unlink),
        ("latency", cut),
    ],
)
def test_a_damaged_table_is_rebuilt(
    store: Store, before: dict[str, pd.DataFrame], table: str, damage: Callable[[Path], object]
) -> None:
    path = store.table_folder(table, "small", "r1") / f"{table}.parquet"
    damage(path)
    (found,) = check(store).damages
    assert (found.file, found.is_repairable) == (f"tables/{table}/scenario=small/run_id=r1/{table}.parquet", True)
    repaired = check(store, repair=True)
    assert (repaired.status, [each.file for each in repaired.repaired]) == ("repaired", [found.file])
    assert_equal(tables(store), before)
    assert check(store).status == "intact"


@pytest.mark.parametrize("lines", [0, 2, 4])
def test_a_journal_cut_short_loses_no_row_and_is_restored(
    store: Store, before: dict[str, pd.DataFrame], lines: int
) -> None:
    content = journal_of(store).read_bytes().splitlines(keepends=True)
    journal_of(store).write_bytes(b"".join(content[:lines]))
    assert rebuild_tables(store, store.run("r1")).trials == 2
    assert_equal(tables(store), before)
    assert [each.file for each in check(store).damages] == ["runs/r1/journal.jsonl"]
    assert check(store, repair=True).status == "repaired"
    assert_equal(tables(store), before)
    assert [record.trial_id for record in store.run("r1").records()] == list(TRIALS)


@pytest.mark.parametrize("line", ['{"event": "trial-ended"}', "\0" * 40, '{"event": "tri'])
def test_a_damaged_line_of_the_journal_stops_reparse_and_is_removed_by_repair(
    store: Store, before: dict[str, pd.DataFrame], line: str
) -> None:
    content = journal_of(store).read_text().splitlines(keepends=True)
    journal_of(store).write_text("".join([*content[:1], f"{line}\n", *content[2:]]))
    with pytest.raises(InputError, match=r"journal\.jsonl:2: .*\n.*`benchkit results check r1 --repair`"):
        rebuild_tables(store, store.run("r1"))
    assert_equal(tables(store), before)
    assert check(store, repair=True).status == "repaired"
    assert_equal(tables(store), before)
    assert line in (journal_of(store).parent / "journal.damaged.jsonl").read_text()


def test_a_missing_journal_is_restored(store: Store, before: dict[str, pd.DataFrame]) -> None:
    journal_of(store).unlink()
    assert check(store, repair=True).status == "repaired"
    assert_equal(tables(store), before)


@pytest.mark.parametrize("name", ["wrk.txt", "trial.json"])
@pytest.mark.parametrize(
    "damage", [overwrite, Path.unlink, lambda path: path.write_bytes(b"")], ids=["bytes", "gone", "empty"]
)
def test_a_damaged_raw_file_stops_reparse_and_its_rows_stay(
    store: Store, before: dict[str, pd.DataFrame], name: str, damage: Callable[[Path], object]
) -> None:
    path = store.run("r1").raw(TRIALS[0]) / name
    damage(path)
    with pytest.raises(InputError) as caught:
        rebuild_tables(store, store.run("r1"))
    assert str(path) in str(caught.value)
    assert_equal(tables(store), before)
    found = check(store, repair=True)
    assert (found.status, [each.file for each in found.damages]) == ("damaged", [f"runs/r1/raw/{TRIALS[0]}/{name}"])
    assert_equal(tables(store), before)


def test_with_a_damaged_raw_file_other_tables_are_rebuilt_and_its_rows_stay(
    store: Store, before: dict[str, pd.DataFrame]
) -> None:
    overwrite(store.run("r1").raw(TRIALS[0]) / "wrk.txt")
    (store.table_folder("hosts", "small", "r1") / "hosts.parquet").write_bytes(b"PAR1")
    found = check(store, repair=True)
    assert [each.file.rpartition("/")[2] for each in found.repaired] == ["hosts.parquet"]
    assert_equal(tables(store), before)


def test_what_neither_raw_files_nor_tables_have_stays_reported(store: Store) -> None:
    (store.run("r1").raw(TRIALS[0]) / "wrk.txt").unlink()
    (store.table_folder("trials", "small", "r1") / "trials.parquet").write_bytes(b"PAR1")
    assert check(store, repair=True).status == "damaged"
    assert benchkit.load("trials", store=store.path)["trial_id"].tolist() == [TRIALS[1]]
    assert [each.file for each in check(store).damages] == [f"runs/r1/raw/{TRIALS[0]}/wrk.txt"]


def test_missing_raw_files_do_not_empty_the_tables(store: Store, before: dict[str, pd.DataFrame]) -> None:
    shutil.rmtree(store.run("r1").path / "raw")
    journal_of(store).write_bytes(b"")
    with pytest.raises(InputError):
        rebuild_tables(store, store.run("r1"))
    check(store, repair=True)
    assert_equal(tables(store), before)


def test_a_changed_manifest_stays_reported(store: Store) -> None:
    path = store.run("r1").manifest_file
    path.write_text(path.read_text().replace('"seed": 1', '"seed": 2'))
    for _ in range(2):
        (found,) = check(store, repair=True).damages
        assert (found.file, found.is_repairable) == ("runs/r1/manifest.json", False)


def test_interrupted_blocks_stay_marked_after_a_journal_was_cut_short(store: Store) -> None:
    run = store.run("r1")
    with run.journal() as journal:
        journal.append(BlockInterrupted(block=1, round=2, trials=TRIALS))
    rebuild_tables(store, run)
    assert set(benchkit.load("trials", store=store.path)["kind"]) == {"split"}
    journal_of(store).write_bytes(b"")
    rebuild_tables(store, run)
    assert set(benchkit.load("trials", store=store.path)["kind"]) == {"split"}


@pytest.mark.parametrize(
    "line", ["x", f"{'0' * 64}  ../../../etc/passwd", f"{'0' * 64}  runs/r2/manifest.json", f"{'0' * 64}  /etc/passwd"]
)
def test_checksums_of_other_files_are_refused(store: Store, line: str) -> None:
    run: RunFolder = store.run("r1")
    (run.path / "checksums.sha256").write_text(f"{line}\n")
    (found,) = check(store).damages
    assert "checksums" in found.what


def test_a_run_in_use_is_not_checked(store: Store) -> None:
    with store.run("r1").locked():
        assert [check(store, repair=repair).status for repair in (False, True)] == ["in use", "in use"]


def test_readers_never_see_verdicts_without_the_checks_of_the_run(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    replace = RunTables.replace

    def replace_and_read(self: RunTables, table: str, *parts: Rows) -> None:
        replace(self, table, *parts)
        seen.append(benchkit.load("unchecked", store=store.path)["scope"].value_counts().to_dict())

    before = benchkit.load("unchecked", store=store.path)["scope"].value_counts().to_dict()
    monkeypatch.setattr(RunTables, "replace", replace_and_read)
    rebuild_tables(store, store.run("r1"))
    assert seen
    assert all(counts == before for counts in seen)
