"""The agent's connection to its watchdog: renewal of the lease, lock of the host, and the report at the agent's end."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import List, Optional

from benchkit.agent import host_lock
from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, poll_until
from benchkit.agent.frames import JsonObject, to_json
from benchkit.agent.operations import operation

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
        holder: Optional[ops.LockHolder] = None
        ended = waited = False
        for _ in poll_until(time.monotonic() + LOCK_TIMEOUT_S, 0.01, 0.2):
            if self._request({"op": "lock", "about": about})["locked"]:
                return ops.LockResult(shared_with=None, waited=waited)
            holder, waited = host_lock.holder(), True
            if holder is None or holder.state in ("silent", "ending") or ended:
                continue
            if holder.run == run and holder.host != host:
                return ops.LockResult(shared_with=holder.host, waited=False)
            if holder.run != run or holder.uid != os.geteuid():
                break
            ended = True
            host_lock.end_holder(holder)  # this run's own holder, from before its link was lost
        raise OperationError("held", "this host is in use", describe_holder(holder))

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
        holder = host_lock.holder()
        if holder is None:
            return None
        if holder.state == "running" and not _has_expired(holder):
            raise OperationError("held", "this host is in use", describe_holder(holder))
        host_lock.end_holder(holder)
        return holder

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


def _has_expired(holder: ops.LockHolder) -> bool:
    return holder.lease_s is not None and (holder.heartbeat_age_s or 0) > holder.lease_s
