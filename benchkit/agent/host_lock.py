"""The lock of a host, for one run at a time: the process that listens on an abstract unix socket holds it.

An abstract socket (unix(7)) belongs to the network namespace, which is what benchkit treats as a host, whatever the user
and the work directory. It leaves nothing on disk, and the kernel removes it with its process.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from typing import Optional

from benchkit.agent.common import RefusedError, poll_until
from benchkit.agent.frames import Json
from benchkit.agent.proc import all_processes, descendants, end_processes, is_running, proc_stat

NAME = "\0benchkit-host"
ANSWER_S = 1.0
ANSWER_BYTES = 4096
END_S = 10.0
"""Time for a watchdog to end and to restore everything."""
MAX_TEXT = 200
_TEXTS = frozenset({"run", "host", "who", "state"})
_FIELDS = _TEXTS | {"since", "lease_s", "heard_s"}
"""Fields of a holder's answer, shared with other versions of benchkit; `heard_s` is the age of the last heartbeat."""
_CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid


def take() -> Optional[socket.socket]:
    """Lock the host for as long as the returned socket is open; return None where another process holds it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(NAME)
    except OSError:
        listener.close()
        return None
    listener.listen(16)
    listener.settimeout(0)
    return listener


def answer(listener: socket.socket, about: Json) -> None:
    """Answer one request for the holder of the host."""
    try:
        connection, _ = listener.accept()
    except OSError:  # disconnected meanwhile
        return
    with connection:
        connection.settimeout(0)
        try:
            connection.send(json.dumps(about).encode())
        except OSError:  # likewise
            return


def holder() -> Optional[Json]:
    """Return the holder of this host: `pid`, `uid`, and from its answer the `_FIELDS`; None where nothing holds it.

    `state` is "running", "ending" where its agent has just ended, "kept" for a stack that stays up without an agent, or
    "silent" for a process that does not answer: it is stopped, or busy restoring changes.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(NAME)
        except ConnectionRefusedError:
            return None
        except OSError:  # its queue is full
            return {"pid": 0, "uid": None, "state": "silent"}
        pid, uid, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        process: Json = {"pid": pid, "uid": uid, "state": "silent"}
        try:
            message = json.loads(connection.recv(ANSWER_BYTES))
        except (OSError, ValueError):
            return process
        return {**process, **_valid(message)}


def _valid(message: object) -> Json:
    """Return a holder's answer if it is valid, else nothing: another user could listen on the socket."""
    if not isinstance(message, dict) or set(message) != _FIELDS:
        return {}
    for name, value in message.items():
        is_text = name in _TEXTS and isinstance(value, str) and value.isprintable() and len(value) <= MAX_TEXT
        is_number = name not in _TEXTS and isinstance(value, (int, float))
        if not (is_text or is_number or (name == "lease_s" and value is None)):
            return {}
    return message


def end_holder(holding: Json) -> None:
    """End the watchdog that holds this host, which restores everything. Raises RefusedError where it does not end.

    One that does not react is killed with its descendants; its records remain, to be undone.
    """
    watchdog = proc_stat(holding["pid"])
    if watchdog is None:
        if holder() is None:
            return
        raise RefusedError(
            "held", "the holder of this host is not visible", "it runs in another container, or as another user"
        )
    try:
        os.kill(watchdog.pid, signal.SIGTERM)
        os.kill(watchdog.pid, signal.SIGCONT)  # a stopped process handles no other signal
    except ProcessLookupError:
        return
    except PermissionError:
        raise RefusedError("held", f"process {watchdog.pid} holds this host and belongs to another user") from None
    for _ in poll_until(time.monotonic() + END_S):
        if not is_running(watchdog.pid, watchdog.start):
            return
    processes = [watchdog, *descendants(watchdog.pid, all_processes())]
    failures = end_processes(lambda: [each for each in processes if is_running(each.pid, each.start)], grace_s=0)
    if failures:
        raise RefusedError("held", "the holder of this host does not end", "; ".join(failures))
