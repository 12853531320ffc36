"""Folders for a while: written down before they are made, so that they go also when nobody comes back to remove them."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Dict

from benchkit.agent.files import Files
from benchkit.agent.frames import Json
from benchkit.agent.records import Records
from benchkit.agent.workdir import Workdir


class Scratch:
    """Makes folders that are recorded, and removes what there is to remove."""

    def __init__(self, workdir: Workdir, records: Records, files: Files) -> None:
        self._workdir = workdir
        self._records = records
        self._files = files
        self._lock = threading.Lock()
        self._noted: Dict[Path, Path] = {}

    def make(self, *, path: str) -> Json:
        """Make a folder that goes with the agent, at the latest; fine where this agent has made it already."""
        folder = self._workdir.inside(path, write=True)
        with self._lock:
            if folder not in self._noted:
                self._noted[folder] = self._records.note("folder", {"path": str(folder)})
        return self._files.mkdir(path=path)

    def remove(self, *, path: str) -> Json:
        """Remove a file, or a folder with all that is in it, and the record of it; fine where there is none."""
        removed = self._files.remove(path=path)
        with self._lock:
            record = self._noted.pop(self._workdir.inside(path, write=True), None)
        if record is not None:
            self._records.drop(record)
        return removed
