"""Kernel settings: read, written with a record of what they were, and put back."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Callable, Dict, List, Optional, Tuple

from benchkit.agent.common import RefusedError, read_text
from benchkit.agent.frames import Json
from benchkit.agent.records import Records

Ask = Callable[[List[str], float], Tuple[Optional[int], str]]
"""Runs a command for so many seconds at most: its exit code, None where it did not end, and what it printed."""


class Sysctls:
    """Kernel settings: read, written with a record of what they were, and put back."""

    ROOT = "/proc/sys"
    SUDO_S = 10.0

    def __init__(self, records: Records, ask: Ask) -> None:
        self._records = records
        self._ask = ask
        self._lock = threading.Lock()

    def read(self, *, keys: List[str]) -> Json:
        """Each key's state ("present", "absent", "unreadable"), value, and whether this user may write it."""
        return {"sysctls": {key: self._look(key) for key in keys}}

    def write(self, *, values: Dict[str, str], sudo: Optional[List[str]] = None) -> Json:
        """Set keys in the given order; what they were is on disk before the first is touched.

        `sudo` is a command that writes what this user may not, with `key=value` after it.

        Outcomes: "applied", "already", "absent", "unreadable", "read-only", "refused" (by the kernel or by sudo, with
        the reason), "differs" (the kernel made something else of it).
        """
        with self._lock:
            before = {key: self._look(key) for key in values}
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
            record = self._records.note("sysctl", {"former": former, "written": wanted, "sudo": sudo})
            for key, value in wanted.items():
                why = self._set(key, value, sudo)
                now = self._look(key)["value"]
                outcome = "refused" if why else "applied" if same_value(now, value) else "differs"
                outcomes[key] = {"outcome": outcome, "former": former[key], "value": now, "why": why}
            if all(same_value(outcomes[key]["value"], former[key]) for key in former):
                self._records.drop(record)
            return {"outcomes": {key: outcomes[key] for key in values}}

    def restore(self, record: Json) -> List[str]:
        """Put back what a record says, last first, and read it back; what could not be, for people."""
        failures = []
        with self._lock:
            for key, value in reversed(list(record["former"].items())):
                if same_value(self._look(key)["value"], value):
                    continue
                why = self._set(key, value, record["sudo"])
                now = self._look(key)["value"]
                if not same_value(now, value):
                    failures.append(f"{key} is {now!r} and should be {value!r}: {why or 'the kernel did not take it'}")
        return failures

    def _path(self, key: str) -> Path:
        """As sysctl(8): where the first separator is a dot, dots and slashes change places."""
        dot, slash = key.find("."), key.find("/")
        if slash < 0 or 0 <= dot < slash:
            key = key.translate({ord("."): "/", ord("/"): "."})
        path = os.path.normpath(f"{self.ROOT}/{key}")
        if "\0" in key or not path.startswith(f"{self.ROOT}/"):
            raise RefusedError("bad-request", f"{key!r} is no sysctl")
        return Path(path)

    def _look(self, key: str) -> Json:
        path = self._path(key)
        if not path.is_file():
            return {"state": "absent", "value": None, "writable": False}
        value = read_text(str(path))
        writable = os.access(path, os.W_OK)
        return {"state": "unreadable" if value is None else "present", "value": value, "writable": writable}

    def _set(self, key: str, value: str, sudo: Optional[List[str]]) -> Optional[str]:
        """Write a value; why it could not be, if so."""
        path = self._path(key)
        if os.access(path, os.W_OK):
            try:
                fd = os.open(str(path), os.O_WRONLY | os.O_CLOEXEC)
                try:
                    os.write(fd, f"{value}\n".encode())  # in one write, as proc(5) wants it
                finally:
                    os.close(fd)
            except OSError as error:
                return error.strerror
            return None
        if not sudo:
            return "it is read-only for this user"
        try:
            exit_code, text = self._ask([*sudo, f"{key}={value}"], self.SUDO_S)
        except RefusedError as error:
            return f"{error.what}: {error.why}"
        return None if exit_code == 0 else text.strip() or "sudo failed"


def same_value(one: Optional[str], other: Optional[str]) -> bool:
    """Whether two values are one to the kernel, which separates numbers by tabs."""
    return one is not None and other is not None and one.split() == other.split()
