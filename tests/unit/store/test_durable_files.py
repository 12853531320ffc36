"""A store after crashes, on full disks and with several writers: no incomplete files and no lost rows."""

from __future__ import annotations

import errno
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

import benchkit
from benchkit.cli.results import app as results_app
from benchkit.errors import InputError
from benchkit.models.rows import NoteRow
from benchkit.models.run import CellRecord
from benchkit.services.controller_files import get_or_create
from benchkit.store.durable_files import make_folders, write_atomically
from benchkit.store.journal import ClocksSet, Journal, OtherEvent, read_journal
from benchkit.store.row_builders import factor_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables, compact
from tests.unit.store.test_store import WRK, manifest, record, stored

if TYPE_CHECKING:
    from benchkit.store.run_folder import RunFolder

CELL = CellRecord(cell_id="only", levels={})


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    folder = tmp_path / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=96k", "tmpfs", str(folder)], check=True)
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path, free_bytes: int) -> Path:
    """Fill the disk except for this number of bytes."""
    path = folder / "filler"
    with path.open("wb", buffering=0) as file:
        room = os.statvfs(folder)
        file.write(bytes(max(0, room.f_bavail * room.f_frsize - free_bytes)))
    return path


def test_a_journal_on_a_full_disk_has_complete_lines_and_can_be_continued(small_disk: Path) -> None:
    path = small_disk / "journal"
    with Journal(path) as journal:
        journal.append(OtherEvent(event="first"))
        filler = fill(small_disk, 4096)
        with pytest.raises(OSError, match="No space left") as caught:  # noqa: PT012 - it is the disk that ends it
            while True:
                journal.append(ClocksSet(text="x" * 1000))
        assert caught.value.errno == errno.ENOSPC
        assert {event.event for event in read_journal(path)} == {"first", "clocks-set"}
        assert path.read_bytes().endswith(b"\n")
        filler.unlink()
        journal.append(OtherEvent(event="again"))
    assert [event.event for event in read_journal(path)][-1] == "again"


def test_on_a_full_disk_no_file_is_incomplete(small_disk: Path) -> None:
    store = Store(small_disk)
    run = store.create(manifest("r1", cells=(CELL,)))
    tables = RunTables(store, "small", "r1")
    tables.add("factors", "factors", factor_rows([CellRecord(cell_id="a", levels={"x": 1})]))
    filler = fill(small_disk, 12 << 10)
    noise = random.Random(1).randbytes(40 << 10)  # noqa: S311 - what no compression makes smaller
    with pytest.raises(OSError, match="No space left"):
        run.commit_trial(record("r1.b001.p001", CELL), {"wrk.txt": noise})
    with pytest.raises(OSError, match="No space left"):
        tables.add("notes", "n", [note("t", noise.hex())])
    with pytest.raises(OSError, match="No space left"):
        write_atomically(run.path / "manifest.json", noise)
    assert list((run.path / "raw").iterdir()) == []
    assert benchkit.load("notes", store=small_disk).empty
    assert run.manifest().run_id == "r1"
    assert sorted(path.name for path in run.path.iterdir()) == ["manifest.json", "raw"]
    filler.unlink()
    run.commit_trial(record("r1.b001.p001", CELL), {"wrk.txt": WRK.encode()})
    assert run.remove_partial_trials() == ["r1.b001.p001"]


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


@pytest.mark.parametrize("line", [b"{}\n", b"[]\n", b'{"event": 1}\n', b"\xff\n", b"{\n"])
def test_a_damaged_journal_is_reported_with_its_line(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "journal"
    with Journal(path) as journal:
        journal.append(OtherEvent(event="one"))
    with path.open("ab") as file:
        file.write(line)
    with pytest.raises(InputError, match=r"journal:2: the journal is damaged"):
        list(read_journal(path))


def note(trial_id: str, message: str = "") -> NoteRow:
    """Return a note."""
    return NoteRow(trial_id=trial_id, code="c", message=message)


REPLACE = """
import sys
from pathlib import Path
from benchkit.models.rows import NoteRow
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
tables = RunTables(Store(Path(sys.argv[1])), "small", "r1")
print(flush=True)
number = 0
while True:
    number += 1
    tables.replace("notes", [NoteRow(trial_id="t", code="c", message=str(number))] * 3)
"""


def start_writing(program: str, store: Path) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", program, str(store)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()
    process.stdout.close()
    return process


MERGE = """
import sys
from itertools import count
from pathlib import Path
from benchkit.models.rows import NoteRow
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
tables = RunTables(Store(Path(sys.argv[1])), "small", "r1")
print(flush=True)
for number in count():
    for trial in range(50):
        name = f"t{number:04}.{trial:02}"
        tables.add("notes", name, [NoteRow(trial_id=name, code="c", message="")])
    tables.merge()
"""


KILLED_AT_EACH_STEP = """
import os, signal, sys
from itertools import count
from pathlib import Path
import benchkit
from benchkit.models.rows import NoteRow
from benchkit.store.store import Store
from benchkit.store.tables import RunTables

root = Path(sys.argv[1])
tables = RunTables(Store(root), "small", "r1")


def note(trial):
    return NoteRow(trial_id=trial, code="c", message="m")


def merge(step):
    steps = count(1)
    def kill(event, _):
        if event.startswith(("os.", "open", "fcntl.")) and next(steps) == step:
            os.kill(os.getpid(), signal.SIGKILL)
    sys.addaudithook(kill)
    tables.merge()
    os._exit(0)


for number in count(1):
    tables.replace("notes", [note("a"), note("b")])
    for trial in "cde":
        tables.add("notes", trial, [note(trial)])
    child = os.fork() or merge(number)
    ended = os.waitpid(child, 0)[1]
    rows = benchkit.load("notes", store=root)["trial_id"].sort_values().tolist()
    assert rows == list("abcde"), (number, rows)
    tables.merge()
    (file,) = (root / "tables/notes/scenario=small/run_id=r1").iterdir()
    assert benchkit.load("notes", store=root)["trial_id"].sort_values().tolist() == list("abcde"), number
    if ended == 0:
        break
    assert ended == signal.SIGKILL
print(number)
"""


def test_files_that_a_crash_left_beside_the_merged_one_are_not_read_and_then_removed(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tables = RunTables(store, "small", "r1")
    folder = store.table_folder("notes", "small", "r1")
    for trial in "ab":
        tables.add("notes", trial, [note(trial)])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    assert tables.merge()
    for path, content in before.items():
        path.write_bytes(content)
    tables.add("notes", "c", [note("c")])
    (folder / ".c.parquet.77.partial").write_bytes(b"PAR1")
    assert sorted(benchkit.load("notes", store=tmp_path)["trial_id"]) == ["a", "b", "c"]
    compact(store)
    assert sorted(benchkit.load("notes", store=tmp_path)["trial_id"]) == ["a", "b", "c"]
    assert tables.merge()
    assert [path.name for path in folder.iterdir()] == ["notes.parquet"]
    assert sorted(benchkit.load("notes", store=tmp_path)["trial_id"]) == ["a", "b", "c"]


WRITE = """
import sys
from pathlib import Path
from tests.unit.store.test_store import stored
from benchkit.store.store import Store
store, name = Store(Path(sys.argv[1])), sys.argv[2]
print(flush=True)
sys.stdin.readline()
for number in range(4):
    stored(store, f"{name}{number}", "small", [{"stack": "go"}, {"stack": "nginx"}])
"""


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


def test_a_reader_of_the_lock_writes_nothing(tmp_path: Path) -> None:
    run = Store(tmp_path).create(manifest("r1"))
    before = sorted(tmp_path.rglob("*"))
    assert not run.is_locked()
    assert sorted(tmp_path.rglob("*")) == before
    with run.locked():
        assert run.is_locked()
    assert not run.is_locked()


def test_the_runs_of_a_store_that_one_may_not_write_are_listed(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("mounting takes root")
    Store(tmp_path / "store").create(manifest("r1"))
    folder = str(tmp_path / "store")
    subprocess.run(["mount", "--bind", "-o", "ro", folder, folder], check=True)
    subprocess.run(["mount", "-o", "remount,bind,ro", folder], check=True)
    try:
        shown = CliRunner().invoke(results_app, ["list", "--store", folder, "--json"], catch_exceptions=False)
        with pytest.raises(OSError, match="Read-only"):
            (tmp_path / "store" / "file").touch()
    finally:
        subprocess.run(["umount", folder], check=True)
    assert '"status": "stopped"' in shown.output


def test_no_new_folder_is_writable_by_everybody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    before = os.umask(0)
    try:
        make_folders(tmp_path / "store" / "runs" / "r1")
        get_or_create("a key", lambda: b"secret")
    finally:
        os.umask(before)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*") if path.is_dir()}
    assert [modes[name] for name in ("store", "runs", "r1")] == [0o775] * 3
    assert [modes[name] for name in ("benchkit", "kept")] == [0o700] * 2
