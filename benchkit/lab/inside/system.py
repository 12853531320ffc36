"""System calls, programs and messages of the processes of a lab.

Python 3.11 has no functions for the namespaces of Linux (`os.unshare` came with 3.12).
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

# Values of linux/sched.h, sys/mount.h and linux/prctl.h; they are part of the kernel's stable interface.
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_BIND = 0x1000
MS_REC = 0x4000
MS_MOVE = 0x2000
MS_SLAVE = 0x80000
_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = (ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p)

_REFUSALS = ("not supported", "not permitted", "Unknown device type")
_UNKNOWN_QDISC = ("Specified qdisc kind is unknown", "RTNETLINK answers: No such file or directory")
_BANNER = b"SSH-"
_BANNER_BYTES = 256
"""Enough for a whole banner (RFC 4253, 4.2): closing a socket with unread data would reset the connection."""
_TAIL_BYTES = 1000
_POLL_S = 0.003


class KernelRefusalError(OSError):
    """The kernel refused a system call that a lab with namespaces needs."""


def unshare(flags: int, what: str) -> None:
    """Move this process to new namespaces of the kinds in `flags`. Raises KernelRefusalError naming `what`."""
    if _libc.unshare(ctypes.c_int(flags)) != 0:
        _refused(f"cannot create namespaces for {what}")


def mount(source: str, target: str | Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    """Mount a file system or a part of one. Raises KernelRefusalError naming the target."""
    encoded_kind = None if kind is None else kind.encode()
    if _libc.mount(os.fsencode(source), os.fsencode(target), encoded_kind, flags, options.encode() or None) != 0:
        _refused(f"cannot mount {target}")


def unmount(target: str | Path) -> None:
    """Unmount a mount point and all below it in this namespace, if it exists. Raises KernelRefusalError naming it."""
    if _libc.umount2(os.fsencode(target), _MNT_DETACH) != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.ENOENT):
        _refused(f"cannot unmount {target}")


def set_parent_death_signal(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    if _libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0) != 0:
        _refused("cannot bind a process to its parent")
    if os.getppid() != parent:  # the parent ended before the call
        os._exit(1)


def _refused(what: str) -> None:
    number = ctypes.get_errno()
    raise KernelRefusalError(number, f"{what}: {os.strerror(number)}")


class CommandError(Exception):
    """A failed program that a lab needs; `refused` where the kernel lacks the feature or forbids its use."""

    def __init__(self, what: str, *, refused: bool = False) -> None:
        super().__init__(what)
        self.refused = refused


def run_batch(program: str, lines: Sequence[str]) -> None:
    """Run `ip` or `tc` once with several commands. Raises CommandError with the printed error."""
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
