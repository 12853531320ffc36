"""Processes on a host: started by argument list, waited for, and stopped with their descendants."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from benchkit.agent import operations as ops
from benchkit.agent.operations import Completed, HostPath, ProcessSpec
from benchkit.agent.processes import ProcessTable
from benchkit.agent.timetable import Timetable
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.clock import Clock

STOP_TIMEOUT_S = 5.0
"""Time to kill processes after their grace period."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostProcess:
    """A process started on a host; its methods are safe for many threads."""

    link: AgentLink = field(repr=False)
    host: str
    id: int
    pid: int
    start: int
    """Its start in ticks since the host's boot, as in /proc/PID/stat."""
    argv: tuple[str, ...]
    started_ns: int
    """Instant on the host's monotonic clock."""

    def wait(self, timeout_s: float) -> ops.ExitStatus | None:
        """Wait for its end; return None where it did not end in time. Raises HostError."""
        return self.link.call_within(timeout_s, ProcessTable.wait, self.id, timeout_s).ended

    def outputs(self) -> Mapping[str, ops.OutputSize]:
        """Return the sizes of those of "stdout" and "stderr" that have a limit. Raises HostError."""
        return self.link.call(ProcessTable.wait, self.id, 0).outputs


class Processes:
    """The processes of one host; safe for many threads."""

    def __init__(self, link: AgentLink, host: str, clock: Callable[[], Clock]) -> None:
        """Send requests to the host's agent over its link; `clock` returns the last comparison of the clocks."""
        self._link = link
        self._host = host
        self._clock = clock

    def start(self, spec: ProcessSpec) -> HostProcess:
        """Start a process. Raises HostError."""
        return self.start_all([spec])[0]

    def start_all(self, specs: Iterable[ProcessSpec]) -> list[HostProcess]:
        """Start processes at once. Where one cannot be started, the others are stopped. Raises HostError."""
        specs = list(specs)
        logger.debug("%s: starting %s", self._host, ", ".join(spec.argv[0] for spec in specs))
        futures = [self._link.submit(ProcessTable.start, spec) for spec in specs]
        started: list[HostProcess] = []
        failure: HostError | None = None
        for spec, future in zip(specs, futures, strict=True):
            try:
                report = self._link.result(future, 0.0)
                where = (report.id, report.pid, report.start, tuple(spec.argv), report.started_ns)
                started.append(HostProcess(self._link, self._host, *where))
            except HostError as error:
                failure = failure or error
        if failure is not None:
            self.stop(started)
            raise failure
        return started

    def run_timetable(self, starts: Sequence[ops.ScheduledStart]) -> list[ops.ScheduledProcess]:
        """Start processes at their instants, in this order, and wait until all have ended, themselves or at a limit.

        If one cannot be started, all are stopped and HostError is raised.
        """
        last_s = max(self._clock().to_controller_s(start.limit_ns) + start.grace_s for start in starts)
        total_s = max(0.0, last_s - time.monotonic()) + STOP_TIMEOUT_S
        logger.debug("%s: starting %d processes at planned instants", self._host, len(starts))
        return self._link.call_within(total_s, Timetable.run, starts)

    def run(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str | None] | None = None,
        cwd: HostPath | None = None,
        cpus: Sequence[int] | None = None,
        nofile: int | None = None,
        stdin: bytes = b"",
        timeout_s: float = 30,
        max_bytes: int = 1 << 20,
    ) -> Completed:
        """Run a short command and wait for its end; keep at most `max_bytes` of each output. Raises HostError."""
        logger.debug("%s: running %s for up to %g s", self._host, argv[0], timeout_s)
        spec = ProcessSpec(argv, env or {}, cwd, cpus, nofile)
        return self._link.call_within(timeout_s, ProcessTable.run, spec, timeout_s, max_bytes, stdin)

    def stop(
        self, processes: Iterable[HostProcess], *, signum: signal.Signals = signal.SIGTERM, grace_s: float = 5
    ) -> tuple[str, ...]:
        """Stop processes with all their descendants: send `signum`, and kill them after the grace period.

        Ended processes are ignored. Return the killed ones as `name (pid)`. Raises HostError naming the processes that
        could not be stopped.
        """
        ids = [process.id for process in processes]
        stopped = self._link.call_within(grace_s + STOP_TIMEOUT_S, ProcessTable.stop, ids, signum, grace_s)
        if stopped.survivors:
            names = [f"{each.name} ({each.pid}: {each.why or 'it is still there'})" for each in stopped.survivors]
            raise HostError("processes could not be stopped", where=self._host, why=", ".join(names))
        return tuple(f"{each.name} ({each.pid})" for each in stopped.killed)

    def members(self, process: HostProcess) -> tuple[int, ...]:
        """Return the pids of a process and of its descendants. Raises HostError where all have ended."""
        pids = tuple(member.pid for member in self._link.call(ProcessTable.members, process.id))
        if not pids:
            raise HostError(f"no process of {process.argv[0]} is running", where=self._host)
        return pids
