"""Temporary folders and files: recorded before they are made, so that they are removed also after a crash."""

from __future__ import annotations

import contextlib
import os
import stat
import threading
from pathlib import Path
from typing import Dict

from benchkit.agent.common import RefusedError, write_all
from benchkit.agent.files import Files
from benchkit.agent.frames import Json
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

    def write(self, *, path: str, mode: int, body: bytes = b"") -> Json:
        """Write a file that is removed when the agent ends at the latest; no other copy of it is made.

        One that is in place already is not touched.
        """
        file = self._workdir.inside(path, write=True)
        if mode & ~0o777:
            raise RefusedError("bad-request", f"mode {mode:o} is not allowed")
        self._record("file", file)
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            status = file.lstat()
            is_only_copy = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
            if is_only_copy and stat.S_IMODE(status.st_mode) == mode and file.read_bytes() == body:
                return {"changed": False}
            file.unlink()
        fd = os.open(str(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
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
