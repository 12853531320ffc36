"""Processes on a host: started by argument list, waited for, stopped with everything that they started themselves."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from benchkit.errors import HostError
from benchkit.hosts.agent_link import Link, Reply
from benchkit.hosts.clock import Clock
from benchkit.hosts.files import HostPath

OUTPUT_BYTES = 64 << 20
"""More than any tool or service of ours prints; whoever does floods the disk."""


@dataclass(frozen=True)
class FromFile:
    """Input from a file below the work directory."""

    path: HostPath


@dataclass(frozen=True)
class ToFile:
    """Output to a file below the work directory; what goes beyond the ceiling is counted and dropped."""

    path: HostPath
    max_bytes: int | None = OUTPUT_BYTES
    """None: no ceiling, and no agent in between."""


@dataclass(frozen=True)
class Pipe:
    """A pipe between two processes of the host, by a name that both give."""

    name: str


@dataclass(frozen=True)
class Start:
    """A process to start: data, to be shown and to be carried out."""

    argv: Sequence[str]
    env: Mapping[str, str | None] = field(default_factory=dict)
    """On top of the host's; None takes a name away."""
    cwd: HostPath | None = None
    """Below the work directory; None: the work directory."""
    cpus: Sequence[int] | None = None
    """None: all of the host's."""
    nofile: int | None = None
    """Soft limit of open files; None: as the login has it."""
    group: str | None = None
    """The control group that it runs in, made before (`Changes.group`)."""
    stdin: FromFile | Pipe | None = None
    stdout: ToFile | Pipe | None = None
    stderr: ToFile | Pipe | Literal["stdout"] | None = None

    def command(self) -> dict[str, Any]:
        """What agents call the command: all but the streams."""
        return {
            "argv": list(self.argv),
            "env": dict(self.env),
            "cwd": None if self.cwd is None else str(self.cwd),
            "cpus": None if self.cpus is None else list(self.cpus),
            "nofile": self.nofile,
            "group": self.group,
        }


@dataclass(frozen=True)
class Output:
    """What became of an output with a ceiling; sizes in bytes."""

    size: int
    dropped: int
    error: str | None
    """Why it could not be written, such as a full disk."""


@dataclass(frozen=True)
class Ended:
    """How a process ended, and what it used together with the children it waited for."""

    at_ns: int
    """On the host's monotonic clock."""
    exit_code: int | None
    """None where a signal ended it."""
    signal: int | None
    user_s: float
    system_s: float
    max_rss_bytes: int
    """Linux counts what the agent had when it started the process: only figures well above 20 MB mean anything."""
    voluntary_switches: int
    involuntary_switches: int
    memory_kills: int | None = None
    """Where a signal ended it: how many processes its host's kernel has killed for lack of memory since it was started."""

    def __str__(self) -> str:
        """For messages: `exit code 1`, `signal SIGKILL`."""
        if self.signal is None:
            return f"exit code {self.exit_code}"
        out_of_memory = self.signal == signal.SIGKILL and self.memory_kills
        why = ": its host ran out of memory, and the kernel killed" if out_of_memory else ""
        return f"signal {signal.Signals(self.signal).name}{why}"


@dataclass(frozen=True)
class Completed:
    """A short command that ran to its end, or was ended when its time was up (then `timed_out`)."""

    argv: tuple[str, ...]
    ended: Ended
    stdout: bytes
    stderr: bytes
    dropped: int
    """Bytes of output beyond the ceiling."""
    timed_out: bool

    @property
    def ok(self) -> bool:
        """Whether it ended with exit code 0 in time."""
        return self.ended.exit_code == 0 and not self.timed_out


@dataclass(frozen=True)
class CpuTime:
    """CPU time of a process with all its descendants, those that ended too; seconds."""

    user_s: float
    system_s: float
    processes: int
    """How many of them live."""

    @property
    def total_s(self) -> float:
        """User and system."""
        return self.user_s + self.system_s


@dataclass(frozen=True)
class Process:
    """A process that was started on a host; its methods are safe for many threads."""

    link: Link = field(repr=False)
    host: str
    id: int
    pid: int
    argv: tuple[str, ...]
    started_ns: int
    """On the host's monotonic clock."""
    late_s: float | None
    """How much later than the instant asked for; None where none was."""

    def wait(self, timeout_s: float) -> Ended | None:
        """Wait for its end; None where the time was too short. Raises HostError."""
        return _ended(self.link.request("wait", {"id": self.id, "timeout_s": timeout_s}, time_s=timeout_s).fields)

    def outputs(self) -> Mapping[str, Output]:
        """What became of those of "stdout" and "stderr" that have a ceiling. Raises HostError."""
        report = self.link.request("wait", {"id": self.id, "timeout_s": 0}).fields
        return {name: Output(**output) for name, output in report["outputs"].items()}


@dataclass(frozen=True)
class Stopped:
    """What it took to stop processes."""

    ended: Mapping[int, Ended | None]
    """By `Process.id`; None for one that would not end."""
    killed: tuple[str, ...]
    """Those, descendants among them, that did not go when they were asked to: `name (pid)`."""


class Processes:
    """The processes of one host; safe for many threads."""

    def __init__(self, link: Link, host: str, clock: Callable[[], Clock]) -> None:
        """Speak to the host's agent over its link; `clock` compares the host's with ours when an instant is agreed."""
        self._link = link
        self._host = host
        self._clock = clock

    def start(self, start: Start) -> Process:
        """Start a process. Raises HostError where it cannot be started."""
        return self.start_all([start])[0]

    def start_all(self, starts: Iterable[Start], at_s: float | None = None) -> list[Process]:
        """Start processes, all at the instant `at_s` of the controller's `time.monotonic()` where one is given.

        Where one cannot be started, the others are stopped again. Raises HostError.
        """
        starts = list(starts)
        at_ns = None if at_s is None else self._clock().on_host_ns(at_s)
        left_s = 0.0 if at_s is None else max(0.0, at_s - time.monotonic())
        asked = [
            self._link.submit("start", {"command": each.command(), **_streams(each), "at_ns": at_ns}) for each in starts
        ]
        started: list[Process] = []
        failure: HostError | None = None
        for each, future in zip(starts, asked, strict=True):
            try:
                started.append(self._started(each, future, left_s))
            except HostError as error:
                failure = failure or error
        if failure is not None:
            self.stop(started)
            raise failure
        return started

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
        """Run a short command to its end; of each output at most `max_bytes` are kept. Raises HostError."""
        start = Start(argv, env or {}, cwd, cpus, nofile)
        args = {"command": start.command(), "timeout_s": timeout_s, "max_bytes": max_bytes}
        reply = self._link.request("run", args, stdin, time_s=timeout_s)
        ended = _ended(reply.fields)
        if ended is None:
            raise HostError(f"{argv[0]} could not be ended after {timeout_s:g} s", where=self._host)
        cut = reply.fields["stdout_size"]
        return Completed(
            argv=tuple(argv),
            ended=ended,
            stdout=reply.body[:cut],
            stderr=reply.body[cut:],
            dropped=sum(output["dropped"] for output in reply.fields["outputs"].values()),
            timed_out=reply.fields["timed_out"],
        )

    def stop(
        self, processes: Iterable[Process], *, signum: signal.Signals = signal.SIGTERM, grace_s: float = 5
    ) -> Stopped:
        """Stop processes with all their descendants: `signum` to all, and after the grace the end by force.

        Fine for those that have ended. Raises HostError naming what could not be stopped.
        """
        ids = [process.id for process in processes]
        reply = self._link.request(
            "stop", {"ids": ids, "signum": int(signum), "grace_s": grace_s}, time_s=grace_s + 5
        ).fields
        if reply["survivors"]:
            names = [
                f"{each['name']} ({each['pid']}: {each['why'] or 'it is still there'})" for each in reply["survivors"]
            ]
            raise HostError("processes could not be stopped", where=self._host, why=", ".join(names))
        return Stopped(
            ended={report["id"]: _ended(report) for report in reply["processes"]},
            killed=tuple(f"{each['name']} ({each['pid']})" for each in reply["killed"]),
        )

    def cpu(self, processes: Iterable[Process]) -> Mapping[int, CpuTime]:
        """CPU time of process trees so far, by `Process.id`, all of one look. Raises HostError."""
        reply = self._link.request("cpu", {"ids": [process.id for process in processes]}).fields
        return {int(number): CpuTime(**used) for number, used in reply["cpu"].items()}

    def _started(self, start: Start, future: Future[Reply], left_s: float) -> Process:
        report = self._link.result(future, left_s).fields
        argv = tuple(start.argv)
        return Process(
            self._link, self._host, report["id"], report["pid"], argv, report["started_ns"], report["late_s"]
        )


def _streams(start: Start) -> dict[str, Any]:
    return {name: _stream(getattr(start, name)) for name in ("stdin", "stdout", "stderr")}


def _stream(stream: FromFile | ToFile | Pipe | str | None) -> dict[str, Any] | str | None:
    match stream:
        case Pipe(name):
            return {"pipe": name}
        case FromFile() | ToFile():
            return {**asdict(stream), "path": str(stream.path)}
        case _:
            return stream


def _ended(report: Mapping[str, Any]) -> Ended | None:
    return None if report["ended"] is None else Ended(**report["ended"])
