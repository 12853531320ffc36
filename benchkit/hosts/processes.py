"""Processes on a host: started by argument list, waited for, and stopped with their descendants."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from benchkit.agent import operations as ops
from benchkit.errors import HostError
from benchkit.hosts.agent_link import AgentLink
from benchkit.hosts.clock import Clock
from benchkit.hosts.files import HostPath

OUTPUT_BYTES = 64 << 20
"""Default limit of an output file: more than any tool or service prints, and too little to fill the disk."""
STOP_TIMEOUT_S = 5.0
"""Time to kill processes after their grace period."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToFile:
    """Output to a file below the work directory; bytes beyond the limit are counted and dropped."""

    path: HostPath
    max_bytes: int | None = OUTPUT_BYTES
    """Limit in bytes; None: no limit, and the process writes to the file directly."""


@dataclass(frozen=True)
class StopSignal:
    """The signal that asks a process tree to end, and the time after which it is killed."""

    signum: signal.Signals
    within_s: float


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start."""

    argv: Sequence[str]
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Variables in addition to the login's; None removes a variable."""
    cwd: HostPath | None = None
    """Path below the work directory; None: the work directory."""
    cpus: Sequence[int] | None = None
    """CPU affinity; None: all CPUs of the host."""
    nofile: int | None = None
    """Soft limit of open files; None: the login's limit."""
    group: str | None = None
    """Name of its control group, created by `HostChanges.create_cgroup`."""
    own_group: bool = False
    """True to count it in a control group of its own where the host allows one, so that no process escapes."""
    stdout: ToFile | None = None
    stderr: ToFile | Literal["stdout"] | None = None
    stop: StopSignal | None = None
    """Signal and grace period with which agent or watchdog stop it if the controller does not; None: SIGTERM, 1 s."""

    def command(self) -> ops.CommandSpec:
        """Return the command without its streams, as the agent takes it."""
        command = ops.CommandSpec(
            argv=list(self.argv),
            env=dict(self.env),
            cwd=None if self.cwd is None else str(self.cwd),
            cpus=None if self.cpus is None else list(self.cpus),
            nofile=self.nofile,
            group=self.group,
            own_group=self.own_group,
        )
        if self.stop is None:
            return command
        return replace(command, stop_signum=int(self.stop.signum), stop_grace_s=self.stop.within_s)

    def start(self, at_ns: int | None = None) -> ops.StartProcess:
        """Return the request that starts it, now or at an instant of the host's monotonic clock."""
        is_merged = self.stderr == "stdout"
        return ops.StartProcess(
            self.command(), _output_file(self.stdout), _output_file(self.stderr), merge_stderr=is_merged, at_ns=at_ns
        )


@dataclass(frozen=True)
class Completed:
    """A short command that has ended, or was killed at its timeout (`timed_out`)."""

    ended: ops.ExitStatus
    stdout: bytes
    stderr: bytes
    timed_out: bool

    @property
    def ok(self) -> bool:
        """True where the command ended in time with exit code 0."""
        return self.ended.exit_code == 0 and not self.timed_out

    @property
    def printed_errors(self) -> str:
        """Text that the command printed to standard error, for messages."""
        return self.stderr.decode(errors="replace").strip()

    @property
    def printed(self) -> str:
        """Text that the command printed to standard error, else to standard output, for messages."""
        return self.printed_errors if self.stderr else self.stdout.decode(errors="replace").strip()


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
        return self.link.request(ops.WaitForProcess(self.id, timeout_s), timeout_s=timeout_s).ended

    def outputs(self) -> Mapping[str, ops.OutputSize]:
        """Return the sizes of those of "stdout" and "stderr" that have a limit. Raises HostError."""
        return self.link.request(ops.WaitForProcess(self.id, 0)).outputs


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
        futures = [self._link.submit(spec.start()) for spec in specs]
        started: list[HostProcess] = []
        failure: HostError | None = None
        for spec, future in zip(specs, futures, strict=True):
            try:
                started.append(self._process(tuple(spec.argv), self._link.result(future, 0.0)))
            except HostError as error:
                failure = failure or error
        if failure is not None:
            self.stop(started)
            raise failure
        return started

    def list_all(self) -> ops.ProcessList:
        """Return all processes that the agent sees, also those of other programs. Raises HostError."""
        return self._link.request(ops.ListProcesses())

    def run_timetable(self, starts: Sequence[ops.ScheduledStart]) -> list[ops.ScheduledProcess]:
        """Start processes at their instants, in this order, and wait until all have ended, themselves or at a limit.

        If one cannot be started, all are stopped and HostError is raised.
        """
        last_s = max(self._clock().to_controller_s(start.limit_ns) + start.grace_s for start in starts)
        total_s = max(0.0, last_s - time.monotonic()) + STOP_TIMEOUT_S
        logger.debug("%s: starting %d processes at planned instants", self._host, len(starts))
        return self._link.request(ops.RunTimetable(list(starts)), timeout_s=total_s)

    def stop_timetable(self) -> None:
        """End the processes of a running timetable, and start no more. Raises HostError."""
        self._link.request(ops.StopTimetable())

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
        completed = self._link.request(ops.RunCommand(spec.command(), timeout_s, max_bytes, stdin), timeout_s=timeout_s)
        if completed.process.ended is None:
            raise HostError(f"{argv[0]} could not be ended after {timeout_s:g} s", where=self._host)
        return Completed(
            ended=completed.process.ended,
            stdout=completed.body[: completed.stdout_size],
            stderr=completed.body[completed.stdout_size :],
            timed_out=completed.timed_out,
        )

    def stop(
        self, processes: Iterable[HostProcess], *, signum: signal.Signals = signal.SIGTERM, grace_s: float = 5
    ) -> tuple[str, ...]:
        """Stop processes with all their descendants: send `signum`, and kill them after the grace period.

        Ended processes are ignored. Return the killed ones as `name (pid)`. Raises HostError naming the processes that
        could not be stopped.
        """
        wanted = ops.StopProcesses([process.id for process in processes], int(signum), grace_s)
        stopped = self._link.request(wanted, timeout_s=grace_s + STOP_TIMEOUT_S)
        if stopped.survivors:
            names = [f"{each.name} ({each.pid}: {each.why or 'it is still there'})" for each in stopped.survivors]
            raise HostError("processes could not be stopped", where=self._host, why=", ".join(names))
        return tuple(f"{each.name} ({each.pid})" for each in stopped.killed)

    def cpu_times(self, processes: Iterable[HostProcess]) -> Mapping[int, ops.CpuTime]:
        """Return the CPU times of process trees, by `HostProcess.id`, all read at once. Raises HostError."""
        return self._link.request(ops.ReadCpuTimes([process.id for process in processes]))

    def count_by_cgroup(self, process: HostProcess, path: str) -> None:
        """Count the processes and the CPU time of a control group, such as a container's, for a started process.

        `path` is below the mount point of control groups, or as in /proc/PID/cgroup; the group may appear later.
        Stopping the process signals no process of the group: those left are killed after the grace period. Raises
        HostError where the host has no groups.
        """
        self._link.request(ops.CountByCgroup(process.id, path))

    def cgroup_of(self, pid: int) -> str | None:
        """Return the control group of any process, as `count_by_cgroup` takes it; None where the process has ended."""
        return self._link.request(ops.FindCgroup(pid))

    def watch(self, *, cgroup: str | None = None, unit: str | None = None, pattern: str | None = None) -> HostProcess:
        """Watch processes of other programs together, like one process, and never signal them.

        Name them by a control group, a systemd unit, or a regular expression for their command lines. Raises HostError
        where there are none.
        """
        wanted = ops.WatchProcesses(cgroup, unit, pattern)
        return self._process((unit or cgroup or pattern or "",), self._link.request(wanted))

    def members(self, process: HostProcess) -> tuple[int, ...]:
        """Return the pids of a process and of its descendants. Raises HostError where all have ended."""
        pids = self.running_members(process)
        if not pids:
            raise HostError(f"no process of {process.argv[0]} is running", where=self._host)
        return pids

    def running_members(self, process: HostProcess) -> tuple[int, ...]:
        """Return the pids of the running ones of a process and its descendants. Raises HostError."""
        trees = self._link.request(ops.ListTrees())
        return tuple(member.pid for tree in trees if tree.process.id == process.id for member in tree.members)

    def _process(self, argv: tuple[str, ...], report: ops.ProcessReport) -> HostProcess:
        return HostProcess(self._link, self._host, report.id, report.pid, report.start, argv, report.started_ns)


def _output_file(stream: ToFile | Literal["stdout"] | None) -> ops.StreamFile | None:
    return ops.StreamFile(str(stream.path), stream.max_bytes) if isinstance(stream, ToFile) else None
