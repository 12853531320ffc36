"""Processes that start at planned instants, one after the other: the load tools of a sliced block.

One request starts them all: nothing has to arrive from the controller while load is measured. The streams of a process
are opened when the one before it has just started, not beside its measured load.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from typing import Dict, List, NamedTuple, Optional

from benchkit.agent import operations as ops
from benchkit.agent.child_process import Child
from benchkit.agent.common import OperationError
from benchkit.agent.proc import cpu_clock_s
from benchkit.agent.processes import ProcessTable


class Started(NamedTuple):
    """A process that was started, under the name of its service in the telemetry."""

    service: str
    child: Child
    limit_ns: int


class Timetable:
    """Runs one timetable at a time; safe for many threads."""

    STOP_S = 0.1
    """Time that a process has to end, once told to at its limit: other processes are measured meanwhile."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._started: List[Started] = []
        self._overran: List[int] = []
        self._is_running = False
        self._counted = 0
        """Number of the first processes that have ended, whose CPU time is in `_ended_s`."""
        self._ended_s: Dict[str, float] = {}
        self._latest_s: Dict[str, float] = {}

    def run(self, wanted: ops.RunTimetable) -> List[ops.ScheduledProcess]:
        """Start processes at their instants and wait until all have ended; return their reports in order.

        All are stopped where one cannot be started. Raises OperationError.
        """
        with self._lock:
            if self._is_running:
                raise OperationError("busy", "another timetable is running")
            self._is_running = True
            self._started, self._counted, self._ended_s, self._latest_s = [], 0, {}, {}
            self._overran = []
            self._stopped.clear()
        running: "queue.SimpleQueue[Optional[Started]]" = queue.SimpleQueue()
        ending = threading.Thread(target=self._end_at_limits, args=(running,), name="limits", daemon=True)
        ending.start()
        try:
            for each in wanted.starts:
                if self._stopped.is_set():
                    raise OperationError("stopped", "the timetable was stopped")
                started = Started(each.service, self._processes.start_child(each.start), each.limit_ns)
                with self._lock:
                    self._started.append(started)
                running.put(started)
            running.put(None)
            ending.join()
            return [ops.ScheduledProcess(each.child.report(), each.child.id in self._overran) for each in self._started]
        finally:
            remaining = [each.child.id for each in self._started if each.child.ended is None]
            if remaining:
                with contextlib.suppress(OperationError):
                    self._processes.stop(ops.StopProcesses(remaining, signal.SIGTERM, 1.0))
            running.put(None)
            ending.join()
            self._is_running = False

    def _end_at_limits(self, running: "queue.SimpleQueue[Optional[Started]]") -> None:
        """Wait for each process in turn, and end it at its limit: load tools print their results at SIGINT."""
        while (each := running.get()) is not None:
            if not self._processes.wait_for(each.child, max(0.0, (each.limit_ns - time.monotonic_ns()) / 1e9)):
                self._overran.append(each.child.id)
                self._processes.stop_child(each.child, signal.SIGINT, self.STOP_S)

    def stop(self, _: ops.StopTimetable) -> None:
        """Start no more processes; the running request is refused then."""
        self._stopped.set()

    def cpu_s(self, service: str) -> float:
        """Return the CPU time that all processes of a service have taken so far; it never decreases."""
        with self._lock:
            children = [each.child for each in self._started[self._counted :] if each.service == service]
            total_s = self._ended_s.get(service, 0.0) + sum(map(_cpu_s, children))
            while self._counted < len(self._started) and self._started[self._counted].child.ended is not None:
                counted = self._started[self._counted]
                self._ended_s[counted.service] = self._ended_s.get(counted.service, 0.0) + _cpu_s(counted.child)
                self._counted += 1
            self._latest_s[service] = max(self._latest_s.get(service, 0.0), total_s)
            return self._latest_s[service]


def _cpu_s(child: Child) -> float:
    """Return the CPU time of a process so far; 0 for one that has just ended and whose usage is not known yet."""
    if child.ended is not None:
        return child.ended.user_s + child.ended.system_s
    return cpu_clock_s(child.pid) or 0.0
