"""The lock of a host: one run at a time, held by the watchdog on the host for as long as its lease is renewed."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from benchkit.hosts.agent_link import Link

LOCK_TIMEOUT_S = 45.0
"""Time for another holder to end and to restore what it changed."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class LockHolder:
    """The process that holds a host."""

    pid: int
    state: Literal["running", "ending", "kept", "silent"]
    """"ending": it is about to restore what it changed; "kept": a stack that stays up without a controller; "silent":
    it does not answer."""
    run: str | None = None
    who: str | None = None
    """User and machine of the controller."""
    since: datetime | None = None
    lease_s: float | None = None
    heartbeat_age_s: float | None = None
    """Time since its controller's last heartbeat."""

    @classmethod
    def from_message(cls, message: Mapping[str, Any] | None) -> LockHolder | None:
        """Convert the agent's message; None where nothing holds the host."""
        if message is None:
            return None
        since = message.get("since")
        return cls(
            pid=message["pid"],
            state=message["state"],
            run=message.get("run"),
            who=message.get("who"),
            since=None if since is None else datetime.fromtimestamp(since, UTC),
            lease_s=message.get("lease_s"),
            heartbeat_age_s=message.get("heard_s"),
        )

    def __str__(self) -> str:
        """Return the holder as a phrase for messages."""
        if self.run is None or self.since is None:
            return f"process {self.pid}, which does not answer"
        return f"{self.run} of {self.who} since {self.since:%Y-%m-%d %H:%M:%S} UTC"


@dataclass(frozen=True)
class LockResult:
    """The outcome of locking a host."""

    shared_with: str | None
    """Another host of the same run on the same machine, which holds the lock; None: this connection holds it."""
    waited: bool
    """True where another holder restored its changes first: facts gathered before are out of date."""


class HostLock:
    """The lock of one host; safe for many threads."""

    def __init__(self, link: Link, host: str) -> None:
        """Send requests to the host's agent over its link."""
        self._link = link
        self._host = host

    def acquire(self, run: str, host: str, who: str, *, take_over: bool = False) -> LockResult:
        """Lock the host for a run until the end of this connection.

        A host that another run holds is refused; with `take_over` only while that run's lease has not expired. A holder
        that is restoring its changes is waited for. Raises RefusedError (`held`) naming the holder.
        """
        logger.info("%s: locking the host for %s", self._host, run)
        args = {"run": run, "host": host, "who": who, "take_over": take_over}
        result = LockResult(**self._link.request("lock", args, timeout_s=LOCK_TIMEOUT_S).fields)
        shared = f", shared with {result.shared_with}" if result.shared_with else ""
        logger.info("%s: locked for %s%s", self._host, run, shared)
        return result

    def keep(self, lease_s: float | None = None) -> None:
        """Keep processes, changes and lock after this connection, for `lease_s` seconds or (None) until `release`."""
        self._link.request("keep", {"lease_s": lease_s})

    def release(self) -> LockHolder | None:
        """End the holder of the host, which restores everything, if it is a kept stack or a run with an expired lease.

        Raises RefusedError (`held`) for a live run, and where the holder cannot be ended.
        """
        logger.info("%s: ending the holder of the host", self._host)
        return LockHolder.from_message(self._link.request("release", {}, timeout_s=LOCK_TIMEOUT_S).fields["ended"])
