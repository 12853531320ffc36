"""Programs that the processes of a lab run: `ip` and `tc` in batches, and sshd with its log."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Sequence

_REFUSALS = ("not supported", "not permitted", "Unknown device type")
_UNKNOWN_QDISC = ("Specified qdisc kind is unknown", "RTNETLINK answers: No such file or directory")
_BANNER = b"SSH-"
_BANNER_BYTES = 256
"""At least a whole banner (RFC 4253, 4.2): closing a socket with unread data would reset the connection."""
_TAIL_BYTES = 1000
_POLL_S = 0.003


class CommandError(Exception):
    """Failure of a program that a lab needs; `refused` where the kernel lacks the feature or forbids its use."""

    def __init__(self, what: str, *, refused: bool = False) -> None:
        """Create the error; `what` is one sentence with the failure and its reason."""
        super().__init__(what)
        self.refused = refused


def run_batch(program: str, lines: Sequence[str]) -> None:
    """Run `ip` or `tc` once with several commands. Raises CommandError with the error that it printed."""
    completed = subprocess.run(
        [program, "-batch", "-"], input="\n".join(lines) + "\n", capture_output=True, text=True, check=False
    )
    if completed.returncode != 0:
        why = " ".join(completed.stderr.split())
        raise CommandError(
            f"{os.path.basename(program)}: {why}",  # noqa: PTH119 - no path object for one name
            refused=any(words in completed.stderr for words in _REFUSALS),
        )


def cap_link(program: str, commands: Sequence[str]) -> bool:
    """Limit the rate of a link with `tc`; return False where this kernel lacks the queueing discipline."""
    try:
        run_batch(program, commands)
    except CommandError as error:
        if any(words in str(error) for words in _UNKNOWN_QDISC):
            return False
        raise
    return True


def wait_for_banner(address: str, port: int, sshd: subprocess.Popen[bytes], deadline_s: float, log: int) -> None:
    """Wait until an SSH server answers.

    Raises CommandError, with the last line of its log, if it ends or takes too long. `log` is a file descriptor of its
    log, open for reading.
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
    """Return whether an SSH server answers here with its banner."""
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
