"""Temporary folders: recorded before they are made, so that they are removed also after a crash."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Dict

from benchkit.agent.files import Files
from benchkit.agent.frames import Json
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir


class TemporaryFolders:
    """Makes recorded folders, and removes files and folders with their records."""

    def __init__(self, workdir: Workdir, records: Records, files: Files) -> None:
        self._workdir = workdir
        self._records = records
        self._files = files
        self._lock = threading.Lock()
        self._recorded: Dict[Path, Path] = {}

    def make(self, *, path: str) -> Json:
        """Make a folder, unless it exists, that is removed when the agent ends at the latest."""
        folder = self._workdir.inside(path, write=True)
        with self._lock:
            if folder not in self._recorded:
                self._recorded[folder] = self._records.note("folder", {"path": str(folder)})
        return self._files.mkdir(path=path)

    def remove(self, *, path: str) -> Json:
        """Remove a file, or a folder with its content, and its record; do nothing where there is none."""
        removed = self._files.remove(path=path)
        with self._lock:
            record = self._recorded.pop(self._workdir.inside(path, write=True), None)
        if record is not None:
            self._records.drop(record)
        return removed
