"""Operations: methods of the agent that the controller calls by name, and the types that both ends use.

An operation is an annotated method of one of the agent's objects, marked with `@operation`. Its arguments travel as
JSON, except a parameter `body`, which is the body of the frame; so does a field `body` of a result. Paths are below the
work directory, relative to it or absolute; instants are on the host's monotonic clock. Each operation needs a call in
`tests/contract/agent/test_operations.py`.
"""

from __future__ import annotations

import collections.abc
import inspect
import signal
import time
from dataclasses import dataclass, field, is_dataclass
from functools import lru_cache
from itertools import repeat
from pathlib import PurePath, PurePosixPath
from typing import (
    Any,
    Callable,
    Dict,
    List,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from benchkit.agent.common import with_port
from benchkit.agent.frames import JsonObject

Method = TypeVar("Method", bound=Callable[..., Any])

HostPath = Union[str, PurePosixPath]
"""A path on a host: absolute, or relative to its work directory."""

OPERATIONS: Dict[str, float] = {}
"""All operations as `Class.method`, with the seconds that each may take."""


def operation(within_s: float = 0.0) -> Callable[[Method], Method]:
    """Mark a method as an operation; `within_s` is the time that it may take, beyond what an answer always may."""

    def mark(method: Method) -> Method:
        OPERATIONS[method.__qualname__] = within_s
        return method

    return mark


def encode_call(
    method: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, object]
) -> Tuple[JsonObject, Any]:
    """Return the arguments of a call as JSON and a body. Raises TypeError for arguments that do not fit."""
    arguments = dict(inspect.signature(method).bind(None, *args, **kwargs).arguments)
    del arguments["self"]
    return arguments, arguments.pop("body", b"")


def execute(target: object, name: str, arguments: JsonObject, body: bytes) -> object:
    """Call an operation of an agent's object with arguments from JSON. Raises KeyError or TypeError for wrong ones."""
    types = _types(getattr(type(target), name))
    decoded = {key: decode(types[key], value) for key, value in arguments.items()}
    return getattr(target, name)(**decoded, **({"body": body} if body else {}))


def encode(value: object) -> Tuple[Any, bytes]:
    """Return a result as JSON and a body; dataclasses within it are left to `frames.pack`."""
    if not is_dataclass(value):
        return value, b""
    fields = dict(vars(value))
    return fields, fields.pop("body", b"")


def decode_result(method: Callable[..., Any], value: Any, body: bytes) -> Any:  # noqa: ANN401 - any result
    """Return the result of an operation. Raises AttributeError, KeyError, TypeError or ValueError for wrong values."""
    return decode(_types(method)["return"], {**value, "body": body} if body else value)


def decode(kind: Any, value: Any) -> Any:  # noqa: ANN401, PLR0911 - any type and its value in JSON
    """Convert JSON to a value of a type: a dataclass, a named tuple, a path, or a container of them."""
    if value is None or kind in (Any, bytes):
        return value
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Union:  # Optional, or a dataclass beside types of JSON itself
        kinds = [part for part in parts if isinstance(value, dict) == is_dataclass(part)] or parts
        return decode(kinds[0], value)
    if origin in (list, collections.abc.Sequence):
        return [decode(parts[0], each) for each in value]
    if origin in (dict, collections.abc.Mapping):
        return {parts[0](name): decode(parts[1], each) for name, each in value.items()}
    if origin is tuple:
        of_items = repeat(parts[0]) if parts[-1] is Ellipsis else parts
        return tuple(decode(part, each) for part, each in zip(of_items, value))  # noqa: B905 - Python 3.8 has no strict
    if not isinstance(kind, type):
        return value
    if is_dataclass(kind):
        types = _types(kind)
        return kind(**{name: decode(types[name], each) for name, each in value.items()})
    if issubclass(kind, PurePath):
        return kind(value)
    return kind(*value) if issubclass(kind, tuple) else value


@lru_cache(maxsize=None)
def _types(annotated: Any) -> Dict[str, Any]:  # noqa: ANN401 - a dataclass or a method
    return get_type_hints(annotated)


# --- the host ---------------------------------------------------------------------------------------------------------
@dataclass
class Hello:
    """The first message of an agent, which answers no request."""

    pid: int
    watchdog: int
    workdir: str


@dataclass
class Clocks:
    """The clocks of a host."""

    monotonic_ns: int
    wall_ns: int


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass
class FileChunk:
    """A chunk of a file, and the size of the whole file in bytes."""

    size: int
    body: bytes = b""


# --- processes --------------------------------------------------------------------------------------------------------

OUTPUT_BYTES = 64 << 20
"""Default limit of an output file: more than any tool or service prints, and too little to fill the disk."""


@dataclass(frozen=True)
class ToFile:
    """Output to a file below the work directory; bytes beyond the limit are counted and dropped."""

    path: HostPath
    max_bytes: Optional[int] = OUTPUT_BYTES
    """Limit in bytes; None: no limit, and the process writes to the file directly."""


@dataclass(frozen=True)
class StopSignal:
    """The signal that asks a process tree to end, and the time after which it is killed."""

    signum: int = signal.SIGTERM
    within_s: float = 1.0


@dataclass(frozen=True)
class ProcessSpec:
    """A process to start."""

    argv: Sequence[str]
    env: Mapping[str, Optional[str]] = field(default_factory=dict)
    """Variables in addition to the login's; None removes a variable."""
    cwd: Optional[HostPath] = None
    """Folder below the work directory, or an absolute path anywhere; None: the work directory."""
    cpus: Optional[Sequence[int]] = None
    """CPU affinity; None: all CPUs of the host."""
    nofile: Optional[int] = None
    """Soft limit of open files; None: the login's limit."""
    group: Optional[str] = None
    """Name of its control group, created by `Cgroups.create`."""
    stdout: Optional[ToFile] = None
    stderr: Union[ToFile, Literal["stdout"], None] = None
    stop: StopSignal = StopSignal()
    """Signal and grace period with which agent or watchdog stop it if the controller does not."""


@dataclass
class OutputSize:
    """The size of an output with a limit, in bytes."""

    size: int
    dropped: int
    error: Optional[str]
    """Error that ended the writing, such as a full disk; later output is dropped."""
    is_host_state: bool = False
    """True where `error` is a state of the host that may pass."""


@dataclass
class ExitStatus:
    """The end of a process, with the resources used by it and by the children it waited for."""

    at_ns: int
    exit_code: Optional[int]
    """None where a signal ended it."""
    signal: Optional[int]
    user_s: float
    system_s: float
    memory_kills: Optional[int] = None
    """Processes that the host's kernel killed for lack of memory since the start; None where no signal ended the
    process or its child."""

    def __str__(self) -> str:
        """Return `exit code 1`, `signal SIGKILL` and the like."""
        if self.signal is None:
            return f"exit code {self.exit_code}"
        out_of_memory = self.signal == signal.SIGKILL and self.memory_kills
        why = ": its host ran out of memory, and the kernel killed processes" if out_of_memory else ""
        return f"signal {signal.Signals(self.signal).name}{why}"


@dataclass
class ProcessReport:
    """A process that the agent started."""

    id: int
    pid: int
    start: int
    """Its start in ticks since the host's boot, as in /proc/PID/stat."""
    started_ns: int
    ended: Optional[ExitStatus] = None
    outputs: Dict[str, OutputSize] = field(default_factory=dict)
    """Sizes of those of "stdout" and "stderr" that have a limit."""


@dataclass
class NamedProcess:
    """A process by pid and name."""

    pid: int
    name: str
    why: Optional[str] = None
    """Reason why it could not be ended; None where this was not tried, or the reason is unknown."""


@dataclass
class Completed:
    """A short command that has ended, or was killed at its timeout (`timed_out`)."""

    ended: ExitStatus
    timed_out: bool
    stdout_size: int
    body: bytes = b""

    @property
    def stdout(self) -> bytes:
        """Standard output."""
        return self.body[: self.stdout_size]

    @property
    def stderr(self) -> bytes:
        """Standard error."""
        return self.body[self.stdout_size :]

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
        return self.printed_errors or self.stdout.decode(errors="replace").strip()


@dataclass
class StoppedProcesses:
    """The outcome of stopping processes."""

    processes: List[ProcessReport]
    killed: List[NamedProcess]
    """Processes, descendants included, that had to be killed after the grace period."""
    survivors: List[NamedProcess]


class SeenProcess(NamedTuple):
    """A process of the machine, as the kernel lists it."""

    pid: int
    parent: int
    start: float
    """Start of the process; its unit depends on the source of the list."""
    name: str
    cpu_s: float
    """CPU time of the process, without its children."""


@dataclass
class ProcessList:
    """All processes that an agent sees."""

    agent: int
    namespace: Optional[str]
    """PID namespace of the processes; None: unknown."""
    processes: List[SeenProcess]


class CpuTime(NamedTuple):
    """CPU time in seconds: of a process with its running and ended descendants, or of its control group."""

    total_s: float
    user_s: float


@dataclass
class ScheduledStart:
    """A process that a timetable starts, and its time limits."""

    service: str
    process: ProcessSpec
    at_ns: int
    limit_ns: int
    """Instant at which it is asked to end, if it is still running."""
    grace_s: float
    """Time after `limit_ns` at which it is killed."""


@dataclass
class ScheduledProcess:
    """A process of a timetable after its end."""

    process: ProcessReport
    overran: bool


# --- sockets ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class SocketAddress:
    """An address of a server on a host; over UDP it speaks QUIC."""

    kind: Literal["tcp", "udp", "unix"]
    address: str
    """An IP address, or the path of a unix socket."""
    port: int = 0

    def __str__(self) -> str:
        """Return `10.0.0.1:8080`, `[::1]:8080`, `UDP 10.0.0.1:8443` or `unix:/path`."""
        if self.kind == "unix":
            return f"unix:{self.address}"
        return f"{'UDP ' if self.kind == 'udp' else ''}{with_port(self.address, self.port)}"


@dataclass
class PortProbe:
    """The outcome of waiting for a socket."""

    reached: bool
    elapsed_s: float
    error: Optional[str]
    process_ended: bool


@dataclass
class HttpPage:
    """A response over HTTP/1.1."""

    status: int
    body: bytes = b""


@dataclass
class PortOwner:
    """A socket that listens on a port; fields that the login user may not see are None."""

    port: int
    address: Optional[str]
    uid: Optional[int]
    pid: Optional[int]
    command: Optional[str]
    start: Optional[int] = None
    """Start of its process, in ticks since the host's boot."""

    def __str__(self) -> str:
        """Return `nginx (pid 12)`, or what is known of a process that is not visible."""
        if self.pid is not None:
            return f"{self.command} (pid {self.pid})"
        return "a process that is not visible" if self.uid is None else f"a process of uid {self.uid}"


# --- changes of the host ----------------------------------------------------------------------------------------------


@dataclass
class Sysctl:
    """A kernel setting of a host."""

    state: Literal["present", "absent", "unreadable"]
    value: Optional[str]
    writable: bool
    """True where the login user may write it."""


@dataclass
class SysctlOutcome:
    """The outcome of writing a kernel setting."""

    outcome: str
    """"applied", "already", "absent", "unreadable", "read-only", "refused" (by the kernel or by sudo, for the reason
    `why`) or "differs" (the kernel stored another value)."""
    former: Optional[str] = None
    value: Optional[str] = None
    why: Optional[str] = None


@dataclass
class LockHolder:
    """The process that holds the lock of a host. Where it does not answer, the fields from its answer are None."""

    pid: int
    uid: Optional[int]
    state: str
    """"running"; "ending" where its agent has just ended; "kept" for a stack that stays up without an agent. A process
    that does not answer is "silent": it is stopped, or busy restoring changes."""
    run: Optional[str] = None
    host: Optional[str] = None
    who: Optional[str] = None
    since: Optional[float] = None
    """Seconds since 1970."""
    lease_s: Optional[float] = None
    heartbeat_age_s: Optional[float] = None

    def __str__(self) -> str:
        if self.run is None or self.since is None:
            return f"process {self.pid}, which does not answer"
        return f"{self.run} of {self.who} since {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(self.since))}"


@dataclass
class ChangeRecord:
    """A change on a host that has to be undone."""

    kind: str
    """sysctl, process, folder, …; "damaged" where the record cannot be read."""
    state: str
    """"mine", "other" of another live agent, or "abandoned"."""
    text: str
    pid: Optional[int] = None


@dataclass
class UndoneChange:
    """The outcome of undoing a recorded change."""

    text: str
    failures: List[str]
    """Reasons why it is not undone; its record is then kept. Empty: it is undone, verified by reading."""
    how: str
    """"undone", "rebooted" (a reboot had undone it), "kept" (it belongs to a run that is not finished) or "failed"."""


@dataclass
class WatchdogReport:
    """A report on restoring a host, for the next connection."""

    name: str
    at_s: float
    """Seconds since 1970."""
    reason: str
    run: Optional[str] = None
    undone: List[str] = field(default_factory=list)
    """Processes ended, settings restored and folders removed, as phrases for messages."""
    failures: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        run = f"run {self.run}: " if self.run else ""
        undone = f"; undone: {', '.join(self.undone)}" if self.undone else ""
        failed = f"; failed: {'; '.join(self.failures)}" if self.failures else ""
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(self.at_s))
        return f"{at} UTC, {run}{self.reason}{undone}{failed}"


@dataclass
class HostTraces:
    """The traces of benchkit on a host: changes to undo, reports of watchdogs, the holder of the host."""

    records: List[ChangeRecord]
    reports: List[WatchdogReport]
    """Oldest first."""
    holder: Optional[LockHolder]


@dataclass
class LockResult:
    """The outcome of locking a host."""

    shared_with: Optional[str]
    """Host of the same run on the same machine that holds the lock; None: this connection holds it."""
    waited: bool
    """True where an earlier holder first restored its changes: facts gathered before are outdated."""


# --- telemetry --------------------------------------------------------------------------------------------------------


@dataclass
class CounterSource:
    """The page on which a server shows its counters."""

    kind: str
    """Format of the page: `expvar`, `node` or `nginx`."""
    at: SocketAddress
    path: str
    handshake_logs: Dict[str, str] = field(default_factory=dict)
    """Logs by kind of TLS handshake, a line of two bytes for each; empty where the page has them, or without TLS."""


@dataclass
class SampledService:
    """A process to sample with all its descendants, under its name in the telemetry."""

    name: str
    process: Optional[int]
    """Number of the process; None: all processes that the timetable starts under this name.

    With `threads`, only the next one is sampled, with its descendants; without, the CPU time of all together.
    """
    listeners: List[SocketAddress] = field(default_factory=list)
    """Sockets whose accept queues and established connections are sampled."""
    threads: bool = False
    counters: Optional[CounterSource] = None


@dataclass
class TelemetrySnapshot:
    """The result of sampling everything once, outside of the regular interval."""

    at_ns: int
    processes: Dict[str, Tuple[Tuple[int, int], ...]]
    """Live processes of each service: pid, and start in the kernel's ticks since boot."""
    cpu_s: Dict[str, float] = field(default_factory=dict)
    """CPU time of each service in the sample; services without a value are absent."""


@dataclass
class TelemetrySummary:
    """The end of a telemetry session."""

    cpu_quota: Optional[float]
    """CPU quota that control groups give the host; None: no quota."""
    unavailable: List[str]
    """Data that one or more samples lack, with the reasons."""
