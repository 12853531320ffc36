"""Processes on a host: started by argument list, waited for, and stopped with their descendants."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple

from benchkit.errors import HostError
from benchkit.hosts.agent_link import Link, Reply
from benchkit.hosts.clock import Clock
from benchkit.hosts.files import HostPath

OUTPUT_BYTES = 64 << 20
"""Default limit of an output file: no tool or service of benchkit prints as much, and the disk must not fill up."""
STOP_TIMEOUT_S = 5.0
"""Time to kill processes after their grace period."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ToFile:
    """Output to a file below the work directory; bytes beyond the limit are counted and dropped."""

    path: HostPath
    max_bytes: int | None = OUTPUT_BYTES
    """None: no limit; the process writes to the file directly."""


@dataclass(frozen=True)
class StopSignal:
    """The signal that asks a process tree to end, and the time after which it is killed."""

    signum: signal.Signals
    within_s: float

    def fields(self) -> dict[str, Any]:
        """Return the agent's fields of a command for it."""
        return {"stop_signum": int(self.signum), "stop_grace_s": self.within_s}


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start."""

    argv: Sequence[str]
    env: Mapping[str, str | None] = field(default_factory=dict)
    """Variables added to those of the login; None removes one."""
    cwd: HostPath | None = None
    """Below the work directory; None: the work directory."""
    cpus: Sequence[int] | None = None
    """CPU affinity; None: all CPUs of the host."""
    nofile: int | None = None
    """Soft limit of open files; None: that of the login."""
    group: str | None = None
    """Name of its control group, created by `HostChanges.create_cgroup`."""
    stdout: ToFile | None = None
    stderr: ToFile | Literal["stdout"] | None = None
    stop: StopSignal | None = None
    """The way in which the agent or its watchdog stops it where the controller does not; None: SIGTERM, for 1 s."""

    def command(self) -> dict[str, Any]:
        """Return the agent's message for the command, without its streams."""
        return {
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": None if self.cwd is None else str(self.cwd),
            "cpus": None if self.cpus is None else list(self.cpus),
            "nofile": self.nofile,
            "group": self.group,
            **({} if self.stop is None else self.stop.fields()),
        }


@dataclass(frozen=True)
class Output:
    """The size of an output with a limit, in bytes."""

    size: int
    dropped: int
    error: str | None
    """Error in writing it, such as a full disk."""
    is_host_state: bool = False
    """True where that is a state of the host that may pass."""


@dataclass(frozen=True)
class ExitStatus:
    """The end of a process, with the resources used by it and by the children it waited for."""

    at_ns: int
    """Instant on the host's monotonic clock."""
    exit_code: int | None
    """None where a signal ended it."""
    signal: int | None
    user_s: float
    system_s: float
    max_rss_bytes: int
    """Includes what the agent had when it started the process (Linux): only values well above 20 MB are meaningful."""
    voluntary_switches: int
    involuntary_switches: int
    memory_kills: int | None = None
    """Processes that the kernel of the host killed for lack of memory since the start; None where no signal ended
    it."""
    full_disk: str | None = None
    """Reason why nothing could be written to the work directory at that instant, with what was free on its disk; None
    where there was room."""

    def __str__(self) -> str:
        """Return `exit code 1`, `signal SIGKILL` and the like."""
        if self.signal is None:
            return f"exit code {self.exit_code}"
        out_of_memory = self.signal == signal.SIGKILL and self.memory_kills
        why = ": its host ran out of memory, and the kernel killed" if out_of_memory else ""
        return f"signal {signal.Signals(self.signal).name}{why}"


@dataclass(frozen=True)
class Completed:
    """A short command that has ended, or was killed at its timeout (`timed_out`)."""

    argv: tuple[str, ...]
    ended: ExitStatus
    stdout: bytes
    stderr: bytes
    dropped: int
    """Bytes of output beyond the limit."""
    timed_out: bool

    @property
    def ok(self) -> bool:
        """True where it ended with exit code 0 in time."""
        return self.ended.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class CpuTime:
    """CPU time of a process and all its descendants, including those that ended; seconds."""

    user_s: float
    system_s: float
    processes: int
    """Number of live processes."""

    @property
    def total_s(self) -> float:
        """User and system time."""
        return self.user_s + self.system_s


@dataclass(frozen=True)
class HostProcess:
    """A process started on a host; its methods are safe for many threads."""

    link: Link = field(repr=False)
    host: str
    id: int
    pid: int
    start: int
    """Instant of its start in ticks since the host's boot, as /proc has it."""
    argv: tuple[str, ...]
    started_ns: int
    """Instant on the host's monotonic clock."""
    late_s: float | None
    """Delay after the requested start; None where no instant was requested."""

    def wait(self, timeout_s: float) -> ExitStatus | None:
        """Wait for its end; return None where it did not end in time. Raises HostError."""
        return _exit_status(
            self.link.request("wait", {"id": self.id, "timeout_s": timeout_s}, timeout_s=timeout_s).fields
        )

    def outputs(self) -> Mapping[str, Output]:
        """Return the sizes of "stdout" and "stderr", as far as they have a limit. Raises HostError."""
        report = self.link.request("wait", {"id": self.id, "timeout_s": 0}).fields
        return {name: Output(**output) for name, output in report["outputs"].items()}


@dataclass(frozen=True)
class PlannedStart:
    """A process to start at an instant, under the name of its service in the telemetry."""

    service: str
    spec: ProcessSpec
    at_ns: int
    """Instant on the host's monotonic clock."""
    limit_ns: int
    """Instant at which it is ended if it has not ended by itself."""


@dataclass(frozen=True)
class EndedProcess:
    """A process of a timetable after its end."""

    started_ns: int
    """Instant on the host's monotonic clock."""
    late_s: float
    """Delay after the planned instant."""
    ended: ExitStatus | None
    """None where it could not be ended."""
    overran: bool = False
    """True where it had not ended by itself at its limit."""


@dataclass(frozen=True)
class Stopped:
    """The outcome of stopping processes."""

    ended: Mapping[int, ExitStatus | None]
    """Exit status by `HostProcess.id`; None where the process did not end."""
    killed: tuple[str, ...]
    """Processes, descendants included, that had to be killed after the grace period: `name (pid)`."""


class SeenProcess(NamedTuple):
    """Any process of a machine, as the kernel lists it."""

    pid: int
    parent: int
    start: float
    """Start, in units of the list."""
    name: str
    cpu_s: float
    """CPU time of the process, and of its children that ended and were waited for."""


@dataclass(frozen=True)
class ProcessList:
    """All processes that an agent sees."""

    agent: int
    """Pid of the agent."""
    namespace: str | None
    """PID namespace of these processes; None: unknown."""
    processes: tuple[SeenProcess, ...]


class Processes:
    """The processes of one host; safe for many threads."""

    def __init__(self, link: Link, host: str, clock: Callable[[], Clock]) -> None:
        """Send requests to the host's agent over its link; `clock` returns the last comparison of the clocks."""
        self._link = link
        self._host = host
        self._clock = clock

    def start(self, spec: ProcessSpec) -> HostProcess:
        """Start a process. Raises HostError."""
        return self.start_all([spec])[0]

    def start_all(self, specs: Iterable[ProcessSpec], at_s: float | None = None) -> list[HostProcess]:
        """Start processes, all at the instant `at_s` of the controller's `time.monotonic()` where it is given.

        Where one cannot be started, the others are stopped. Raises HostError.
        """
        specs = list(specs)
        at_ns = None if at_s is None else self._clock().to_host_ns(at_s)
        remaining_s = 0.0 if at_s is None else max(0.0, at_s - time.monotonic())
        logger.debug("%s: starting %s in %.3f s", self._host, ", ".join(spec.argv[0] for spec in specs), remaining_s)
        futures = [
            self._link.submit("start", {"command": spec.command(), **_streams(spec), "at_ns": at_ns}) for spec in specs
        ]
        started: list[HostProcess] = []
        failure: HostError | None = None
        for spec, future in zip(specs, futures, strict=True):
            try:
                started.append(self._started(spec, future, remaining_s))
            except HostError as error:
                failure = failure or error
        if failure is not None:
            self.stop(started)
            raise failure
        return started

    def list_all(self) -> ProcessList:
        """Return all processes that the agent sees, others' too. Raises HostError."""
        fields = self._link.request("list_all", {}).fields
        processes = tuple(SeenProcess(*each) for each in fields["processes"])
        return ProcessList(fields["agent"], fields["namespace"], processes)

    def run_timetable(self, starts: Sequence[PlannedStart]) -> list[EndedProcess]:
        """Start processes at their instants, in this order, and wait until all have ended, by themselves or at a limit.

        All are stopped where one cannot be started. Raises HostError.
        """
        message = [
            {
                "service": start.service,
                "command": start.spec.command(),
                **_streams(start.spec),
                "at_ns": start.at_ns,
                "limit_ns": start.limit_ns,
            }
            for start in starts
        ]
        last_s = self._clock().to_controller_s(max(start.limit_ns for start in starts))
        total_s = max(0.0, last_s - time.monotonic()) + STOP_TIMEOUT_S
        logger.debug("%s: starting %d processes at planned instants", self._host, len(starts))
        reply = self._link.request("timetable_run", {"starts": message}, timeout_s=total_s)
        return [
            EndedProcess(report["started_ns"], report["late_s"], _exit_status(report), report["overran"])
            for report in reply.fields["processes"]
        ]

    def stop_timetable(self) -> None:
        """Start no more processes of a running timetable. Raises HostError."""
        self._link.request("timetable_stop", {})

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
        args = {"command": spec.command(), "timeout_s": timeout_s, "max_bytes": max_bytes}
        reply = self._link.request("run", args, stdin, timeout_s=timeout_s)
        status = _exit_status(reply.fields)
        if status is None:
            raise HostError(f"{argv[0]} could not be ended after {timeout_s:g} s", where=self._host)
        stdout_size = reply.fields["stdout_size"]
        return Completed(
            argv=tuple(argv),
            ended=status,
            stdout=reply.body[:stdout_size],
            stderr=reply.body[stdout_size:],
            dropped=sum(output["dropped"] for output in reply.fields["outputs"].values()),
            timed_out=reply.fields["timed_out"],
        )

    def stop(
        self, processes: Iterable[HostProcess], *, signum: signal.Signals = signal.SIGTERM, grace_s: float = 5
    ) -> Stopped:
        """Stop processes with all their descendants: send `signum`, and kill them after the grace period.

        Processes that have ended are ignored. Raises HostError naming those that could not be stopped.
        """
        ids = [process.id for process in processes]
        reply = self._link.request(
            "stop", {"ids": ids, "signum": int(signum), "grace_s": grace_s}, timeout_s=grace_s + STOP_TIMEOUT_S
        ).fields
        if reply["survivors"]:
            names = [
                f"{each['name']} ({each['pid']}: {each['why'] or 'it is still there'})" for each in reply["survivors"]
            ]
            raise HostError("processes could not be stopped", where=self._host, why=", ".join(names))
        return Stopped(
            ended={report["id"]: _exit_status(report) for report in reply["processes"]},
            killed=tuple(f"{each['name']} ({each['pid']})" for each in reply["killed"]),
        )

    def cpu_times(self, processes: Iterable[HostProcess]) -> Mapping[int, CpuTime]:
        """Return the CPU times of process trees, by `HostProcess.id`, all read at once. Raises HostError."""
        reply = self._link.request("cpu_times", {"ids": [process.id for process in processes]}).fields
        return {int(number): CpuTime(**used) for number, used in reply["cpu"].items()}

    def members(self, process: HostProcess) -> tuple[int, ...]:
        """Return the pids of a process and of its descendants. Raises HostError where all have ended."""
        pids = self.running_members(process)
        if not pids:
            raise HostError(f"no process of {process.argv[0]} is running", where=self._host)
        return pids

    def running_members(self, process: HostProcess) -> tuple[int, ...]:
        """Return the pids of a process and of its descendants that are running. Raises HostError."""
        trees = self._link.request("process_trees", {}).fields["processes"]
        return tuple(member["pid"] for tree in trees if tree["id"] == process.id for member in tree["members"])

    def _started(self, spec: ProcessSpec, future: Future[Reply], remaining_s: float) -> HostProcess:
        report = self._link.result(future, remaining_s).fields
        argv = tuple(spec.argv)
        return HostProcess(
            self._link,
            self._host,
            report["id"],
            report["pid"],
            report["start"],
            argv,
            report["started_ns"],
            report["late_s"],
        )


def _streams(spec: ProcessSpec) -> dict[str, Any]:
    return {name: _stream(getattr(spec, name)) for name in ("stdout", "stderr")}


def _stream(stream: ToFile | str | None) -> dict[str, Any] | str | None:
    return {**asdict(stream), "path": str(stream.path)} if isinstance(stream, ToFile) else stream


def _exit_status(report: Mapping[str, Any]) -> ExitStatus | None:
    return None if report["ended"] is None else ExitStatus(**report["ended"])
