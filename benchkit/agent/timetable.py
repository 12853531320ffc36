"""Processes that start at planned instants, one after the other: the load tools.

One request starts all of them, so nothing has to arrive from the controller during measured load. The streams of a
process are opened just after the start of the one before, before that one's load is measured.
"""

from __future__ import annotations

import contextlib
import queue
import signal
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional, Sequence

from benchkit.agent import operations as ops
from benchkit.agent.child_process import Child
from benchkit.agent.common import OperationError
from benchkit.agent.operations import operation
from benchkit.agent.proc import cpu_clock_s
from benchkit.agent.processes import ProcessTable


class Started(NamedTuple):
    """A process that was started."""

    wanted: ops.ScheduledStart
    child: Child


class Timetable:
    """Runs one timetable at a time; safe for many threads."""

    def __init__(self, processes: ProcessTable) -> None:
        self._processes = processes
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._started: List[Started] = []
        self._overran: List[int] = []
        self._is_running = False
        self._ended_s: Dict[str, float] = {}
        """CPU time of the processes of earlier timetables."""
        self._latest_s: Dict[str, float] = {}
        self._awaited: Dict[str, Callable[[Child], None]] = {}

    @operation()
    def run(self, starts: Sequence[ops.ScheduledStart]) -> List[ops.ScheduledProcess]:
        """Start processes at their instants and wait until all have ended; return their reports in order.

        If one cannot be started, or on `stop`, all are stopped and OperationError is raised.
        """
        with self._lock:
            if self._is_running:
                raise OperationError("busy", "another timetable is running")
            self._is_running = True
            self._overran = []
            self._stopped.clear()
        running: "queue.SimpleQueue[Optional[Started]]" = queue.SimpleQueue()
        ending = threading.Thread(target=self._end_at_limits, args=(running,), name="limits", daemon=True)
        ending.start()
        try:
            for each in starts:
                self._refuse_if_stopped()
                started = Started(each, self._processes.start_child(each.process, each.at_ns))
                with self._lock:
                    self._started.append(started)
                running.put(started)
            for started in self._started:
                if (call := self._awaited.pop(started.wanted.service, None)) is not None:
                    call(started.child)
            running.put(None)
            ending.join()
            self._refuse_if_stopped()
            return [ops.ScheduledProcess(each.child.report(), each.child.id in self._overran) for each in self._started]
        finally:
            self._end_all()
            running.put(None)
            ending.join()
            with self._lock:
                for wanted, child in self._started:
                    self._ended_s[wanted.service] = self._ended_s.get(wanted.service, 0.0) + _cpu_s(child)
                self._started = []
            self._is_running = False

    def _end_at_limits(self, running: "queue.SimpleQueue[Optional[Started]]") -> None:
        """Wait for each process in turn, and end it at its limit: load tools print their results at SIGINT."""
        while (each := running.get()) is not None:
            if not self._processes.wait_for(each.child, max(0.0, (each.wanted.limit_ns - time.monotonic_ns()) / 1e9)):
                self._overran.append(each.child.id)
                self._processes.stop_child(each.child, signal.SIGINT, each.wanted.grace_s)

    @operation()
    def stop(self) -> None:
        """End all processes and start no more; the running request is then refused."""
        self._stopped.set()
        self._end_all()

    def await_start(self, service: str, call: Callable[[Child], None]) -> None:
        """Register a call with the next process started as `service`, made once its whole timetable is started."""
        self._awaited[service] = call

    def await_none(self) -> None:
        """Drop the calls registered with `await_start`."""
        self._awaited.clear()

    def _refuse_if_stopped(self) -> None:
        if self._stopped.is_set():
            raise OperationError("stopped", "the timetable was stopped")

    def _end_all(self) -> None:
        remaining = [each.child.id for each in list(self._started) if each.child.ended is None]
        if remaining:
            with contextlib.suppress(OperationError):
                self._processes.stop(remaining, signal.SIGTERM, 1.0)

    def cpu_s(self, service: str) -> float:
        """Return the CPU time that all processes of a service have taken so far; it never decreases."""
        with self._lock:
            children = [each.child for each in self._started if each.wanted.service == service]
            total_s = self._ended_s.get(service, 0.0) + sum(map(_cpu_s, children))
            self._latest_s[service] = max(self._latest_s.get(service, 0.0), total_s)
            return self._latest_s[service]


def _cpu_s(child: Child) -> float:
    """Return the CPU time of a process so far; 0 if it has just ended and its usage is not yet known."""
    if child.ended is not None:
        return child.ended.user_s + child.ended.system_s
    return cpu_clock_s(child.pid) or 0.0
