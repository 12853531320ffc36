"""Polling of a server's own counters, in its own thread, so that a slow server delays nothing else."""

from __future__ import annotations

import threading
import time
from typing import Any, Dict, Optional

from benchkit.agent.watch.collector import UnavailableError
from benchkit.agent.watch.counter_page import CounterPage
from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.sampling_schedule import SamplingSchedule
from benchkit.agent.watch.server_counters import PARSERS, handshakes


class CounterPoller(threading.Thread):
    """Polls the counter page of one server."""

    def __init__(self, target: Any, schedule: SamplingSchedule, recorder: Recorder, group: Group) -> None:  # noqa: ANN401 - as it came in the message
        """Prepare polling; `target`: {"kind", "handshake_logs", and the fields of `CounterPage`}."""
        super().__init__(name=f"poller {group.service}", daemon=True)
        self._page = CounterPage(target)
        self._parse = PARSERS[target["kind"]]
        self._handshake_logs: Dict[str, str] = target.get("handshake_logs", {})
        self._ticks = schedule.ticks()
        self._interval_ns = schedule.interval_ns
        self._recorder = recorder
        self._group = group
        self._failures = 0
        self._last_failure = ""

    def run(self) -> None:
        """Poll at each tick of the schedule."""
        track = self._recorder.track(self._interval_ns)
        for tick in self._ticks:
            try:
                content = self._page.get()
                at_ns = time.monotonic_ns()  # a busy server reads its counters shortly before it answers
                values = {**self._parse(content, self._page.own), **handshakes(self._handshake_logs)}
                track.write(at_ns, [(self._group, values)], tick)
            except (UnavailableError, OSError) as error:
                self._failures += 1
                self._last_failure = str(error)
        track.close()
        self._page.close()

    def problem(self) -> Optional[str]:
        """Return the problem of polling as a sentence; None without one."""
        if not self._failures:
            return None
        times = "once" if self._failures == 1 else f"{self._failures} times"
        return f"{self._group.service}: its own counters could not be read {times}: {self._last_failure}"
