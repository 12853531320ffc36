"""What the processes of a lab say to each other, and how they run `ip` and `tc`."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import IO, Any

_REFUSALS = ("not supported", "not permitted", "Unknown device type")
_UNKNOWN_QDISC = ("Specified qdisc kind is unknown", "RTNETLINK answers: No such file or directory")
_BANNER = b"SSH-"
_LINE = 256
"""At least a whole banner (RFC 4253, 4.2), so that nothing unread turns our goodbye into a reset."""
_TAIL = 1000
_POLL_S = 0.003


class CommandError(Exception):
    """A program that a lab needs failed; `refused` where the kernel lacks the feature or forbids its use."""

    def __init__(self, what: str, *, refused: bool = False) -> None:
        """Take what failed and why, in one sentence."""
        super().__init__(what)
        self.refused = refused


def say(message: dict[str, Any]) -> None:
    """Put one message on stdout, in one write: several processes may share the pipe."""
    os.write(1, json.dumps(message).encode() + b"\n")


def receive(stream: IO[str]) -> dict[str, Any] | None:
    """The next message of a stream, or None at its end."""
    line = stream.readline()
    message: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
    return message


def release_streams() -> None:
    """Let go of stdin and stdout: from here on nobody is at their other end."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


def batch(program: str, lines: Sequence[str]) -> None:
    """Run `ip` or `tc` once over several commands. Raises CommandError with what it printed."""
    done = subprocess.run(
        [program, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        why = " ".join(done.stderr.split())
        raise CommandError(
            f"{os.path.basename(program)}: {why}",  # noqa: PTH119 - no path object for one name
            refused=any(words in done.stderr for words in _REFUSALS),
        )


def cap_link(program: str, commands: Sequence[str]) -> bool:
    """Cap a link by `tc`; False where this kernel does not have the queueing discipline."""
    try:
        batch(program, commands)
    except CommandError as error:
        if any(words in str(error) for words in _UNKNOWN_QDISC):
            return False
        raise
    return True


def wait_for_banner(address: str, port: int, sshd: subprocess.Popen[bytes], deadline_s: float, log: int) -> None:
    """Return once an SSH server answers. Raises CommandError, with the last it logged, when it ends or takes too long.

    `log` is its log file, open for reading.
    """
    deadline = time.monotonic() + deadline_s
    while not answers(address, port, deadline_s):
        if sshd.poll() is not None:
            raise CommandError(f"sshd does not listen on {address} port {port}: {_last_line(log)}")
        if time.monotonic() > deadline:
            raise CommandError(f"sshd did not answer on {address} port {port} in {deadline_s:g} s: {_last_line(log)}")
        time.sleep(_POLL_S)


def open_log(path: str) -> int:
    """A log file to append to, and to read from."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def _last_line(log: int) -> str:
    size = os.fstat(log).st_size
    lines = os.pread(log, _TAIL, max(0, size - _TAIL)).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "it logged nothing")


def answers(address: str, port: int, timeout_s: float) -> bool:
    """Whether an SSH server answers here with its banner."""
    try:
        with socket.create_connection((address, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            return connection.recv(_LINE).startswith(_BANNER)
    except OSError:
        return False
