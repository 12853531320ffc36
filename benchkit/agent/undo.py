"""Undoing what records say, by whoever may: the agent what it changed, a guardian what its agent left, anyone what is abandoned."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Callable, Dict, List

from benchkit.agent import cgroups, go_settings, perf
from benchkit.agent.frames import Json
from benchkit.agent.proc import end_processes, end_session, is_running
from benchkit.agent.records import DAMAGED, Records
from benchkit.agent.sysctls import Sysctls
from benchkit.agent.workdir import Workdir

Way = Callable[[Json], List[str]]
"""Undoes what a record says and looks whether it is undone; what is not, for people."""


class Undo:
    """Undoes records; a kind of record is one line of `ways`."""

    def __init__(self, workdir: Workdir, records: Records, sysctls: Sysctls) -> None:
        self._workdir = workdir
        self._records = records
        self.ways: Dict[str, Way] = {
            "sysctl": sysctls.restore,
            "process": lambda record: end_session(record["pid"], record["start"]),
            "folder": self._remove_folder,
            "group": cgroups.remove,
            "go-settings": go_settings.restore,
            perf.MAPS: perf.undo,
        }
        self._outlive_a_boot = frozenset({"folder", "go-settings", perf.MAPS})

    def mine(self) -> List[Json]:
        """Undo what this agent changed, but for its processes, which it ends itself, and its folders.

        Folders are removed when the agent is gone: a request that is being carried out could write into one anew.
        """
        with self._records.undoing():
            return [
                self._undo(path, record)
                for path, record in self._records.all()
                if self._records.is_mine(record) and record["kind"] not in ("process", "folder")
            ]

    def everything_of_mine(self) -> List[Json]:
        """Undo all that the agent changed: for who guards an agent that is gone."""
        with self._records.undoing():
            return [self._undo(path, record) for path, record in self._records.all() if self._records.is_mine(record)]

    def abandoned(self) -> List[Json]:
        """Undo what was left by agents that are gone; say of what belongs to others that it does."""
        undone = []
        with self._records.undoing():
            for path, record in self._records.all():
                if self._records.is_abandoned(record):
                    undone.append(self._undo(path, record))
                elif not self._records.is_mine(record):
                    undone.append(_done(record, ["it belongs to a run that is going on"], "kept"))
            strays = self._records.strays()
            for stray in strays:
                failures = end_processes(lambda: [stray] if is_running(stray.pid, stray.start) else [])  # noqa: B023 - used at once
                what = {"kind": "process", "pid": stray.pid, "start": stray.start, "program": stray.name}
                undone.append(_done(what, failures, "undone"))
        return undone

    def _undo(self, path: Path, record: Json) -> Json:
        """Undo one record, and take it away if that succeeded. A reboot has undone all but files by itself."""
        failures: List[str] = []
        how = "undone"
        if record["kind"] == DAMAGED:
            failures = [f"{path} cannot be read: look at what it says, then remove it"]
        elif record["kind"] not in self.ways:
            failures = [f"{path} is of a kind that this benchkit does not know ({record['kind']})"]
        elif record["boot_id"] == self._records.boot_id or record["kind"] in self._outlive_a_boot:
            failures = self.ways[record["kind"]](record)
        else:
            how = "rebooted"
        if not failures:
            self._records.drop(path)
        return _done(record, failures, how)

    def _remove_folder(self, record: Json) -> List[str]:
        folder = self._workdir.inside(record["path"], write=True)
        try:
            shutil.rmtree(str(folder))
        except FileNotFoundError:
            return []
        except OSError as error:
            return [f"{folder} could not be removed: {error.strerror}"]
        return [f"{folder} is still there"] if folder.exists() else []


def _done(record: Json, failures: List[str], how: str) -> Json:
    return {"record": record, "failures": failures, "how": "failed" if failures and how != "kept" else how}
