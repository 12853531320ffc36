"""Watching the host while it is measured: what the controller asks for. How it is done is in `benchkit.agent.watch`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, List, Optional

from benchkit.agent.common import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.processes import Processes
from benchkit.agent.psutil_copy import Psutil
from benchkit.agent.workdir import Workdir

if TYPE_CHECKING:
    from benchkit.agent.watch.session import Session

SHORTEST_S, LONGEST_S = 0.01, 600.0


class Telemetry:
    """One watch at a time, from `start` to `stop`; safe for many threads."""

    def __init__(self, workdir: Workdir, processes: Processes, psutil: Psutil) -> None:
        self._workdir = workdir
        self._processes = processes
        self._psutil = psutil
        self._lock = threading.Lock()
        self._session: Optional[Session] = None

    def start(self, *, path: str, interval_s: float, services: List[Json]) -> Json:
        """Begin to watch, writing to a new file; see `Session.add` for the services."""
        from benchkit.agent.watch.session import Session  # noqa: PLC0415 - most agents never watch

        if not SHORTEST_S <= interval_s <= LONGEST_S:
            raise RefusedError("bad-request", f"an interval of {interval_s:g} s; {SHORTEST_S:g} to {LONGEST_S:g} go")
        with self._lock:
            if self._session is not None:
                raise RefusedError("busy", "the host is being watched already")
            file = self._workdir.inside(path, write=True)
            session = Session(file, interval_s, self._processes, self._psutil.module())
            try:
                session.add(services)
            except BaseException:
                session.stop()
                raise
            self._session = session
        return {}

    def add(self, *, services: List[Json]) -> Json:
        """Watch more services."""
        self._current().add(services)
        return {}

    def mark(self) -> Json:
        """Look now, beside the rhythm; see `Session.mark`."""
        return self._current().mark()

    def look_at(self, *, at_ns: List[int]) -> Json:
        """Look at what is dear at these instants of the host's monotonic clock; see `Session.look_at`."""
        self._current().look_at(at_ns)
        return {}

    def now(self) -> Json:
        """What was seen last of each service; nothing where nothing is watched."""
        session = self._session
        return {"services": {} if session is None else session.now()}

    def stop(self) -> Json:
        """End the watch, if there is one; see `Session.stop`."""
        with self._lock:
            session, self._session = self._session, None
        return {"stopped": None if session is None else session.stop()}

    def _current(self) -> Session:
        session = self._session
        if session is None:
            raise RefusedError("not-found", "the host is not being watched")
        return session
