"""A process that the agent started, with its resource usage."""

from __future__ import annotations

import os
import resource
import time
from pathlib import Path
from typing import Dict, List, Optional, Set, Tuple

from benchkit.agent.frames import Json
from benchkit.agent.launch import Command
from benchkit.agent.machine import memory_kills
from benchkit.agent.output_pumps import Sink
from benchkit.agent.proc import ProcStat


class Child:
    """A process that the agent started."""

    def __init__(self, number: int, command: Command, sinks: Dict[str, Sink]) -> None:
        self.id = number
        self.command = command
        self.sinks = sinks
        self.pid = 0
        self.start = 0
        self.started_ns = 0
        self.ended: Optional[Json] = None
        self.record: Optional[Path] = None
        self.escaped: Set[Tuple[int, int]] = set()
        """Pid and start of its descendants in other sessions, as in its record."""
        self._memory_kills = memory_kills()
        self._orphans_user_s = 0.0
        self._orphans_system_s = 0.0

    def end(self, status: int, usage: resource.struct_rusage, full_disk: Optional[str]) -> None:
        """Record its exit code or signal, and its resource usage, including the children it waited for.

        `full_disk`: why nothing could be written to the work directory, if its disk was full.
        """
        self.ended = {
            "at_ns": time.monotonic_ns(),
            "exit_code": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "memory_kills": self._killed_for_memory() if os.WIFSIGNALED(status) else None,
            "full_disk": full_disk,
            "user_s": usage.ru_utime,
            "system_s": usage.ru_stime,
            "max_rss_bytes": usage.ru_maxrss * 1024,
            "voluntary_switches": usage.ru_nvcsw,
            "involuntary_switches": usage.ru_nivcsw,
        }

    def _killed_for_memory(self) -> Optional[int]:
        """Return the number of processes of the machine that were killed for lack of memory since the start."""
        now = memory_kills()
        return None if now is None or self._memory_kills is None else now - self._memory_kills

    def adopt(self, usage: resource.struct_rusage) -> None:
        """Add the resource usage of an orphaned descendant."""
        self._orphans_user_s += usage.ru_utime
        self._orphans_system_s += usage.ru_stime

    def cpu_s(self, tree: List[ProcStat]) -> Tuple[float, float]:
        """Return user and system time: of `tree`, its live processes, and of those that ended."""
        ended = self.ended or {"user_s": 0.0, "system_s": 0.0}
        user = ended["user_s"] + self._orphans_user_s + sum(each.user_s for each in tree)
        return user, ended["system_s"] + self._orphans_system_s + sum(each.system_s for each in tree)

    def report(self) -> Json:
        """Return the message about this process."""
        return {
            "id": self.id,
            "pid": self.pid,
            "start": self.start,
            "started_ns": self.started_ns,
            "ended": self.ended,
            "outputs": {name: sink.report() for name, sink in self.sinks.items()},
        }
