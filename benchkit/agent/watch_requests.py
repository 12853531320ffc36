"""Requests for telemetry; the sampling itself is in `benchkit.agent.watch`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, List, Optional

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.processes import Processes
from benchkit.agent.timetable import Timetable
from benchkit.agent.workdir import Workdir

if TYPE_CHECKING:
    from benchkit.agent.watch.session import Session

SHORTEST_S, LONGEST_S = 0.01, 600.0


class Telemetry:
    """Telemetry of the host, one session at a time, from `start` to `stop`; safe for many threads."""

    def __init__(self, workdir: Workdir, processes: Processes, timetable: Timetable) -> None:
        self._workdir = workdir
        self._processes = processes
        self._timetable = timetable
        self._lock = threading.Lock()
        self._session: Optional[Session] = None

    def start(
        self, *, path: str, interval_s: float, services: List[Json], core_interval_s: Optional[float] = None
    ) -> Json:
        """Start to sample, into a new file; see `Session.add` for the services.

        `core_interval_s` is the interval of core speeds where it is another.
        """
        from benchkit.agent.watch.session import Session  # noqa: PLC0415 - most agents never sample

        if not SHORTEST_S <= interval_s <= LONGEST_S:
            what = f"an interval of {interval_s:g} s; allowed: {SHORTEST_S:g} to {LONGEST_S:g} s"
            raise RefusedError("bad-request", what)
        with self._lock:
            if self._session is not None:
                raise RefusedError("busy", "telemetry of this host is running already")
            file = self._workdir.inside(path, write=True)
            session = Session(file, interval_s, core_interval_s or interval_s, self._processes, self._timetable)
            try:
                session.add(services)
            except BaseException:
                session.stop()
                raise
            self._session = session
        return {}

    def add(self, *, services: List[Json]) -> Json:
        """Sample more services."""
        self._running_session().add(services)
        return {}

    def snapshot(self) -> Json:
        """Sample now, outside of the regular interval; see `Session.snapshot`."""
        return self._running_session().snapshot()

    def schedule_snapshots(self, *, at_ns: List[int]) -> Json:
        """Sample at these instants of the host's monotonic clock; see `Session.schedule_snapshots`."""
        self._running_session().schedule_snapshots(at_ns)
        return {}

    def schedule_samples(self, *, at_ns: List[int]) -> Json:
        """Sample what is expensive at these instants of the host's monotonic clock; see `Session.schedule_samples`."""
        self._running_session().schedule_samples(at_ns)
        return {}

    def latest(self) -> Json:
        """Return the last values of each service; nothing without a session."""
        session = self._session
        return {"services": {} if session is None else session.latest()}

    def stop(self) -> Json:
        """End the session, if there is one; see `Session.stop`."""
        with self._lock:
            session, self._session = self._session, None
        return {"summary": None if session is None else session.stop()}

    def _running_session(self) -> Session:
        session = self._session
        if session is None:
            raise RefusedError("not-found", "telemetry of this host is not running")
        return session
