"""Asks a server for its own counters, in a thread of its own, so that one that is slow to answer delays nothing else."""

from __future__ import annotations

import threading
import time
from typing import Any, Optional

from benchkit.agent.watch.collector import UnseenError
from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.sampling_schedule import SamplingSchedule
from benchkit.agent.watch.server_counters import KINDS
from benchkit.agent.watch.server_page import Page


class Poller(threading.Thread):
    """Asks one server."""

    def __init__(self, admin: Any, rhythm: SamplingSchedule, recorder: Recorder, group: Group) -> None:  # noqa: ANN401 - as it came in the message
        """`admin`: {"kind", and what `Page` takes}."""
        super().__init__(name=f"poller {group.service}", daemon=True)
        self._page = Page(admin)
        self._read = KINDS[admin["kind"]]
        self._beats = rhythm.beats()
        self._interval_ns = rhythm.interval_ns
        self._recorder = recorder
        self._group = group
        self._failures = 0
        self._last_failure = ""

    def run(self) -> None:
        """Ask in the rhythm until that ends."""
        track = self._recorder.track(self._interval_ns)
        for asked in self._beats:
            try:
                content = self._page.get()
                at_ns = time.monotonic_ns()  # a busy server takes its time before it looks at its counters
                track.write(at_ns, [(self._group, self._read(content, self._page.asked))], asked=asked)
            except (UnseenError, OSError) as error:
                self._failures += 1
                self._last_failure = str(error)
        track.close()
        self._page.close()

    def story(self) -> Optional[str]:
        """What went wrong, for people; None where nothing did."""
        if not self._failures:
            return None
        times = "once" if self._failures == 1 else f"{self._failures} times"
        return f"{self._group.service}: its own counters were not had {times}: {self._last_failure}"
