"""CPU time of the processes that a timetable starts under one name, as the slices of a load generator."""

from __future__ import annotations

from benchkit.agent.timetable import Timetable
from benchkit.agent.watch.collector import Collector, Values


class ScheduledProcesses(Collector):
    """All processes of one name together, running and ended."""

    def __init__(self, timetable: Timetable, name: str) -> None:
        self._timetable = timetable
        self._name = name

    def sample(self) -> Values:
        """Return their CPU time."""
        return {("cpu_s_total", None): self._timetable.cpu_s(self._name)}
