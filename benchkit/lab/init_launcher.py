"""Start of a lab's init process, and the messages exchanged with it until the lab is ready.

Until it receives the message to stay, the process ends when this side of its pipes is closed: a killed `up` leaves no
process running.
"""

from __future__ import annotations

import json
import os
import selectors
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from benchkit.errors import HostError
from benchkit.lab.programs import clean_environment

START_DEADLINE_S = 15.0
_PACKAGES = Path(__file__).parents[2]
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from benchkit.lab.inside.start import main; main()"
_CHUNK = 1 << 16


class NotPermittedError(HostError):
    """The kernel, or the container around this process, does not allow namespaces."""


def init_command(mark: str) -> list[str]:
    """Return the command of an init process: Python's standard library only, without the caller's environment."""
    return [sys.executable, "-I", "-S", "-c", _BOOT, str(_PACKAGES), mark]


class InitLauncher:
    """An init process that is being started; a context manager that closes its pipes at the end."""

    def __init__(self, mark: str, config: Mapping[str, Any], log: Path) -> None:
        """Start the process with `config` as its first message; `log` is the file for its stderr and its children's."""
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                init_command(mark),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                cwd="/",
                env=clean_environment({}),
                start_new_session=True,
            )
        self._log = log
        self._deadline = time.monotonic() + START_DEADLINE_S
        self._received = b""
        self.send(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait(START_DEADLINE_S)  # it has forked the lasting process, or reached the end of stdin

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises HostError where the process has ended."""
        if self._process.stdin is None:
            raise TypeError("the process has no pipe")
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None

    def receive(self) -> dict[str, Any]:
        """Return the next message.

        Raises NotPermittedError or HostError for a message of failure, and after the deadline.
        """
        while b"\n" not in self._received:
            chunk = self._read()
            if not chunk:
                raise self._ended()
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "failed" in message:
            kind = NotPermittedError if message["refused"] else HostError
            raise kind("the lab did not start", where="this machine", why=message["failed"])
        return message

    def _read(self) -> bytes:
        stdout = self._process.stdout
        if stdout is None:
            raise TypeError("the process has no pipe")
        with selectors.DefaultSelector() as selector:
            selector.register(stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, self._deadline - time.monotonic())):
                raise HostError(
                    f"the lab was not ready within {START_DEADLINE_S:g} s",
                    where="this machine",
                    why=self._last_log_line(),
                )
        return os.read(stdout.fileno(), _CHUNK)

    def _ended(self) -> HostError:
        return HostError("the lab's init process ended", where="this machine", why=self._last_log_line())

    def _last_log_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"
