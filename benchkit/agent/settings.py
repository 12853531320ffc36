"""Kernel settings, written with a record of their former values."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, read_text
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import operation
from benchkit.agent.records import Records

WRITE_S = 60.0
"""Time for all writes of one request; each may be a call of sudo."""

RunCommand = Callable[[List[str], float], Tuple[Optional[int], str]]
"""Runs a command with a timeout in seconds; returns its exit code, None where it did not end, and its output."""


class Sysctls:
    """Kernel settings: read, written with a record of their former values, and restored."""

    ROOT = "/proc/sys"
    SUDO_S = 10.0

    def __init__(self, records: Records, run_command: RunCommand) -> None:
        self._records = records
        self._run_command = run_command
        self._lock = threading.Lock()

    @operation()
    def read(self, keys: Sequence[str]) -> Dict[str, ops.Sysctl]:
        """Return the state of each key."""
        return {key: self._read(key) for key in keys}

    @operation(within_s=WRITE_S)
    def write(
        self, values: Mapping[str, str], sudo: Optional[Sequence[str]] = None, scope: Optional[str] = None
    ) -> Dict[str, ops.SysctlOutcome]:
        """Set keys in the given order, and read them; all former values are saved on disk before the first write.

        `sudo` is a command that writes settings this user may not write; `key=value` is appended. `Undo.restore` can
        restore the settings of a `scope` before all others; the agent's end restores all.
        """
        with self._lock:
            before = {key: self._read(key) for key in values}
            outcomes: Dict[str, ops.SysctlOutcome] = {}
            former: Dict[str, Optional[str]] = {}
            for key, value in values.items():
                found = before[key]
                if found.state != "present":
                    outcomes[key] = ops.SysctlOutcome(found.state)
                elif same_value(found.value, value):
                    outcomes[key] = ops.SysctlOutcome("already", found.value, found.value)
                elif not found.writable and not sudo:
                    outcomes[key] = ops.SysctlOutcome("read-only", found.value, found.value)
                else:
                    former[key] = found.value
            if not former:
                return outcomes
            change = {"former": former, "sudo": sudo, "scope": scope}
            record = self._records.note("sysctl", {**change, "written": {key: values[key] for key in former}})
            for key, former_value in former.items():
                why = self._set(key, values[key], sudo)
                now = self._read(key).value
                outcome = "refused" if why else "applied" if same_value(now, values[key]) else "differs"
                outcomes[key] = ops.SysctlOutcome(outcome, former_value, now, why)
            stored = {key: self._read(key).value for key in former}
            if all(same_value(stored[key], former[key]) for key in former):
                self._records.drop(record)
            elif any(not same_value(stored[key], values[key]) for key in former):
                self._records.note("sysctl", {**change, "written": stored}, path=record)
            return {key: outcomes[key] for key in values}

    def restore(self, record: JsonObject) -> List[str]:
        """Restore the former values of a record, the last written first, and verify them; return failures.

        A setting that no longer has the written value stays as it is: somebody else has changed it since.
        """
        failures = []
        with self._lock:
            for key, value in reversed(list(record["former"].items())):
                if not same_value(self._read(key).value, record["written"][key]):
                    continue
                why = self._set(key, value, record["sudo"])
                now = self._read(key).value
                if not same_value(now, value):
                    failures.append(f"{key} is {now!r} and should be {value!r}: {why or 'the kernel ignored it'}")
        return failures

    def _path(self, key: str) -> Path:
        """Return the path of a key as in sysctl(8): if its first separator is a dot, dots and slashes are swapped."""
        dot, slash = key.find("."), key.find("/")
        if slash < 0 or 0 <= dot < slash:
            key = key.translate({ord("."): "/", ord("/"): "."})
        path = os.path.normpath(f"{self.ROOT}/{key}")
        if "\0" in key or not path.startswith(f"{self.ROOT}/"):
            raise OperationError("bad-request", f"{key!r} is not a sysctl")
        return Path(path)

    def _read(self, key: str) -> ops.Sysctl:
        path = self._path(key)
        if not path.is_file():
            return ops.Sysctl("absent", None, writable=False)
        value = read_text(str(path))
        return ops.Sysctl("unreadable" if value is None else "present", value, writable=os.access(path, os.W_OK))

    def _set(self, key: str, value: str, sudo: Optional[Sequence[str]]) -> Optional[str]:
        path = self._path(key)
        if os.access(path, os.W_OK):
            try:
                fd = os.open(str(path), os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, f"{value}\n".encode())  # in one write, as proc(5) requires
                finally:
                    os.close(fd)
            except OSError as error:
                return error.strerror
            return None
        if not sudo:
            return "it is read-only for this user"
        try:
            exit_code, text = self._run_command([*sudo, f"{key}={value}"], self.SUDO_S)
        except OperationError as error:
            return str(error)
        return None if exit_code == 0 else text.strip() or "sudo failed"


def same_value(one: Optional[str], other: Optional[str]) -> bool:
    """Return True where two values are equal, with any blanks between their numbers."""
    return one is not None and other is not None and one.split() == other.split()
