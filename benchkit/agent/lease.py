"""The agent's side of its guardian: the lease renewed, the host held, what is to stay kept, and the end told."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from typing import List, Optional

from benchkit.agent import host_lock
from benchkit.agent.common import RefusedError, poll_until
from benchkit.agent.frames import Json

MESSAGE_BYTES = 1 << 20
BEAT_S = 1.0
BEATS_A_LEASE = 10
"""A lease need not be renewed more often than that, whichever is shorter."""
WAIT_S = 12.0
"""How long a host is waited for that is being put back: what a guardian takes at most, and a little."""


class Lease:
    """Speaks to the guardian; safe for many threads."""

    def __init__(self, control: socket.socket, notices: int, lease_s: float) -> None:
        """`control` carries messages both ways; what comes out of `notices` is why the agent has to end."""
        self._beat_s = min(BEAT_S, (lease_s or BEAT_S) / BEATS_A_LEASE)
        self.notices = notices
        self.kept = False
        self._control = control
        self._lock = threading.Lock()
        self._beat_at = time.monotonic()

    def beat(self) -> None:
        """The controller was heard: the lease begins anew."""
        now = time.monotonic()
        if now - self._beat_at >= self._beat_s:
            self._beat_at = now
            with contextlib.suppress(
                OSError
            ):  # it is dead, of which `notices` tells, or has not taken the last beats yet
                self._control.send(b'{"op": "beat"}', socket.MSG_DONTWAIT)

    def reason_to_end(self) -> str:
        """What the guardian said; it is dead where it says nothing."""
        return os.read(self.notices, 4096).decode() or "its guardian was killed"

    def hold(self, *, run: str, host: str, who: str, take_over: bool = False) -> Json:
        """Hold this host for a run; `host` is its name in the inventory, `who` the user and the machine that ask.

        A run that was cut off takes its own host back at once, and hosts of one run that are one machine share it. With
        `take_over` so is another's, once its lease has lapsed. What is being put back is waited for. Raises
        RefusedError naming who holds it.
        """
        about = {"run": run, "host": host, "who": who, "since": time.time()}
        found: Optional[Json] = None
        ended = waited = False
        for _ in poll_until(time.monotonic() + WAIT_S, 0.01, 0.2):
            if self._ask({"op": "hold", "about": about})["held"]:
                return {"shared_with": None, "waited": waited}
            found, waited = host_lock.holder(), True
            if found is None or found["state"] in ("silent", "ending") or ended:
                continue
            if found.get("run") == run and found.get("host") != host:
                return {"shared_with": found.get("host"), "waited": False}
            if found.get("run") != run:
                break
            ended = True
            host_lock.end_holder(found)  # this run's own, from before its link was cut
        if take_over:
            return self._take_over(about, found)
        raise RefusedError("held", "this host is in use", story(found))

    def keep(self, *, lease_s: Optional[float] = None) -> Json:
        """What was started and changed stays after this agent's end, for so long or (None) until it is told to go."""
        self._ask({"op": "keep", "lease_s": lease_s})
        self.kept = True
        return {"kept": True}

    def release(self) -> Json:
        """End who holds this host, and have it put everything back: a kept stack, or a run whose lease has lapsed.

        Raises RefusedError for a run that is alive, and where the holder cannot be ended.
        """
        found = host_lock.holder()
        if found is None:
            return {"ended": None}
        if found["state"] == "running" and not _has_lapsed(found):
            raise RefusedError("held", "this host is in use", story(found))
        host_lock.end_holder(found)
        return {"ended": found}

    def done(self, *, goodbye: bool, reason: str, undone: List[Json]) -> None:
        """Say that the agent ends, and what it has put back itself."""
        self._ask({"op": "done", "goodbye": goodbye, "reason": reason, "undone": undone})

    def _take_over(self, about: Json, found: Optional[Json]) -> Json:
        if found is not None:
            self.release()
        if not self._ask({"op": "hold", "about": about})["held"]:
            raise RefusedError("held", "this host is in use", story(host_lock.holder()))
        return {"shared_with": None, "waited": True}

    def _ask(self, message: Json) -> Json:
        try:
            with self._lock:
                self._control.send(json.dumps(message).encode())
                packet = self._control.recv(MESSAGE_BYTES)
        except OSError:
            packet = b""
        if not packet:  # `notices` says so too, and the agent ends
            raise RefusedError("closing", "the guardian of this agent was killed")
        answer: Json = json.loads(packet)
        return answer


def story(found: Optional[Json]) -> str:
    """Who holds a host, since when, and what to do, for people."""
    if found is None:
        return "somebody held it until now; try again"
    if "run" not in found:
        whose = f"process {found['pid']} of user {found['uid']}" if found["pid"] else "a process out of sight"
        return f"{whose} holds it and does not answer; `benchkit hosts restore --take-over` ends it"
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(found["since"]))
    by = f"{found['run']} of {found['who']} since {since}"
    if found["lease_s"] is None:
        return f"{by}, until it is told to go"
    left_s = max(0.0, found["lease_s"] - found["heard_s"])
    return (
        f"{by}; its controller was heard {found['heard_s']:.0f} s ago. If that is gone, the host is put back and free in "
        f"{left_s:.0f} s by itself"
    )


def _has_lapsed(found: Json) -> bool:
    return found.get("lease_s") is not None and found.get("heard_s", 0) > found["lease_s"]
