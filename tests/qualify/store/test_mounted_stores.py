"""Stores on disks that are full or read-only."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import benchkit
from benchkit.models.run import CellRecord
from benchkit.store.durable_files import write_atomically
from benchkit.store.row_builders import factor_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from tests.unit.store.test_store import WRK, manifest, record

if TYPE_CHECKING:
    pass
from tests.unit.store.test_durable_files import note

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
