"""A store after crashes, on full disks and with several writers: no incomplete files and no lost rows."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import benchkit
from benchkit.models.rows import NoteRow
from benchkit.store.store import Store
from tests.unit.store.test_store import manifest

if TYPE_CHECKING:
    pass


def note(trial_id: str, message: str = "") -> NoteRow:
    """Return a note."""
    return NoteRow(trial_id=trial_id, code="c", message=message)


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


def test_readers_see_every_row_once_while_files_of_trials_are_merged(tmp_path: Path) -> None:
    Store(tmp_path).create(manifest("r1"))
    process = start_writing(MERGE, tmp_path)
    try:
        seen = 0
        while seen < 200:  # four merges
            rows = benchkit.load("notes", store=tmp_path, run_id="r1")["trial_id"].sort_values().tolist()
            assert rows == [f"t{number // 50:04}.{number % 50:02}" for number in range(len(rows))]
            assert seen <= len(rows)
            seen = len(rows)
            assert process.poll() is None
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    rows = benchkit.load("notes", store=tmp_path, run_id="r1")["trial_id"].tolist()
    assert len(set(rows)) == len(rows) >= seen


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


def test_killed_at_each_step_of_a_merge_no_row_is_lost_or_read_twice(tmp_path: Path) -> None:
    command = [sys.executable, "-c", KILLED_AT_EACH_STEP, str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert int(result.stdout) > 10, "the last merge was not killed"
