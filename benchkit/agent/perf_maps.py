"""Maps of compiled code that processes write for perf outside of the work directory."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import List, Tuple

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.records import Records

KIND = "perf-maps"
"""Kind of their records."""
FOLDER = Path("/tmp")  # noqa: S108 - where perf reads them, and V8 writes them (tools/perf/Documentation/jit-interface.txt)


class PerfMaps:
    """The maps of processes that were started for a profile by perf."""

    def __init__(self, records: Records) -> None:
        self._records = records

    def expect(self, *, pids: List[int]) -> Json:
        """Record that these processes write maps, which are removed when the agent ends, also after a crash."""
        return {"record": self._records.note(KIND, {"pids": pids}).name}

    def remove(self, *, pids: List[int]) -> Json:
        """Remove the maps of processes that have ended; return their paths. Raises RefusedError."""
        removed, failures = remove_maps(pids)
        if failures:
            raise RefusedError("denied", "a map for perf cannot be removed", "; ".join(failures))
        for path, record in self._records.all():
            if record["kind"] == KIND and self._records.is_own(record) and set(record["pids"]) <= set(pids):
                self._records.drop(path)
        return {"removed": removed}


def undo(record: Json) -> List[str]:
    """Remove the maps of a record; return failures."""
    return remove_maps(record["pids"])[1]


def remove_maps(pids: List[int]) -> Tuple[List[str], List[str]]:
    """Remove the maps of these processes that belong to this user; return their paths, and failures."""
    removed: List[str] = []
    failures: List[str] = []
    for pid in pids:
        path = FOLDER / f"perf-{int(pid)}.map"
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                path.unlink()
                removed.append(str(path))
            else:
                failures.append(f"{path} is not a file of this user")
    return removed, failures
