"""Settings of the user's go command: written with `go env -w`, and restored."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Dict, List, Optional

from benchkit.agent.common import RefusedError, read_bytes, write_synced
from benchkit.agent.frames import Json
from benchkit.agent.launch import Command
from benchkit.agent.processes import Processes
from benchkit.agent.records import Records


class GoEnv:
    """Writes settings of the go command, with a record of their former values."""

    COMMAND_TIMEOUT_S = 10.0

    def __init__(self, records: Records, processes: Processes) -> None:
        self._records = records
        self._processes = processes

    def write(self, *, go: str, values: Dict[str, str]) -> Json:
        """Write settings with `go env -w`; they are restored when the agent ends, or when a kept stack is released."""
        file = self._run([go, "env", "GOENV"]).strip()
        if not file or file == "off":
            raise RefusedError("denied", "the go command has no file for its settings", f"GOENV is {file!r}")
        before = settings(file)
        was = {name: (before or {}).get(name) for name in values}
        record = {"file": file, "was": was, "there": before is not None}
        path = self._records.note("go-settings", record)
        try:
            self._run([go, "env", "-w", *(f"{name}={value}" for name, value in values.items())])
        except RefusedError:
            self._records.drop(path)
            raise
        return {"file": file, "was": was}

    def _run(self, argv: List[str]) -> str:
        code, text = self._processes.run_for_agent(
            Command(argv, {"GOTOOLCHAIN": "local", "GOFLAGS": None}), self.COMMAND_TIMEOUT_S
        )
        if code != 0:
            raise RefusedError("failed", f"`{' '.join(argv[:3])}` failed", text.strip() or f"exit code {code}")
        return text


def settings(file: str) -> Optional[Dict[str, str]]:
    """Return the settings in a file of the go command; None where it does not exist."""
    content = read_bytes(file)
    if content is None:
        return None
    lines = content.decode(errors="surrogateescape").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def restore(record: Json) -> List[str]:
    """Restore the settings of a record, line by line, so that later settings stay; return failures."""
    file = Path(record["file"])
    content = read_bytes(str(file))
    lines = [] if content is None else content.decode(errors="surrogateescape").splitlines()
    kept = [line for line in lines if line.split("=", 1)[0] not in record["was"]]
    kept += [f"{name}={value}" for name, value in record["was"].items() if value is not None]
    try:
        if kept or record["there"]:
            write_synced(file, "".join(f"{line}\n" for line in sorted(kept)).encode(errors="surrogateescape"))
        else:
            with contextlib.suppress(FileNotFoundError):
                file.unlink()
    except OSError as error:
        return [f"{file} could not be restored: {error.strerror}"]
    now = settings(str(file)) or {}
    return [
        f"{name} in {file} does not have its former value"
        for name, value in record["was"].items()
        if now.get(name) != value
    ]
