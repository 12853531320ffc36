"""A store after crashes, on full disks and with several writers: no incomplete files and no lost rows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import benchkit
from benchkit.errors import InputError
from benchkit.models.rows import NoteRow
from benchkit.store.journal import Journal, OtherEvent, read_journal
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.unit.store.test_store import stored

if TYPE_CHECKING:
    from benchkit.store.run_folder import RunFolder


@pytest.mark.parametrize("cut", [b'{"event": "trial-en', b"\0" * 70_000, b'{"event": "a"}\n{'])
def test_a_journal_can_be_continued_after_a_crash(tmp_path: Path, cut: bytes) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append(OtherEvent(event="one"))
    with path.open("ab") as file:
        file.write(cut)
    with Journal(path) as journal:
        journal.append(OtherEvent(event="two"))
    events = [event.event for event in read_journal(path)]
    assert (events[0], events[-1]) == ("one", "two")


def note(trial_id: str, message: str = "") -> NoteRow:
    """Return a note."""
    return NoteRow(trial_id=trial_id, code="c", message=message)


def test_files_that_a_crash_left_beside_the_merged_one_are_not_read_and_then_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tables = RunTables(store, "small", "r1")
    folder = store.table_folder("notes", "small", "r1")
    for trial in "ab":
        tables.add("notes", trial, [note(trial)])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    tables.merge()
    for path, content in before.items():
        path.write_bytes(content)
    tables.add("notes", "c", [note("c")])
    (folder / ".c.parquet.77.partial").write_bytes(b"PAR1")
    assert sorted(benchkit.load("notes", store=tmp_path)["trial_id"]) == ["a", "b", "c"]
    tables.merge()
    assert [path.name for path in folder.iterdir()] == ["notes.parquet"]
    assert sorted(benchkit.load("notes", store=tmp_path)["trial_id"]) == ["a", "b", "c"]


def test_only_one_process_writes_to_a_run(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = stored(store, "r1", "small", [{"stack": "go"}])
    assert not run.is_locked()
    with run.locked():
        assert run.is_locked()
        with pytest.raises(InputError, match="r1: another benchkit process writes to this run"):
            store.remove(run)
    assert not run.is_locked()
    store.remove(run)
    assert store.runs() == []


def damaged(run: RunFolder, text: str) -> None:
    (run.path / "manifest.json").write_text(text)


def test_an_unreadable_manifest_does_not_hide_other_runs(tmp_path: Path) -> None:
    store = Store(tmp_path)
    for name in ("r1", "r2", "r3"):
        stored(store, name, "small", [{"stack": "go"}])
    damaged(store.run("r1"), "{")
    damaged(store.run("r3"), "\0")
    found, unreadable = store.survey()
    assert [run.run_id for run, _ in found] == ["r2"]
    assert list(unreadable) == ["r1", "r3"]
    assert store.run("latest").run_id == "r2"
    store.remove(store.run("r3"))
    assert set(benchkit.load("trials", store=tmp_path)["run_id"]) == {"r1", "r2"}
