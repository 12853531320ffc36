"""Settings of the login's own go command, as `go env -w` makes them, and as they were before."""

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
    """Writes settings of the go command, with a record of what they were."""

    ASK_S = 10.0

    def __init__(self, records: Records, processes: Processes) -> None:
        self._records = records
        self._processes = processes

    def write(self, *, go: str, values: Dict[str, str]) -> Json:
        """Have `go env -w` make these settings; they are put back with the agent's end, or with that of what it keeps."""
        file = self._ask([go, "env", "GOENV"]).strip()
        if not file or file == "off":
            raise RefusedError("denied", "the go command has no file for its settings", f"GOENV is {file!r}")
        before = settings(file)
        was = {name: (before or {}).get(name) for name in values}
        record = {"file": file, "was": was, "there": before is not None}
        path = self._records.note("go-settings", record)
        try:
            self._ask([go, "env", "-w", *(f"{name}={value}" for name, value in values.items())])
        except RefusedError:
            self._records.drop(path)
            raise
        return {"file": file, "was": was}

    def _ask(self, argv: List[str]) -> str:
        code, text = self._processes.ask(Command(argv, {"GOTOOLCHAIN": "local", "GOFLAGS": None}), self.ASK_S)
        if code != 0:
            raise RefusedError("failed", f"`{' '.join(argv[:3])}` failed", text.strip() or f"exit code {code}")
        return text


def settings(file: str) -> Optional[Dict[str, str]]:
    """The settings in a file of the go command's; None where there is none."""
    content = read_bytes(file)
    if content is None:
        return None
    lines = content.decode(errors="surrogateescape").splitlines()
    return dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))


def restore(record: Json) -> List[str]:
    """Put back what a record says, line by line, so that what was set since stays; what is not as it was, for people."""
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
        return [f"{file} could not be put back: {error.strerror}"]
    now = settings(str(file)) or {}
    return [f"{name} in {file} is not what it was" for name, value in record["was"].items() if now.get(name) != value]
