"""Undoing of recorded changes: by the agent that made them, by its watchdog, or by anyone once they are abandoned."""

from __future__ import annotations

import os
import stat
from functools import partial
from pathlib import Path
from typing import Callable, Dict, List, Optional

from benchkit.agent.cgroups import remove_cgroup
from benchkit.agent.common import Workdir, remove_path
from benchkit.agent.containers import CONTAINERS, remove_containers
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import ChangeRecord, HostPath, HostTraces, UndoneChange, operation
from benchkit.agent.proc import end_processes, end_recorded, is_running
from benchkit.agent.records import DAMAGED, Records, describe
from benchkit.agent.settings import WRITE_S, RunCommand, Sysctls
from benchkit.agent.watchdog_link import holder

Undoing = Callable[[JsonObject], List[str]]
"""Undoes a record's change, verifies the result, and returns failures."""


class Undo:
    """Undoes recorded changes; each kind of record has an entry in `by_kind`."""

    def __init__(self, workdir: Workdir, records: Records, sysctls: Sysctls, run: RunCommand) -> None:
        self._workdir = workdir
        self._records = records
        self.by_kind: Dict[str, Undoing] = {
            "sysctl": sysctls.restore,
            "process": end_recorded,
            "folder": self._remove,
            "file": self._remove,
            "group": remove_cgroup,
            "perf-maps": self._remove_perf_maps,
            CONTAINERS: partial(remove_containers, run=run),
        }
        self._survive_reboot = frozenset({"folder", "file", "perf-maps", CONTAINERS})

    @operation()
    def traces(self) -> HostTraces:
        """Return the changes to undo, the reports of watchdogs and the holder of the host."""
        records = []
        for _, record in self._records.all():
            state = "mine" if self._records.is_own(record) else "other"
            state = "abandoned" if self._records.is_abandoned(record) else state
            records.append(ChangeRecord(record["kind"], state, describe(record), record.get("pid")))
        records += [
            ChangeRecord("process", "abandoned", f"process {each.pid} ({each.name})", each.pid)
            for each in self._records.orphans()
        ]
        return HostTraces(records, self._records.reports(), holder())

    @operation()
    def expect_perf_maps(self, path: HostPath) -> None:
        """Make a folder in which processes start that write maps for perf, each beside a file named by its pid.

        The maps are removed with the folder by `restore` with its `scope`, or else at the end of the agent, even by a
        kill. The path is the scope.
        """
        folder = self._workdir.inside(path, write=True)
        self._records.note("perf-maps", {"path": str(folder), "scope": str(path)})
        self._workdir.make_folder(folder)

    @operation(within_s=WRITE_S)
    def restore(self, own: bool = False, scope: Optional[str] = None) -> List[UndoneChange]:  # noqa: FBT001, FBT002 - as JSON
        """Undo this agent's changes, or those with a `scope`, and, unless `own`, those of abandoned agents."""
        return [*self.own(scope), *([] if own else self._abandoned())]

    def own(self, scope: Optional[str] = None) -> List[UndoneChange]:
        """Undo this agent's changes, or those with a `scope`, except its processes, folders and files.

        The agent ends its processes itself. Folders and files are removed after its end, because a running request
        could still write them.
        """
        with self._records.undoing():
            return [
                self._undo(path, record)
                for path, record in self._records.all()
                if self._records.is_own(record)
                and record["kind"] not in ("process", "folder", "file")
                and scope in (None, record.get("scope"))
            ]

    def own_with_leftovers(self) -> List[UndoneChange]:
        """Undo everything that the agent changed, folders and files too; for its watchdog, after the agent's end."""
        with self._records.undoing():
            return [self._undo(path, record) for path, record in self._records.all() if self._records.is_own(record)]

    def _abandoned(self) -> List[UndoneChange]:
        undone = []
        with self._records.undoing():
            for path, record in self._records.all():
                if self._records.is_abandoned(record):
                    undone.append(self._undo(path, record))
                elif not self._records.is_own(record):
                    why = "it belongs to another run, which is not finished"
                    undone.append(UndoneChange(describe(record), [why], "kept"))
            for orphan in self._records.orphans():
                failures = end_processes(lambda: [orphan] if is_running(orphan.pid, orphan.start) else [])  # noqa: B023 - used at once
                text = f"process {orphan.pid} ({orphan.name})"
                undone.append(UndoneChange(text, failures, "failed" if failures else "undone"))
        return undone

    def _undo(self, path: Path, record: JsonObject) -> UndoneChange:
        """Undo one record, and remove it on success. A reboot has undone everything except files."""
        failures: List[str] = []
        how = "undone"
        if record["kind"] == DAMAGED:
            failures = [f"{path} cannot be read: check what it contains, then remove it"]
        elif record["kind"] not in self.by_kind:
            failures = [f"{path} has a kind that this version of benchkit does not know ({record['kind']})"]
        elif record["boot_id"] == self._records.boot_id or record["kind"] in self._survive_reboot:
            failures = self.by_kind[record["kind"]](record)
        else:
            how = "rebooted"
        if not failures:
            self._records.drop(path)
        return UndoneChange(describe(record), failures, "failed" if failures else how)

    def _remove_perf_maps(self, record: JsonObject) -> List[str]:
        """Remove `/tmp/perf-PID.map` of processes that have ended; files of others and links are not maps of them."""
        pids = [file.name for file in Path(record["path"]).glob("[0-9]*")]
        for file in (Path(f"/tmp/perf-{pid}.map") for pid in pids):  # noqa: S108 - perf reads them there
            try:
                status = file.lstat()
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    file.unlink()
            except FileNotFoundError:
                continue
            except OSError as error:
                return [f"{file} could not be removed: {error.strerror}"]
        return self._remove(record)

    def _remove(self, record: JsonObject) -> List[str]:
        path = self._workdir.inside(record["path"], write=True)
        try:
            remove_path(path)
        except OSError as error:
            return [f"{path} could not be removed: {error.strerror}"]
        return []
