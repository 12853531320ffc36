"""Removal at the end of the agent, also after a crash: temporary folders and files, and maps for perf."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import threading
from pathlib import Path
from typing import Dict, Iterator, List

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, write_all
from benchkit.agent.files import FileStore
from benchkit.agent.frames import JsonObject
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir

PERF_MAPS = "perf-maps"
"""Kind of their records."""
PERF_FOLDER = Path("/tmp")  # noqa: S108 - where perf reads them, and V8 writes them (tools/perf/Documentation/jit-interface.txt)


class TemporaryFolders:
    """Makes recorded folders and files, and removes files and folders with their records."""

    def __init__(self, workdir: Workdir, records: Records, files: FileStore) -> None:
        self._workdir = workdir
        self._records = records
        self._files = files
        self._lock = threading.Lock()
        self._recorded: Dict[Path, Path] = {}

    def make(self, wanted: ops.MakeTemporaryFolder) -> str:
        """Make a folder, unless it exists, that is removed when the agent ends at the latest."""
        self._record("folder", self._workdir.inside(wanted.path, write=True))
        return self._files.mkdir(wanted.path)

    def write(self, wanted: ops.WriteTemporaryFile) -> bool:
        """Write a file that is removed when the agent ends at the latest; no other copy of it is made.

        One that is in place already is not touched: then return False.
        """
        file, mode = self._workdir.inside(wanted.path, write=True), wanted.mode
        if mode & ~0o777:
            raise OperationError("bad-request", f"mode {mode:o} is not allowed")
        uid = os.geteuid() if wanted.owner is None else _user_id(wanted.owner)
        self._record("file", file)
        self._workdir.make_folder(file.parent)
        with contextlib.suppress(FileNotFoundError):
            status = file.lstat()
            is_only_copy = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
            is_same = (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, uid)
            if is_only_copy and is_same and file.read_bytes() == wanted.body:
                return False
            file.unlink()
        fd = os.open(str(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if wanted.owner is not None:
                os.fchown(fd, uid, -1)
            os.fchmod(fd, mode)
            write_all(fd, wanted.body)
        finally:
            os.close(fd)
        return True

    def remove(self, wanted: ops.RemovePath) -> bool:
        """Remove a file, or a folder with its content, and its record; return False where there is none."""
        removed = self._files.remove(wanted.path)
        with self._lock:
            record = self._recorded.pop(self._workdir.inside(wanted.path, write=True), None)
        if record is not None:
            self._records.drop(record)
        return removed

    def _record(self, kind: str, path: Path) -> None:
        with self._lock:
            if path not in self._recorded:
                self._recorded[path] = self._records.note(kind, {"path": str(path)})


def _user_id(name: str) -> int:
    """Return the number of a user. Raises OperationError where there is none of this name."""
    import pwd  # noqa: PLC0415 - some small systems lack it

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise OperationError("not-found", f"there is no user {name}") from None


class PerfMaps:
    """The maps of processes that are started for a profile by perf.

    Each such process makes a file named by its pid in the folder in which it starts, before it makes its map. So the
    maps of processes that have ended are known too.
    """

    def __init__(self, workdir: Workdir, records: Records) -> None:
        self._workdir = workdir
        self._records = records

    def expect(self, wanted: ops.ExpectPerfMaps) -> None:
        """Make the folder in which processes that write maps will start.

        It is removed with their maps when the agent ends, also after a crash.
        """
        path = self._workdir.inside(wanted.folder, write=True)
        self._records.note(PERF_MAPS, {"folder": str(path)})
        self._workdir.make_folder(path)

    def require(self, wanted: ops.RequirePerfMaps) -> None:
        """Raise RefusedError where a process has no map of this user: perf would have no names of its functions."""
        missing = [str(path) for path in map(_map_path, wanted.pids) if not _is_own_file(path)]
        if missing:
            why = "another user has made the file, or the process could not"
            raise OperationError("denied", f"no map for perf at {', '.join(missing)}", why)

    def remove(self, wanted: ops.RemovePerfMaps) -> List[str]:
        """Remove the folder and the maps of its processes, which have ended; return the maps' paths."""
        path = self._workdir.inside(wanted.folder, write=True)
        removed = remove_maps(path)
        for record_path, record in self._records.all():
            if record["kind"] == PERF_MAPS and self._records.is_own(record) and record["folder"] == str(path):
                self._records.drop(record_path)
        return removed


def remove_recorded_maps(record: JsonObject) -> List[str]:
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
    for path in map(_map_path, _pids_in(folder)):
        if _is_own_file(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
                removed.append(str(path))
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(str(folder))
    return removed


def _pids_in(folder: Path) -> Iterator[int]:
    """Yield the pids that name files of a folder, beside the logs that V8 writes there."""
    with contextlib.suppress(FileNotFoundError):
        yield from (int(entry.name) for entry in folder.iterdir() if entry.name.isdigit())


def _map_path(pid: int) -> Path:
    return PERF_FOLDER / f"perf-{int(pid)}.map"


def _is_own_file(path: Path) -> bool:
    try:
        status = path.lstat()
    except FileNotFoundError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
