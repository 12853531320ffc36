"""The agent's connection to its watchdog, and the lock of the host, which the watchdog holds for one run at a time.

The process that listens on an abstract unix socket (unix(7)) holds the lock. The socket belongs to a network namespace,
which benchkit treats as a host, whatever the user and the work directory. It leaves nothing on disk, the kernel removes
it with its process, and all users see it. The kernel says which process listens (SO_PEERCRED), and the process says for
which run.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import struct
import threading
import time
from typing import List, Optional

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, poll_until
from benchkit.agent.frames import JsonObject, to_json
from benchkit.agent.operations import LockHolder, operation
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


MESSAGE_BYTES = 1 << 20
RENEWAL_S = 1.0
RENEWALS_PER_LEASE = 10
"""Most renewals of a short lease; a longer lease is renewed every `RENEWAL_S` at most: more would change nothing."""
END_HOLDER_S = 45.0
"""Time for another holder to end and to restore its changes."""
LOCK_TIMEOUT_S = 12.0
"""Time to wait for a holder that is restoring its changes: a little longer than a watchdog takes."""


class WatchdogLink:
    """Sends messages to the watchdog; safe for many threads."""

    def __init__(self, control: socket.socket, end_reasons: int, lease_s: float) -> None:
        """Exchange messages over `control`; read the reason to end from `end_reasons`."""
        self._renewal_s = min(RENEWAL_S, (lease_s or RENEWAL_S) / RENEWALS_PER_LEASE)
        self.end_reasons = end_reasons
        self.kept = False
        self._control = control
        self._lock = threading.Lock()
        self._renewed_at = time.monotonic()

    def renew(self) -> None:
        """Renew the lease: the controller sent something."""
        now = time.monotonic()
        if now - self._renewed_at >= self._renewal_s:
            self._renewed_at = now
            # It fails where the watchdog was killed, which `end_reasons` reports, or still has renewals in its queue.
            with contextlib.suppress(OSError):
                self._control.send(b'{"op": "renew"}', socket.MSG_DONTWAIT)

    def reason_to_end(self) -> str:
        """Return the watchdog's reason to end; a watchdog that gives none was killed."""
        return os.read(self.end_reasons, 4096).decode() or "its watchdog was killed"

    @operation(within_s=END_HOLDER_S)
    def lock(self, run: str, host: str, who: str) -> ops.LockResult:
        """Lock this host, by its name in the inventory, for a run of `who`; wait while a holder restores its changes.

        An interrupted run takes over its own host at once, and hosts of one run on one machine share the lock. Raises
        OperationError naming any other holder.
        """
        about = {"run": run, "host": host, "who": who, "since": time.time()}
        holding: Optional[ops.LockHolder] = None
        ended = waited = False
        for _ in poll_until(time.monotonic() + LOCK_TIMEOUT_S, 0.01, 0.2):
            if self._request({"op": "lock", "about": about})["locked"]:
                return ops.LockResult(shared_with=None, waited=waited)
            holding, waited = holder(), True
            if holding is None or holding.state in ("silent", "ending") or ended:
                continue
            if holding.run == run and holding.host != host:
                return ops.LockResult(shared_with=holding.host, waited=False)
            if holding.run != run or holding.uid != os.geteuid():
                break
            ended = True
            end_holder(holding)  # this run's own holder, from before its link was lost
        raise OperationError("held", "this host is in use", describe_holder(holding))

    @operation()
    def keep(self, lease_s: Optional[float] = None) -> None:
        """Keep processes, changes and lock after the agent's end for `lease_s` seconds; None: until `release`."""
        self._request({"op": "keep", "lease_s": lease_s})
        self.kept = True

    @operation(within_s=END_HOLDER_S)
    def release(self) -> Optional[ops.LockHolder]:
        """End the holder of this host, which restores everything: a kept stack, or a run with an expired lease.

        Raises OperationError for a live run, and where the holder cannot be ended.
        """
        holding = holder()
        if holding is None:
            return None
        if holding.state == "running" and not (
            holding.lease_s is not None and (holding.heartbeat_age_s or 0) > holding.lease_s
        ):
            raise OperationError("held", "this host is in use", describe_holder(holding))
        end_holder(holding)
        return holding

    def done(self, *, goodbye: bool, reason: str, undone: List[ops.UndoneChange]) -> None:
        """Report that the agent ends, and which changes it has undone itself."""
        self._request({"op": "done", "goodbye": goodbye, "reason": reason, "undone": undone})

    def _request(self, message: JsonObject) -> JsonObject:
        try:
            with self._lock:
                self._control.send(json.dumps(message, default=to_json).encode())
                packet = self._control.recv(MESSAGE_BYTES)
        except OSError:
            packet = b""
        if not packet:  # `end_reasons` reports it too, and the agent ends
            raise OperationError("closing", "the watchdog of this agent was killed")
        answer: JsonObject = json.loads(packet)
        return answer


def describe_holder(holder: Optional[ops.LockHolder]) -> str:
    """Return who holds a host, since when, and what to do, as a sentence."""
    if holder is None:
        return "another run held it until now; try again"
    if holder.heartbeat_age_s is None:
        process = f"process {holder.pid} of user {holder.uid}" if holder.pid else "a process that is not visible"
        return f"{process} holds it and does not answer; `benchkit hosts restore --take-over` ends it"
    if holder.lease_s is None:
        return f"{holder}, until it is released"
    remaining_s = max(0.0, holder.lease_s - holder.heartbeat_age_s)
    return (
        f"{holder}; last heartbeat {holder.heartbeat_age_s:.0f} s ago; without another one the host is restored and released "
        f"automatically in {remaining_s:.0f} s"
    )
