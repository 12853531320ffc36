"""One run at a time: the host is held by whoever listens at a name that lives and dies with its process.

The name is an abstract socket (unix(7)): it belongs to the network namespace, which is what benchkit takes for a host,
whatever user and work directory come; it leaves nothing on a disk, and the kernel takes it back from the dead.
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
from benchkit.agent.proc import all_processes, below, end_processes, is_running, proc_stat

NAME = "\0benchkit-host"
ANSWER_S = 1.0
ANSWER_BYTES = 4096
END_S = 10.0
"""A guardian that is asked to end has put everything back well within this."""
LONGEST = 200
_TEXTS = frozenset({"run", "host", "who", "state"})
_FIELDS = _TEXTS | {"since", "lease_s", "heard_s"}
_CREDENTIALS = struct.Struct("iII")  # struct ucred of unix(7): pid, uid, gid


def take() -> Optional[socket.socket]:
    """Hold the host for as long as the socket is open; None where another process holds it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(NAME)
    except OSError:
        listener.close()
        return None
    listener.listen(16)
    listener.settimeout(0)
    return listener


def tell(listener: socket.socket, about: Json) -> None:
    """Answer whoever asks who holds the host."""
    try:
        asking, _ = listener.accept()
    except OSError:  # hung up meanwhile
        return
    with asking:
        asking.settimeout(0)
        try:
            asking.send(json.dumps(about).encode())
        except OSError:  # likewise
            return


def holder() -> Optional[Json]:
    """Who holds this host: `pid`, `uid`, and in its own words `run`, `host`, `who`, `since`, `lease_s`, `heard_s`, `state`.

    None where nobody does. `state` is "running", "ending" where its agent has died just now, "kept" for a stack that stays
    up without one, "silent" where it does not answer: it is stopped, or busy putting things back.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as asking:
        asking.settimeout(ANSWER_S)
        try:
            asking.connect(NAME)
        except ConnectionRefusedError:
            return None
        except OSError:  # its queue is full: it does not answer anybody
            return {"pid": 0, "uid": None, "state": "silent"}
        pid, uid, _ = _CREDENTIALS.unpack(asking.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        found: Json = {"pid": pid, "uid": uid, "state": "silent"}
        try:
            said = json.loads(asking.recv(ANSWER_BYTES))
        except (OSError, ValueError):
            return found
        return {**found, **_understood(said)}


def _understood(said: object) -> Json:
    """What a holder says of itself, if it is one of ours: another user could listen at the name."""
    if not isinstance(said, dict) or set(said) != _FIELDS:
        return {}
    for name, value in said.items():
        text = name in _TEXTS and isinstance(value, str) and value.isprintable() and len(value) <= LONGEST
        number = name not in _TEXTS and isinstance(value, (int, float))
        if not (text or number or (name == "lease_s" and value is None)):
            return {}
    return said


def end_holder(found: Json) -> None:
    """End the guardian that holds this host; it puts back what it guards. Raises RefusedError where it does not go.

    One that does not react is killed with all below it; its records are left to be undone.
    """
    guardian = proc_stat(found["pid"])
    if guardian is None:
        if holder() is None:
            return
        raise RefusedError(
            "held", "who holds this host is out of sight", "it runs in another container, or as another user"
        )
    try:
        os.kill(guardian.pid, signal.SIGTERM)
        os.kill(guardian.pid, signal.SIGCONT)  # what is stopped takes no other signal
    except ProcessLookupError:
        return
    except PermissionError:
        raise RefusedError("held", f"process {guardian.pid} holds this host and is another user's") from None
    for _ in poll_until(time.monotonic() + END_S):
        if not is_running(guardian.pid, guardian.start):
            return
    family = [guardian, *below(guardian.pid, all_processes())]
    failures = end_processes(lambda: [each for each in family if is_running(each.pid, each.start)], grace_s=0)
    if failures:
        raise RefusedError("held", "who holds this host does not end", "; ".join(failures))
