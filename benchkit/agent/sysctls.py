"""Kernel settings: read, written with a record of their former values, and restored."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from benchkit.agent.common import RefusedError, read_text
from benchkit.agent.frames import Json
from benchkit.agent.records import Records

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

    def read(self, *, keys: List[str]) -> Json:
        """Return the state of each key ("present", "absent", "unreadable"), its value, and whether it is writable."""
        return {"sysctls": {key: self._read(key) for key in keys}}

    def write(self, *, values: Dict[str, str], sudo: Optional[List[str]] = None, scope: Optional[str] = None) -> Json:
        """Set keys in the given order; their former values are on disk before the first is written.

        `sudo` is a command that writes where this user may not; `key=value` is added to it. Changes with a `scope` can
        be restored before the others.

        Outcomes: "applied", "already", "absent", "unreadable", "read-only", "refused" (by the kernel or by sudo, with
        the reason), "differs" (the kernel stored another value).
        """
        with self._lock:
            before = {key: self._read(key) for key in values}
            outcomes: Dict[str, Json] = {}
            former: Dict[str, str] = {}
            for key, value in values.items():
                found = before[key]
                if found["state"] != "present":
                    outcomes[key] = {"outcome": found["state"], "former": None, "value": None, "why": None}
                elif same_value(found["value"], value):
                    outcomes[key] = {
                        "outcome": "already",
                        "former": found["value"],
                        "value": found["value"],
                        "why": None,
                    }
                elif not found["writable"] and not sudo:
                    outcomes[key] = {
                        "outcome": "read-only",
                        "former": found["value"],
                        "value": found["value"],
                        "why": None,
                    }
                else:
                    former[key] = found["value"]
            if not former:
                return {"outcomes": outcomes}
            wanted = {key: values[key] for key in former}
            change = {"former": former, "sudo": sudo, "scope": scope}
            record = self._records.note("sysctl", {**change, "written": wanted})
            for key, value in wanted.items():
                why = self._set(key, value, sudo)
                now = self._read(key)["value"]
                outcome = "refused" if why else "applied" if same_value(now, value) else "differs"
                outcomes[key] = {"outcome": outcome, "former": former[key], "value": now, "why": why}
            stored = {key: self._read(key)["value"] for key in former}
            if all(same_value(stored[key], former[key]) for key in former):
                self._records.drop(record)
            elif any(not same_value(stored[key], wanted[key]) for key in former):
                self._records.note("sysctl", {**change, "written": stored}, path=record)
            return {"outcomes": {key: outcomes[key] for key in values}}

    def restore(self, record: Json) -> List[str]:
        """Restore the former values of a record, the last first, and verify them; return failures.

        A setting that no longer has the value that was written stays; see `changed_by_others`.
        """
        failures = []
        with self._lock:
            for key, value in reversed(list(record["former"].items())):
                if not same_value(self._read(key)["value"], record["written"][key]):
                    continue
                why = self._set(key, value, record["sudo"])
                now = self._read(key)["value"]
                if not same_value(now, value):
                    failures.append(f"{key} is {now!r} and should be {value!r}: {why or 'the kernel ignored it'}")
        return failures

    def changed_by_others(self, record: Json) -> List[str]:
        """Return the settings of a record that somebody else has changed since, as sentences."""
        sentences = []
        for key, former in record["former"].items():
            now, written = self._read(key)["value"], record["written"][key]
            if not same_value(now, written) and not same_value(now, former):
                sentences.append(
                    f"{key} is {now!r}: somebody else changed it after benchkit had set it to {written!r}, so it stays; "
                    f"it was {former!r} before"
                )
        return sentences

    def _path(self, key: str) -> Path:
        """Return the path of a key, as sysctl(8): where the first separator is a dot, dots and slashes are swapped."""
        dot, slash = key.find("."), key.find("/")
        if slash < 0 or 0 <= dot < slash:
            key = key.translate({ord("."): "/", ord("/"): "."})
        path = os.path.normpath(f"{self.ROOT}/{key}")
        if "\0" in key or not path.startswith(f"{self.ROOT}/"):
            raise RefusedError("bad-request", f"{key!r} is no sysctl")
        return Path(path)

    def _read(self, key: str) -> Json:
        path = self._path(key)
        if not path.is_file():
            return {"state": "absent", "value": None, "writable": False}
        value = read_text(str(path))
        writable = os.access(path, os.W_OK)
        return {"state": "unreadable" if value is None else "present", "value": value, "writable": writable}

    def _set(self, key: str, value: str, sudo: Optional[List[str]]) -> Optional[str]:
        """Write a value; return the reason of a failure."""
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
        except RefusedError as error:
            return f"{error.what}: {error.why}"
        return None if exit_code == 0 else text.strip() or "sudo failed"


def same_value(one: Optional[str], other: Optional[str]) -> bool:
    """Return True where two values are equal, with any blanks between their numbers."""
    return one is not None and other is not None and one.split() == other.split()
