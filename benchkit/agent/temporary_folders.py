"""Temporary folders and files: recorded before they are made, so that they are removed also after a crash."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path
from typing import Dict, Optional

from benchkit.agent.common import RefusedError, write_all
from benchkit.agent.files import Files
from benchkit.agent.frames import Json
from benchkit.agent.machine import user_id
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir


class TemporaryFolders:
    """Makes recorded folders and files, and removes files and folders with their records."""

    def __init__(self, workdir: Workdir, records: Records, files: Files) -> None:
        self._workdir = workdir
        self._records = records
        self._files = files
        self._lock = threading.Lock()
        self._recorded: Dict[Path, Path] = {}

    def make(self, *, path: str) -> Json:
        """Make a folder, unless it exists, that is removed when the agent ends at the latest."""
        folder = self._workdir.inside(path, write=True)
        self._record("folder", folder)
        return self._files.mkdir(path=path)

    def write(self, *, path: str, mode: int, owner: Optional[str] = None, body: bytes = b"") -> Json:
        """Write a file that is removed when the agent ends at the latest; no other copy of it is made.

        One that is in place already is not touched. `owner` is a user of the host; None: the login user.
        """
        file = self._workdir.inside(path, write=True)
        if mode & ~0o777:
            raise RefusedError("bad-request", f"mode {mode:o} is not allowed")
        uid = os.geteuid() if owner is None else user_id(owner)
        self._record("file", file)
        self._workdir.make_folder(file.parent)
        with contextlib.suppress(FileNotFoundError):
            status = file.lstat()
            is_only_copy = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
            is_same = (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, uid)
            if is_only_copy and is_same and file.read_bytes() == body:
                return {"changed": False}
            file.unlink()
        fd = os.open(str(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if owner is not None:
                os.fchown(fd, uid, -1)
            os.fchmod(fd, mode)
            write_all(fd, body)
        finally:
            os.close(fd)
        return {"changed": True}

    def remove(self, *, path: str) -> Json:
        """Remove a file, or a folder with its content, and its record; do nothing where there is none."""
        removed = self._files.remove(path=path)
        with self._lock:
            record = self._recorded.pop(self._workdir.inside(path, write=True), None)
        if record is not None:
            self._records.drop(record)
        return removed

    def _record(self, kind: str, path: Path) -> None:
        with self._lock:
            if path not in self._recorded:
                self._recorded[path] = self._records.note(kind, {"path": str(path)})
