"""The lock of a host, for one run at a time: the process that listens on an abstract unix socket holds it.

An abstract socket (unix(7)) belongs to a network namespace, which benchkit treats as a host, whatever the user and the
work directory. It leaves nothing on disk, the kernel removes it with its process, and all users see it.

Any user can listen on such a name, so the kernel's word decides who holds the host (SO_PEERCRED). A process of root or
of this user holds it, whatever it answers. A process of another user holds it if it answers as benchkit does. If it is
silent, it holds the host for a while, because it may be a watchdog that restores changes. Any other occupant of a name
is no holder: the next name is then the lock. A user who speaks the protocol can hold the host, as by running benchkit;
messages name that user by pid and uid.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import time
from typing import Iterable, List, Optional

from benchkit.agent.common import OperationError, poll_until
from benchkit.agent.frames import JsonObject
from benchkit.agent.operations import LockHolder
from benchkit.agent.proc import all_processes, descendants, end_processes, is_running, proc_stat

NAMES = ("\0benchkit-host", *(f"\0benchkit-host.{number}" for number in range(1, 8)))
"""Names of the lock, in this order; a name that a process occupies without holding the host is skipped."""
QUEUE = 1024
"""Connections that wait for an answer; with a full queue the kernel does not say who listens."""
ANSWER_S = 1.0
OTHERS_ANSWER_S = 0.3
"""Time for a process of another user to answer: a watchdog takes less than a millisecond."""
ANSWER_BYTES = 4096
END_S = 10.0
"""Time for a watchdog to end and to restore everything."""
MAX_TEXT = 200
MAX_NUMBER = 1e10
"""Largest number in an answer: as seconds since 1970 it is the year 2286."""
_TEXTS = frozenset({"run", "host", "who", "state"})
_FIELDS = _TEXTS | {"since", "lease_s", "heartbeat_age_s"}
"""Fields of a holder's answer, shared with other versions of benchkit; see `LockHolder`."""
_TRUSTED = frozenset({0, os.geteuid()})
"""Users whose processes hold the host whatever they answer."""
_CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid


def acquire(*, ignore_silent: bool = False) -> Optional[socket.socket]:
    """Lock the host for as long as the returned socket is open; return None where another process holds it.

    `ignore_silent`: a silent process of another user is no holder.
    """
    for name in NAMES:
        listener = _listen(name)
        if listener is not None:
            if _holder_at([each for each in NAMES if each != name], ignore_silent) is None:
                return listener
            listener.close()
            return None
        if _holder_at([name], ignore_silent) is not None:
            return None
    return None


def _listen(name: str) -> Optional[socket.socket]:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(name)
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
    except OSError:  # disconnected meanwhile
        return
    with connection:
        connection.settimeout(0)
        try:
            connection.send(json.dumps(about).encode())
        except OSError:  # it disconnected
            return


def holder(*, ignore_silent: bool = False) -> Optional[LockHolder]:
    """Return the holder of this host; None where nothing holds it. `ignore_silent` as in `acquire`."""
    return _holder_at(NAMES, ignore_silent)


def occupants() -> List[str]:
    """Describe the processes that occupy names of the lock without holding the host."""
    found = filter(None, map(_ask, NAMES))
    return [f"process {each.pid} of user {each.uid}" for each in found if not _is_holder(each, ignore_silent=True)]


def _holder_at(names: Iterable[str], ignore_silent: bool) -> Optional[LockHolder]:  # noqa: FBT001 - passed on
    return next((each for each in map(_ask, names) if each and _is_holder(each, ignore_silent=ignore_silent)), None)


def _is_holder(process: LockHolder, *, ignore_silent: bool) -> bool:
    return process.uid in _TRUSTED or process.run is not None or not ignore_silent


def _ask(name: str) -> Optional[LockHolder]:
    """Return the process that listens on a name, with its answer if valid; None where no process listens."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as connection:
        connection.settimeout(ANSWER_S)
        try:
            connection.connect(name)
        except ConnectionRefusedError:
            return None
        except OSError:  # its queue is full
            return LockHolder(0, None, "silent")
        pid, uid, _ = _CREDENTIALS.unpack(
            connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        )
        if uid not in _TRUSTED:
            connection.settimeout(OTHERS_ANSWER_S)
        try:
            message = json.loads(connection.recv(ANSWER_BYTES))
        except (OSError, ValueError, RecursionError):  # RecursionError: many nested brackets
            message = None
        return LockHolder(**{"pid": pid, "uid": uid, "state": "silent", **_valid(message)})


def _valid(message: object) -> JsonObject:
    """Return a holder's answer if it is valid, else {}: another user's process may have sent anything."""
    if not isinstance(message, dict) or set(message) != _FIELDS:
        return {}
    for name, value in message.items():
        is_text = name in _TEXTS and isinstance(value, str) and value.isprintable() and len(value) <= MAX_TEXT
        is_number = name not in _TEXTS and type(value) in (int, float) and 0 <= value <= MAX_NUMBER
        if not (is_text or is_number or (name == "lease_s" and value is None)):
            return {}
    return message


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
