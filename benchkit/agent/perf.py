"""What perf needs of a host beside its own command: its text packed for the way home, its maps cleared away."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import stat
from pathlib import Path
from typing import List, Tuple

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir

MAPS = "perf-maps"
"""The kind of a record of them."""
FOLDER = Path("/tmp")  # noqa: S108 - where perf looks for them, and V8 writes them (tools/perf/Documentation/jit-interface.txt)
LEVEL = 6


class Perf:
    """Files that perf and what it looks at leave behind."""

    def __init__(self, workdir: Workdir, records: Records) -> None:
        self._workdir = workdir
        self._records = records

    def pack(self, *, path: str) -> Json:
        """Write a file below the work directory once more as `path`.gz; its name and size."""
        source = self._workdir.inside(path)
        packed = self._workdir.inside(f"{path}.gz", write=True)
        # No name and no time in it: the same content gives the same bytes.
        with source.open("rb") as plain, packed.open("xb") as file:
            with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as stream:
                shutil.copyfileobj(plain, stream, 1 << 20)
            size = file.tell()
        return {"path": str(packed), "size": size}

    def expect_maps(self, *, pids: List[int]) -> Json:
        """Note that these processes leave maps of compiled code for perf, to be removed however the agent ends."""
        return {"record": self._records.note(MAPS, {"pids": pids}).name}

    def drop_maps(self, *, pids: List[int]) -> Json:
        """Remove the maps that these processes, which have ended, left; which there were. Raises RefusedError."""
        dropped, failures = remove_maps(pids)
        if failures:
            raise RefusedError("denied", "a map for perf cannot be removed", "; ".join(failures))
        for path, record in self._records.all():
            if record["kind"] == MAPS and self._records.is_mine(record) and set(record["pids"]) <= set(pids):
                self._records.drop(path)
        return {"dropped": dropped}


def undo(record: Json) -> List[str]:
    """Remove the maps that a record says were expected; what could not be removed, for people."""
    return remove_maps(record["pids"])[1]


def remove_maps(pids: List[int]) -> Tuple[List[str], List[str]]:
    """Remove the maps of these processes that are files of ours: those that there were, and failures for people."""
    dropped: List[str] = []
    failures: List[str] = []
    for pid in pids:
        path = FOLDER / f"perf-{int(pid)}.map"
        with contextlib.suppress(FileNotFoundError):
            found = path.lstat()
            if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                path.unlink()
                dropped.append(str(path))
            else:
                failures.append(f"{path} is not a file of ours")
    return dropped, failures
