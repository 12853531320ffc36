"""The lock of a host, for one run at a time: the process that listens on an abstract unix socket holds it.

An abstract socket (unix(7)) belongs to a network namespace, which benchkit treats as a host, whatever the user and the
work directory. It leaves nothing on disk, the kernel removes it with its process, and all users see it. The kernel says
which process listens (SO_PEERCRED), and the process says for which run.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from typing import Optional

from benchkit.agent.common import OperationError, poll_until
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import LockHolder
from benchkit.agent.proc import all_processes, descendants, end_processes, is_running, proc_stat

NAME = "\0benchkit-host"
QUEUE = 1024
"""Connections that wait for an answer; with a full queue the kernel does not say who listens."""
ANSWER_S = 1.0
ANSWER_BYTES = 4096
END_S = 10.0
"""Time for a watchdog to end and to restore everything."""
_CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid


def acquire() -> Optional[socket.socket]:
    """Lock the host for as long as the returned socket is open; return None where another process holds it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(NAME)
    except OSError:
        listener.close()
        return None
    listener.listen(QUEUE)
    listener.settimeout(0)
    return listener


def answer(listener: socket.socket, about: JsonObject) -> None:
    """Answer one request for the holder of the host."""
    try:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(0)
            connection.send(json.dumps(about).encode())
    except OSError:  # it disconnected
        return


def holder() -> Optional[LockHolder]:
    """Return the holder of this host, with its answer if it gives one; None where nothing holds it."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(NAME)
        except ConnectionRefusedError:
            return None
        except OSError:  # its queue is full
            return LockHolder(0, None, "silent")
        pid, uid, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        try:
            return LockHolder(**{"pid": pid, "uid": uid, **json.loads(connection.recv(ANSWER_BYTES))})
        except (OSError, ValueError, TypeError):  # it is stopped, busy with restoring, or no watchdog
            return LockHolder(pid, uid, "silent")


def end_holder(holding: LockHolder) -> None:
    """End the watchdog that holds this host; it restores everything first. Raises OperationError where it does not end.

    A watchdog that does not react is killed with its descendants; its records remain, to be undone later.
    """
    watchdog = proc_stat(holding.pid)
    if watchdog is None:
        if holder() is None:
            return
        raise OperationError(
            "held", "the holder of this host is not visible", "it runs in another container, or as another user"
        )
    try:
        os.kill(watchdog.pid, signal.SIGTERM)
        os.kill(watchdog.pid, signal.SIGCONT)  # a stopped process handles no other signal
    except ProcessLookupError:
        return
    except PermissionError:
        raise OperationError("held", f"process {watchdog.pid} holds this host and belongs to another user") from None
    for _ in poll_until(time.monotonic() + END_S):
        if not is_running(watchdog.pid, watchdog.start):
            return
    processes = [watchdog, *descendants(watchdog.pid, all_processes())]
    failures = end_processes(lambda: [each for each in processes if is_running(each.pid, each.start)], grace_s=0)
    if failures:
        raise OperationError("held", "the holder of this host does not end", "; ".join(failures))
