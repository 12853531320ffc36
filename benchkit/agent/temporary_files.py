"""Temporary folders and files, which are removed at the end of the agent, even after a crash."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path
from typing import Dict

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, write_all
from benchkit.agent.files import FileStore
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir


class TemporaryFolders:
    """Makes recorded folders and files, and removes files and folders with their records."""

    def __init__(self, workdir: Workdir, records: Records, files: FileStore) -> None:
        self._workdir = workdir
        self._records = records
        self._files = files
        self._lock = threading.Lock()
        self._recorded: Dict[Path, Path] = {}

    def make(self, wanted: ops.MakeTemporaryFolder) -> str:
        """Make a folder, unless it exists; it is removed at the agent's end at the latest."""
        self._record("folder", self._workdir.inside(wanted.path, write=True))
        return self._files.mkdir(wanted.path)

    def write(self, wanted: ops.WriteTemporaryFile) -> bool:
        """Write a file, without any other copy; it is removed at the agent's end at the latest.

        Return False where the file is in place already; it is then not touched.
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
    """Return the number of the user with this name. Raises OperationError for an unknown user."""
    import pwd  # noqa: PLC0415 - some small systems lack it

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise OperationError("not-found", f"there is no user {name}") from None
