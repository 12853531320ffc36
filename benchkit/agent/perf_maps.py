"""Maps of compiled code that processes write for perf outside of the work directory."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Iterator, List

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir

KIND = "perf-maps"
"""Kind of their records."""
FOLDER = Path("/tmp")  # noqa: S108 - where perf reads them, and V8 writes them (tools/perf/Documentation/jit-interface.txt)


class PerfMaps:
    """The maps of processes that are started for a profile by perf.

    Each such process makes a file named by its pid in the folder in which it starts, before it makes its map: so the
    maps of processes that have ended are known too.
    """

    def __init__(self, workdir: Workdir, records: Records) -> None:
        self._workdir = workdir
        self._records = records

    def expect(self, *, folder: str) -> Json:
        """Make the folder in which processes that write maps will start.

        It is removed with their maps when the agent ends, also after a crash.
        """
        path = self._workdir.inside(folder, write=True)
        record = self._records.note(KIND, {"folder": str(path)}).name
        self._workdir.make_folder(path)
        return {"record": record}

    def require(self, *, pids: List[int]) -> Json:
        """Raise RefusedError where a process has no map of this user: perf would have no names of its functions."""
        missing = [str(path) for path in map(_path, pids) if not _is_own(path)]
        if missing:
            why = "another user has made the file, or the process could not"
            raise RefusedError("denied", f"no map for perf at {', '.join(missing)}", why)
        return {}

    def remove(self, *, folder: str) -> Json:
        """Remove the folder and the maps of its processes, which have ended; return the maps' paths."""
        path = self._workdir.inside(folder, write=True)
        removed = remove_maps(path)
        for record_path, record in self._records.all():
            if record["kind"] == KIND and self._records.is_own(record) and record["folder"] == str(path):
                self._records.drop(record_path)
        return {"removed": removed}


def undo(record: Json) -> List[str]:
    """Remove the folder of a record and the maps of its processes; return failures."""
    try:
        remove_maps(Path(record["folder"]))
    except OSError as error:
        return [f"{error.filename} could not be removed: {error.strerror}"]
    return []


def remove_maps(folder: Path) -> List[str]:
    """Remove the maps of the processes that a folder names, then the folder; return the maps' paths.

    What else is at their paths, such as a link or a file of another user, is none of these processes' and stays.
    """
    removed: List[str] = []
    for path in map(_path, _pids(folder)):
        if _is_own(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                removed.append(str(path))
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(str(folder))
    return removed


def _pids(folder: Path) -> Iterator[int]:
    """Yield the pids that name files of a folder, beside the logs that V8 writes there."""
    with contextlib.suppress(FileNotFoundError):
        yield from (int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())


def _path(pid: int) -> Path:
    return FOLDER / f"perf-{int(pid)}.map"


def _is_own(path: Path) -> bool:
    """Return True for a regular file of this user."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
