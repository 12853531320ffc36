"""Records of changes on the host, so that the changes can be undone even after the agent was killed."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import threading
import time
from pathlib import Path
from typing import Iterator, List, Optional, Sequence, Tuple

from benchkit.agent.common import Workdir, read_bytes, read_text, sync_folder, write_whole
from benchkit.agent.frames import JsonObject, to_json
from benchkit.agent.operations import WatchdogReport, operation
from benchkit.agent.proc import ProcStat, all_processes, is_running, proc_stat, tag_of

TAG_NUMBERS = 3
"""Numbers in a tag: pid and start of the watchdog, number of the process."""

DAMAGED = "damaged"
"""Kind of a record that cannot be read."""


class Records:
    """The changes to undo on this host, one file each, which survive the agent.

    A record belongs to the watchdog of the agent that wrote it as long as that watchdog is running; after that anyone
    may undo it. Created by the watchdog, before it starts the agent.
    """

    def __init__(self, workdir: Workdir) -> None:
        self._folder = workdir.root / "records"
        self._count = 0
        self._lock = threading.Lock()
        self.boot_id = read_text("/proc/sys/kernel/random/boot_id") or ""
        me = proc_stat(os.getpid())
        self._owner = {"pid": os.getpid(), "start": me.start if me else 0}
        folder_id = hashlib.sha256(str(workdir.root).encode()).hexdigest()[:12]
        self._tag_prefix = f"{Path('/proc/self/ns/pid').stat().st_ino}-{folder_id}."
        self.tag = f"{self._tag_prefix}{os.getpid()}.{self._owner['start']}."
        """Start of the tags of this agent's processes: pid namespace, work directory, watchdog."""

    def note(self, kind: str, change: JsonObject, *, synced: bool = True, path: Optional[Path] = None) -> Path:
        """Write a new record, or replace the one at `path`; with `synced` it also survives a power cut.

        Call it before the change. Raises OSError where the record cannot be written, and then leaves no file.
        """
        if path is None:
            with self._lock:
                self._count += 1
                path = self._folder / f"{time.time_ns():020d}-{os.getpid()}-{self._count}.json"
        record = {"kind": kind, "boot_id": self.boot_id, "owner": self._owner, "at": time.time(), **change}
        write_whole(path, json.dumps(record).encode(), synced=synced)
        return path

    def drop(self, path: Path, *, synced: bool = True) -> None:
        """Remove a record after its change is undone."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        if synced:
            sync_folder(self._folder)

    def all(self) -> List[Tuple[Path, JsonObject]]:
        """Return all records, the newest first, in the order of restoring."""
        found = []
        for path in sorted(self._folder.glob("[0-9]*.json"), reverse=True):
            content = read_bytes(str(path))
            if content is None:  # undone by another agent meanwhile
                continue
            try:
                record = json.loads(content)
            except ValueError:
                record = {"kind": DAMAGED, "boot_id": self.boot_id, "owner": {"pid": 0, "start": 0}, "at": 0.0}
            found.append((path, record))
        return found

    def is_own(self, record: JsonObject) -> bool:
        """Return True for a record of this agent, or of this watchdog's agent."""
        return bool(record["owner"] == self._owner and record["boot_id"] == self.boot_id)

    def is_abandoned(self, record: JsonObject) -> bool:
        """Return True for a record whose agent and watchdog no longer exist."""
        return record["boot_id"] != self.boot_id or not is_running(record["owner"]["pid"], record["owner"]["start"])

    @contextlib.contextmanager
    def undoing(self) -> Iterator[None]:
        """Lock the records of this work directory while they are undone."""
        try:
            fd = os.open(str(self._folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:  # `remove_workdir` has removed it: nothing is left to undo, and nothing to lock
            yield
            return
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def report(
        self,
        reason: str,
        *,
        run: Optional[str] = None,
        undone: Sequence[str] = (),
        failures: Sequence[str] = (),
    ) -> None:
        """Write a report, for the next connection, of what was restored after an agent's end."""
        path = self._folder / f"report-{time.time_ns():020d}-{os.getpid()}.json"
        report = WatchdogReport(path.name, time.time(), reason, run, list(undone), list(failures))
        write_whole(path, json.dumps(report, default=to_json).encode(), synced=True)

    def reports(self) -> List[WatchdogReport]:
        """Return the reports, oldest first, without those that cannot be read."""
        found = []
        for path in self._reports():
            with contextlib.suppress(ValueError, TypeError):
                found.append(WatchdogReport(**json.loads(read_bytes(str(path)) or b"")))
        return found

    @operation()
    def delete_report(self, name: str) -> None:
        """Delete a report after reading it."""
        if name in {path.name for path in self._reports()}:
            self.drop(self._folder / name)

    def _reports(self) -> List[Path]:
        return sorted(self._folder.glob("report-*.json"))

    def orphans(self) -> List[ProcStat]:
        """Return running processes that agents of this work directory started, and whose watchdogs no longer exist."""
        found = []
        for process in all_processes().values():
            tag = tag_of(process.pid)
            numbers = tag[len(self._tag_prefix) :].split(".") if tag.startswith(self._tag_prefix) else []
            if len(numbers) == TAG_NUMBERS and all(map(str.isdigit, numbers)):
                pid, start, _ = map(int, numbers)
                if process.state not in "ZX" and not is_running(pid, start):
                    found.append(process)
        return found


def describe(record: JsonObject) -> str:  # noqa: PLR0911 - one for each kind
    """Return a recorded change as a phrase for messages."""
    kind = record["kind"]
    if kind == "sysctl":
        return ", ".join(f"{key} (was {value})" for key, value in record["former"].items())
    if kind == "process":
        return f"process {record['pid']} ({record['program']})" if "pid" in record else f"process {record['program']}"
    if kind == "containers":
        images = f" and {len(record['images'])} images" if record["images"] else ""
        return f"containers{images} of {record['engine']} (label {record['label']})"
    if kind == "group":
        return f"control group {record['path']}"
    if kind == "perf-maps":
        return f"maps for perf in {record['path']}"
    if kind == DAMAGED:
        return "a record that cannot be read"
    return f"{kind} {record['path']}" if "path" in record else f"a record of the kind {kind}"
