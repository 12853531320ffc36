"""Maps of compiled code that processes write for perf outside of the work directory."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path
from typing import List

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
        """Record that these processes write maps, which are removed when the agent ends, also after a crash.

        Raises RefusedError where one of them has no map of this user, so that perf would have no names of its
        functions.
        """
        record = self._records.note(KIND, {"pids": pids}).name
        missing = [str(path) for path in map(_path, pids) if not _is_own(path)]
        if missing:
            why = "another user has made the file, or the process could not"
            raise RefusedError("denied", f"no map for perf at {', '.join(missing)}", why)
        return {"record": record}

    def remove(self, *, pids: List[int]) -> Json:
        """Remove the maps of processes that have ended; return their paths."""
        removed = remove_maps(pids)
        for path, record in self._records.all():
            if record["kind"] == KIND and self._records.is_own(record) and set(record["pids"]) <= set(pids):
                self._records.drop(path)
        return {"removed": removed}


def undo(record: Json) -> List[str]:
    """Remove the maps of a record; return failures."""
    try:
        remove_maps(record["pids"])
    except OSError as error:
        return [f"{error.filename} could not be removed: {error.strerror}"]
    return []


def remove_maps(pids: List[int]) -> List[str]:
    """Remove the maps of these processes; return their paths.

    What else is there, such as a link or a file of another user, is none of these processes' and stays.
    """
    removed: List[str] = []
    for path in map(_path, pids):
        if _is_own(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                removed.append(str(path))
    return removed


def _path(pid: int) -> Path:
    return FOLDER / f"perf-{int(pid)}.map"


def _is_own(path: Path) -> bool:
    """Return True for a regular file of this user."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
