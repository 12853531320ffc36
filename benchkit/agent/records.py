"""Records of what was changed on the host, so that it can be undone also when the agent is gone."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import re
import threading
import time
from pathlib import Path
from typing import Iterator, List, Tuple

from benchkit.agent.common import read_bytes, read_text, sync_folder, write_synced
from benchkit.agent.frames import Json
from benchkit.agent.proc import ProcStat, all_processes, is_running, proc_stat, tag_of
from benchkit.agent.workdir import Workdir

TAG_NUMBERS = 3
"""In a tag: pid and start of the guardian, number of the process."""

DAMAGED = "damaged"
"""The kind of a record that cannot be read."""

REPORTS = 20
"""So many of the newest reports are kept."""

_STAMP = re.compile(r"(?:report-)?([0-9]{20})-")


class Records:
    """What has to be undone on this host, one file each, so that it outlives the agent.

    A record belongs to the guardian of the agent that wrote it for as long as that guardian lives; after that anyone may
    undo it. Made by the guardian, before it starts the agent.
    """

    def __init__(self, workdir: Workdir) -> None:
        self._folder = workdir.root / "records"
        self._count = 0
        self._lock = threading.Lock()
        self.boot_id = read_text("/proc/sys/kernel/random/boot_id") or ""
        me = proc_stat(os.getpid())
        self._owner = {"pid": os.getpid(), "start": me.start if me else 0}
        where = hashlib.sha256(str(workdir.root).encode()).hexdigest()[:12]
        self._here = f"{Path('/proc/self/ns/pid').stat().st_ino}-{where}."
        self.tag = f"{self._here}{os.getpid()}.{self._owner['start']}."
        """What the tags of this agent's processes begin with: namespace of the pids, work directory, the guardian."""

    def note(self, kind: str, what: Json, *, synced: bool = True) -> Path:
        """Write a record; with `synced` it outlives a power cut too."""
        with self._lock:
            self._count += 1
            name = f"{self._stamp():020d}-{os.getpid()}-{self._count}.json"
        record = {"kind": kind, "boot_id": self.boot_id, "owner": self._owner, "at": time.time(), **what}
        path = self._folder / name
        if synced:
            write_synced(path, json.dumps(record).encode())
        else:
            part = path.with_name(f".{name}")
            part.write_bytes(json.dumps(record).encode())
            part.rename(path)
        return path

    def drop(self, path: Path, *, synced: bool = True) -> None:
        """Take a record away, once it is undone."""
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        if synced:
            sync_folder(self._folder)

    def all(self) -> List[Tuple[Path, Json]]:
        """The records there are, newest first: what was changed last is put back first."""
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

    def is_mine(self, record: Json) -> bool:
        """Whether this agent wrote it, or the one that this guardian guards."""
        return bool(record["owner"] == self._owner and record["boot_id"] == self.boot_id)

    def is_abandoned(self, record: Json) -> bool:
        """Whether the agent that wrote it is gone, and its guardian too."""
        return record["boot_id"] != self.boot_id or not is_running(record["owner"]["pid"], record["owner"]["start"])

    @contextlib.contextmanager
    def undoing(self) -> Iterator[None]:
        """Hold the only right to undo records of this work directory."""
        fd = os.open(str(self._folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)

    def report(self, what: Json) -> None:
        """Write down, for the next who comes, what was put back behind an agent that is gone."""
        path = self._folder / f"report-{self._stamp():020d}-{os.getpid()}.json"
        write_synced(path, json.dumps({"at": time.time(), **what}).encode())
        for old in self._reports()[:-REPORTS]:
            self.drop(old)

    def reports(self) -> List[Json]:
        """What was written down so, oldest first; one that cannot be read is left out."""
        found = []
        for path in self._reports():
            with contextlib.suppress(ValueError):
                found.append({**json.loads(read_bytes(str(path)) or b""), "name": path.name})
        return found

    def forget_report(self, name: str) -> None:
        """Take away one that was read."""
        if name in {path.name for path in self._reports()}:
            self.drop(self._folder / name)

    def _stamp(self) -> int:
        """What tells names apart by age: the time in ns, or just above all there are where the clock was set back.

        What was changed last has to be put back first, whatever becomes of the clock in between.
        """
        there = map(_STAMP.match, os.listdir(str(self._folder)))  # noqa: PTH208 - names, and often
        return max([time.time_ns(), *(int(found.group(1)) + 1 for found in there if found)])

    def _reports(self) -> List[Path]:
        return sorted(self._folder.glob("report-*.json"))

    def strays(self) -> List[ProcStat]:
        """Processes that an agent of this work directory started, which is gone now."""
        found = []
        for process in all_processes().values():
            tag = tag_of(process.pid)
            numbers = tag[len(self._here) :].split(".") if tag.startswith(self._here) else []
            if len(numbers) == TAG_NUMBERS and all(map(str.isdigit, numbers)):
                pid, start, _ = map(int, numbers)
                if process.state not in "ZX" and not is_running(pid, start):
                    found.append(process)
        return found
