"""Programs and messages of the processes of a lab."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Sequence
from typing import IO, Any

_REFUSALS = ("not supported", "not permitted", "permission denied", "Unknown device type")
_BANNER = b"SSH-"
_BANNER_BYTES = 256
"""Enough for a whole banner (RFC 4253, 4.2): closing a socket with unread data would reset the connection."""
_TAIL_BYTES = 1000
_POLL_S = 0.003


def is_refusal(message: str) -> bool:
    """Return True where a program says that the kernel lacks a feature, or forbids its use."""
    return any(words in message for words in _REFUSALS)


class CommandError(Exception):
    """A failed program that a lab needs; its message is what the program printed."""


def run(*argv: str, stdin: str = "") -> None:
    """Run a program. Raises CommandError with the printed error."""
    done = subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        name = os.path.basename(argv[0])  # noqa: PTH119 - no path object for one name
        raise CommandError(f"{name}: {' '.join(done.stderr.split())}")


def run_batch(program: str, lines: Sequence[str]) -> None:
    """Run `ip` or `tc` once with several commands. Raises CommandError with the printed error."""
    run(program, "-batch", "-", stdin="\n".join(lines) + "\n")


def wait_for_banner(address: str, port: int, sshd: subprocess.Popen[bytes], deadline_s: float, log: int) -> None:
    """Wait until an SSH server answers.

    Raises CommandError with the last line of its log, if it ends or takes too long. `log` is the log's file descriptor,
    open for reading.
    """
    deadline = time.monotonic() + deadline_s
    while not answers(address, port, deadline_s):
        if sshd.poll() is not None:
            raise CommandError(f"sshd does not listen on {address} port {port}: {_last_line(log)}")
        if time.monotonic() > deadline:
            raise CommandError(
                f"sshd did not answer on {address} port {port} within {deadline_s:g} s: {_last_line(log)}"
            )
        time.sleep(_POLL_S)


def answers(address: str, port: int, timeout_s: float) -> bool:
    """Return True where an SSH server answers at this address with its banner."""
    try:
        with socket.create_connection((address, port), timeout_s) as connection:
            connection.settimeout(timeout_s)
            return connection.recv(_BANNER_BYTES).startswith(_BANNER)
    except OSError:
        return False


def open_log(path: str) -> int:
    """Open a log file for appending and reading, and return its file descriptor."""
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)


def _last_line(log: int) -> str:
    size = os.fstat(log).st_size
    lines = os.pread(log, _TAIL_BYTES, max(0, size - _TAIL_BYTES)).decode(errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "its log is empty")


def send(message: dict[str, Any]) -> None:
    """Write one message to stdout with a single system call: several processes may share the pipe."""
    os.write(1, json.dumps(message).encode() + b"\n")


def receive(stream: IO[str]) -> dict[str, Any] | None:
    """Return the next message of a stream; None at its end."""
    line = stream.readline()
    message: dict[str, Any] | None = json.loads(line) if line.endswith("\n") else None
    return message


def detach_streams() -> None:
    """Replace stdin and stdout by /dev/null, after the last message."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)
