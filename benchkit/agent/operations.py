"""The operations of the agent, requests and their results, as dataclasses that both ends use.

A field `body` of an operation or of a result travels as the body of its frame, everything else as JSON. Paths are below
the work directory, relative to it or absolute; instants are on the host's monotonic clock. A new operation needs its
class here, a line in `benchkit.agent.server`, and a request in `tests/contract/agent/test_operations.py`.
"""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field, is_dataclass
from functools import lru_cache
from itertools import repeat
from typing import (
    Any,
    Dict,
    Generic,
    List,
    Literal,
    NamedTuple,
    Optional,
    Tuple,
    Type,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

from benchkit.agent.frames import JsonObject

Result_co = TypeVar("Result_co", covariant=True)


class Operation(Generic[Result_co]):
    """A request to an agent, whose result is a `Result_co`. Subclasses are dataclasses whose instances never change.

    Frozen classes would take Python three times as long to create, at every start of an agent.
    """


# --- the host ---------------------------------------------------------------------------------------------------------


@dataclass
class Hello:
    """The first message of an agent, which answers no request."""

    pid: int
    watchdog: int
    """Pid of the agent's watchdog."""
    workdir: str


@dataclass
class Clocks:
    """The clocks of a host."""

    monotonic_ns: int
    wall_ns: int


@dataclass
class ReadClocks(Operation[Clocks]):
    """Read the clocks, for comparison with the controller's."""


@dataclass
class Goodbye(Operation[None]):
    """Announce an orderly end of the connection: the watchdog then reports only failures to restore."""


@dataclass
class FileStatus:
    """Size and time of change of a file, following links."""

    bytes: int
    changed_s: float


@dataclass
class GatheredFacts:
    """The facts about a host."""

    facts: JsonObject
    """The facts, which `benchkit.hosts.facts` converts."""
    files: Dict[str, Optional[FileStatus]]
    """Status by path; None where the file does not exist."""
    full_disk: Optional[str]
    """Free space of the work directory's disk, as a phrase, where that disk is full."""


@dataclass
class GatherFacts(Operation[GatheredFacts]):
    """Gather the facts about the host."""

    tools: Dict[str, List[str]]
    """Name → command that prints the version; a single word only searches for the program."""
    sysctls: List[str]
    sudo: bool = False
    """True to check that sudo needs no password."""
    files: List[str] = field(default_factory=list)
    """Absolute paths of files whose status is wanted."""


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass
class MissingFiles(Operation[List[Tuple[str, int]]]):
    """Return the items of `files` (hash, mode) that the store does not have."""

    files: List[Tuple[str, int]]


@dataclass
class UploadChunk(Operation[bool]):
    """Write a chunk of a file to the store, in any order; return True where it completes the file."""

    token: str
    """Name of the upload."""
    sha256: str
    mode: int
    size: int
    """Size of the whole file, in bytes."""
    offset: int
    body: bytes = b""


@dataclass
class PlaceFiles(Operation[List[str]]):
    """Place stored files (path, hash, mode); return the paths that were not in place already."""

    files: List[Tuple[str, str, int]]


@dataclass
class MakeFolder(Operation[str]):
    """Make a folder and its parents, unless they exist; return its absolute path."""

    path: str


@dataclass
class MakeTemporaryFolder(Operation[str]):
    """Make a folder, unless it exists; it is removed at the agent's end at the latest. Return its absolute path."""

    path: str


@dataclass
class WriteTemporaryFile(Operation[bool]):
    """Write a file, removed at the agent's end at the latest; return False where it is in place already."""

    path: str
    mode: int
    owner: Optional[str] = None
    """User of the host; None: the login user."""
    body: bytes = b""


@dataclass
class RemovePath(Operation[bool]):
    """Remove a file, or a folder with its content; return False where there is none."""

    path: str


@dataclass
class RemoveWorkdir(Operation[str]):
    """Remove the work directory and return its path; refused while it has records of changes to undo."""


@dataclass
class ListFolder(Operation[Dict[str, Optional[int]]]):
    """Return the entries of a folder: name → size in bytes, None for an entry that is no regular file."""

    path: str


@dataclass
class FileChunk:
    """A chunk of a file, and the size of the whole file in bytes."""

    size: int
    body: bytes = b""


@dataclass
class ReadChunk(Operation[FileChunk]):
    """Return a chunk of a file, which includes all that processes have printed so far."""

    path: str
    offset: int
    limit: int


@dataclass
class CompressFile(Operation[str]):
    """Write a gzipped copy of a file as `path`.gz; return its absolute path."""

    path: str


@dataclass
class ArchiveFiles(Operation[None]):
    """Write a tar archive of files in the archive's own folder."""

    path: str
    names: List[str]


# --- processes --------------------------------------------------------------------------------------------------------


@dataclass
class CommandSpec:
    """A command to start."""

    argv: List[str]
    env: Dict[str, Optional[str]] = field(default_factory=dict)
    """Environment variables, added to the agent's; None removes one."""
    cwd: Optional[str] = None
    """Folder below the work directory, or an absolute path anywhere; None: the work directory itself."""
    cpus: Optional[List[int]] = None
    nofile: Optional[int] = None
    """Soft limit of open files."""
    group: Optional[str] = None
    """Name of its control group; see `CreateCgroup`."""
    own_group: bool = False
    """True to count it in a control group of its own where this host allows one: its processes cannot leave it."""
    stop_signum: int = signal.SIGTERM
    """Signal that asks it to end where the request to stop names none."""
    stop_grace_s: float = 1.0
    """Time between that signal and the kill."""


@dataclass
class StreamFile:
    """A file for an output; bytes beyond the limit are counted and dropped. None: no limit."""

    path: str
    max_bytes: Optional[int] = None


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
    full_disk: Optional[str] = None
    """Reason why nothing could be written to the work directory at that instant, with what was free on its disk; None
    where there was room."""

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
    """Its number, used in requests."""
    pid: int
    start: int
    """Its start in ticks since the host's boot, as in /proc/PID/stat."""
    started_ns: int
    ended: Optional[ExitStatus] = None
    """None while it runs."""
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
class StartProcess(Operation[ProcessReport]):
    """Start a process, now or at a given instant."""

    command: CommandSpec
    stdout: Optional[StreamFile] = None
    """None: discarded."""
    stderr: Optional[StreamFile] = None
    merge_stderr: bool = False
    """True to write stderr to the file of stdout."""
    at_ns: Optional[int] = None


@dataclass
class CompletedCommand:
    """A command after its end or timeout; the body has its stdout, then its stderr."""

    process: ProcessReport
    timed_out: bool
    stdout_size: int
    body: bytes = b""


@dataclass
class RunCommand(Operation[CompletedCommand]):
    """Run a short command with `body` as its input; each output is kept up to `max_bytes`."""

    command: CommandSpec
    timeout_s: float
    max_bytes: int
    body: bytes = b""


@dataclass
class WaitForProcess(Operation[ProcessReport]):
    """Wait for the end of a process, at most for a time."""

    id: int
    timeout_s: float


@dataclass
class StoppedProcesses:
    """The outcome of stopping processes."""

    processes: List[ProcessReport]
    killed: List[NamedProcess]
    """Processes, descendants included, that had to be killed after the grace period."""
    survivors: List[NamedProcess]


@dataclass
class StopProcesses(Operation[StoppedProcesses]):
    """Signal processes with all their descendants; kill those that are running after the grace period."""

    ids: List[int]
    signum: int
    grace_s: float


@dataclass
class CountByCgroup(Operation[None]):
    """Count the processes and the CPU time of a control group for a started process."""

    id: int
    path: str
    """Path below the mount point, or as in /proc/PID/cgroup: `/machine.slice/libpod-1f.scope`; it may appear later."""


@dataclass
class WatchProcesses(Operation[ProcessReport]):
    """Watch processes of other programs together, like one process, and never signal them. Give exactly one field."""

    cgroup: Optional[str] = None
    """Path of their control group, as `path` of `CountByCgroup`."""
    unit: Optional[str] = None
    """Name of their systemd unit and of its control group: `app.service`."""
    pattern: Optional[str] = None
    """Regular expression that matches a part of their command lines."""


@dataclass
class StartedTree:
    """A started process that is running, or has running descendants."""

    process: ProcessReport
    argv: List[str]
    members: List[NamedProcess]
    """The running ones of the process and its descendants."""


@dataclass
class ListTrees(Operation[List[StartedTree]]):
    """Return the trees of the started processes."""


class SeenProcess(NamedTuple):
    """A process of the machine, as the kernel lists it."""

    pid: int
    parent: int
    start: float
    """Start of the process; its unit depends on the source of the list."""
    name: str
    cpu_s: float
    """CPU time of the process, and of its children that ended and were waited for."""


@dataclass
class ProcessList:
    """All processes that an agent sees."""

    agent: int
    """Pid of the agent."""
    namespace: Optional[str]
    """PID namespace of the processes; None: unknown."""
    processes: List[SeenProcess]


@dataclass
class ListProcesses(Operation[ProcessList]):
    """Return all visible processes, also those of other programs and users."""


@dataclass
class CpuTime:
    """CPU time in seconds: of a process with its running and ended descendants, or of its control group."""

    user_s: float
    system_s: float
    processes: int
    """Number of live processes."""

    @property
    def total_s(self) -> float:
        """User and system time."""
        return self.user_s + self.system_s


@dataclass
class ReadCpuTimes(Operation[Dict[int, CpuTime]]):
    """Return the CPU times of process trees, by the number of the process, all read at once."""

    ids: List[int]


@dataclass
class ScheduledStart:
    """A process that a timetable starts, and its time limits."""

    service: str
    """Its name in the telemetry."""
    start: StartProcess
    limit_ns: int
    """Instant at which it is asked to end, if it is still running."""
    grace_s: float
    """Time after `limit_ns` at which it is killed."""


@dataclass
class ScheduledProcess:
    """A process of a timetable after its end."""

    process: ProcessReport
    overran: bool
    """True where it was still running at its limit."""


@dataclass
class RunTimetable(Operation[List[ScheduledProcess]]):
    """Start processes at their instants, one after the other, and wait until all have ended."""

    starts: List[ScheduledStart]


@dataclass
class StopTimetable(Operation[None]):
    """End the processes of a running timetable and start no more; the request that runs it is then refused."""


# --- sockets ----------------------------------------------------------------------------------------------------------


@dataclass
class SocketAddress:
    """A TCP or UDP address and port, or the path of a unix socket."""

    tcp: Optional[Tuple[str, int]] = None
    unix: Optional[str] = None
    udp: Optional[Tuple[str, int]] = None
    """The address of a QUIC server."""


@dataclass
class PortProbe:
    """The outcome of waiting for a socket."""

    reached: bool
    elapsed_s: float
    error: Optional[str]
    """Error of the last attempt to connect."""
    process_ended: bool


@dataclass
class ProbePort(Operation[PortProbe]):
    """Wait until a socket accepts connections, or until `process` has ended."""

    at: SocketAddress
    timeout_s: float
    process: Optional[int] = None


@dataclass
class HttpPage:
    """A response over HTTP/1.1."""

    status: int
    body: bytes = b""


@dataclass
class GetHttp(Operation[HttpPage]):
    """Send a GET request over HTTP/1.1 and a new connection; return the response."""

    at: SocketAddress
    timeout_s: float
    path: str = "/"
    headers: List[Tuple[str, str]] = field(default_factory=list)
    max_bytes: int = 1 << 20
    """Largest body that is no error."""


TIME_WAIT = "TIME-WAIT"
"""State of a port after its connection has ended: the kernel keeps it for a minute, without a process."""


@dataclass
class PortOwner:
    """A socket that uses a port: a listener or a connection; fields that the login user may not see are None."""

    port: int
    address: Optional[str]
    uid: Optional[int]
    pid: Optional[int]
    command: Optional[str]
    state: Optional[str] = None
    """State of the socket, as ss(8) names it: LISTEN, ESTAB, TIME-WAIT, …"""
    peer: Optional[str] = None
    """Address and port of the other end of a connection."""
    start: Optional[int] = None
    """Start of its process, in ticks since the host's boot."""

    def __str__(self) -> str:
        """Return `nginx (pid 12)`, or `curl (pid 13), its connection to 10.0.0.1:80 (ESTAB)`."""
        if self.pid is not None:
            process = f"{self.command} (pid {self.pid})"
        elif self.state == TIME_WAIT:
            return f"a closed connection to {self.peer} ({TIME_WAIT}, which lasts up to 60 s)"
        else:
            process = "a process that is not visible" if self.uid is None else f"a process of uid {self.uid}"
        return process if self.peer is None else f"{process}, its connection to {self.peer} ({self.state})"


@dataclass
class FindPortOwners(Operation[Dict[int, List[PortOwner]]]):
    """Return the sockets on each of these TCP or UDP ports: listeners, else connections; none for a free port."""

    ports: List[int]
    udp: bool = False


@dataclass
class FindListeners(Operation[List[Tuple[str, int]]]):
    """Return the TCP or UDP addresses on which a started process and its descendants listen."""

    process: int
    udp: bool = False


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
    """The value read after writing."""
    why: Optional[str] = None


@dataclass
class ReadSysctls(Operation[Dict[str, Sysctl]]):
    """Return the state of each key."""

    keys: List[str]


@dataclass
class WriteSysctls(Operation[Dict[str, SysctlOutcome]]):
    """Set keys in the given order; all former values are saved on disk before the first write."""

    values: Dict[str, str]
    sudo: Optional[List[str]] = None
    """Command that writes settings this user may not write; `key=value` is appended."""
    scope: Optional[str] = None
    """Name under which `Restore` can restore these settings before all others."""


@dataclass
class CreateCgroup(Operation[str]):
    """Create a group whose processes share a quota of `cpus` CPUs, or change its quota; return its folder."""

    name: str
    cpus: float


@dataclass
class KeptContainers:
    """The marks of all that a connection creates with a container engine."""

    label: str
    """Label `NAME=VALUE` of its containers, networks and volumes."""
    parent: str
    """Control group of its containers, below the root group; removed with them."""


@dataclass
class TrackContainers(Operation[KeptContainers]):
    """Record that an engine is about to create containers and load images; the agent's end removes them."""

    engine: str
    images: List[str] = field(default_factory=list)


@dataclass
class FindCgroup(Operation[Optional[str]]):
    """Return the control group of any process, as in /proc/PID/cgroup; None where it has ended."""

    pid: int


@dataclass
class ExpectCleanup(Operation[None]):
    """Record a command; `Restore` with this scope runs it, or else the end of the agent, even by a kill."""

    argv: List[str]
    env: Dict[str, str]
    """Environment variables in addition to the login's."""
    within_s: float
    scope: str
    """Name of what is cleaned up, for messages too."""


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
    """User and machine of the controller."""
    since: Optional[float] = None
    """Seconds since 1970."""
    lease_s: Optional[float] = None
    heartbeat_age_s: Optional[float] = None
    """Age of the last heartbeat."""

    def __str__(self) -> str:
        if self.run is None or self.since is None:
            return f"process {self.pid}, which does not answer"
        return f"{self.run} of {self.who} since {time.strftime('%Y-%m-%d %H:%M:%S UTC', time.gmtime(self.since))}"


@dataclass
class HostRecords:
    """The traces of benchkit on a host."""

    records: List[JsonObject]
    """Changes to undo, each with its `state`: "mine", "other" of another live agent, or "abandoned"."""
    orphans: List[NamedProcess]
    """Processes started by an agent that no longer exists."""
    reports: List[JsonObject]
    """Reports of watchdogs, oldest first."""
    holder: Optional[LockHolder]


@dataclass
class ListRecords(Operation[HostRecords]):
    """Return the changes to undo, the reports of watchdogs and the holder of the host."""


@dataclass
class UndoneChange:
    """The outcome of undoing a recorded change."""

    record: JsonObject
    failures: List[str]
    """Reasons why it is not undone; its record is then kept. Empty: it is undone, verified by reading."""
    how: str
    """"undone", "rebooted" (a reboot had undone it), "kept" (it belongs to a run that is not finished) or "failed"."""
    notes: List[str] = field(default_factory=list)
    """Parts that stay as they are because somebody else has changed them since, as sentences."""


@dataclass
class Restore(Operation[List[UndoneChange]]):
    """Undo this agent's changes and, unless `own`, those of abandoned agents, whose processes are ended."""

    own: bool = False
    scope: Optional[str] = None
    """Undo only the agent's changes with this scope; None: all."""


@dataclass
class DeleteReport(Operation[None]):
    """Delete a report after reading it."""

    name: str


@dataclass
class LockResult:
    """The outcome of locking a host."""

    shared_with: Optional[str]
    """Host of the same run on the same machine that holds the lock; None: this connection holds it."""
    waited: bool
    """True where an earlier holder first restored its changes: facts gathered before are outdated."""


@dataclass
class LockHost(Operation[LockResult]):
    """Lock this host for a run."""

    run: str
    host: str
    """Name of the host in the inventory."""
    who: str
    """User and machine of the controller."""


@dataclass
class KeepStack(Operation[None]):
    """Keep processes and changes after the agent's end for `lease_s` seconds; None: until `ReleaseHost`."""

    lease_s: Optional[float] = None


@dataclass
class ReleaseHost(Operation[Optional[LockHolder]]):
    """End the holder of the host, which restores everything: a kept stack, or a run with an expired lease."""


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
    """True to sample the CPU time of each thread."""
    counters: Optional[CounterSource] = None


@dataclass
class StartTelemetry(Operation[None]):
    """Start to sample the host and these services, and write the samples to a new file."""

    path: str
    interval_s: float
    services: List[SampledService] = field(default_factory=list)
    core_interval_s: Optional[float] = None
    """Interval of core speeds; None: the interval of all samples."""


@dataclass
class AddServices(Operation[None]):
    """Sample more services."""

    services: List[SampledService]


@dataclass
class TelemetrySnapshot:
    """The result of sampling everything once, outside of the regular interval."""

    at_ns: int
    """Instant just before the sample."""
    processes: Dict[str, Tuple[Tuple[int, int], ...]]
    """Live processes of each service: pid, and start in the kernel's ticks since boot."""
    cpu_s: Dict[str, float] = field(default_factory=dict)
    """CPU time of each service in the sample; services without a value are absent."""
    escapes: Dict[str, str] = field(default_factory=dict)
    """Reasons why CPU time of children may be missing, by service; only for services that no control group counts."""


@dataclass
class TakeSnapshot(Operation[TelemetrySnapshot]):
    """Sample now, outside of the regular interval."""


@dataclass
class ScheduleSnapshots(Operation[None]):
    """Sample at these instants; regular samples pause until the last of them is over."""

    at_ns: List[int]


@dataclass
class ScheduleSamples(Operation[None]):
    """Sample expensive data (connections and clock rates) at these instants."""

    at_ns: List[int]


@dataclass
class ReadLatest(Operation[Dict[str, Dict[str, Tuple[int, float]]]]):
    """Return the last values of each service: metric → (instant in ns, value); nothing without a session."""


@dataclass
class TelemetrySummary:
    """The end of a telemetry session."""

    cpu_quota: Optional[float]
    """CPU quota that control groups give the host; None: no quota."""
    unavailable: List[str]
    """Data that one or more samples lack, with the reasons."""


@dataclass
class StopTelemetry(Operation[Optional[TelemetrySummary]]):
    """End the session; return None where none is running."""


# --- conversion -------------------------------------------------------------------------------------------------------


def encode(value: object) -> Tuple[Any, bytes]:
    """Return an operation or a result as JSON and a body; dataclasses within it are left to `frames.pack`."""
    if not is_dataclass(value):
        return value, b""
    fields = dict(vars(value))
    return fields, fields.pop("body", b"")


def decode_operation(name: str, fields: JsonObject, body: bytes) -> Operation[Any]:
    """Return the operation of a request. Raises KeyError for an unknown operation, TypeError for wrong fields."""
    operation: Operation[Any] = decode(OPERATIONS[name], {**fields, "body": body} if body else fields)
    return operation


def decode_result(operation: Type[Operation[Result_co]], value: Any, body: bytes) -> Result_co:  # noqa: ANN401 - any JSON value
    """Return the result of an operation. Raises AttributeError, KeyError, TypeError or ValueError for wrong values."""
    result: Result_co = decode(_result_type(operation), {**value, "body": body} if body else value)
    return result


def decode(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any type and its value in JSON
    """Convert JSON to a value of a type: a dataclass, a container of dataclasses, or a type of JSON itself."""
    if value is None or kind in (Any, bytes):
        return value
    if isinstance(kind, type) and is_dataclass(kind):
        types = _field_types(kind)
        return kind(**{name: decode(types[name], each) for name, each in value.items()})
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Union:  # Optional
        return decode(parts[0], value)
    if origin is list:
        return [decode(parts[0], each) for each in value]
    if origin is dict:
        return {parts[0](name): decode(parts[1], each) for name, each in value.items()}
    if origin is tuple:
        kinds = repeat(parts[0]) if parts[-1] is Ellipsis else parts
        value = tuple(decode(part, each) for part, each in zip(kinds, value))  # noqa: B905 - Python 3.8 has no strict
    return SeenProcess(*value) if kind is SeenProcess else value


@lru_cache(maxsize=None)
def _field_types(kind: Any) -> Dict[str, Any]:  # noqa: ANN401 - a dataclass
    return get_type_hints(kind)


def _result_type(operation: Any) -> Any:  # noqa: ANN401 - a class that names its result: `Operation[…]`
    return get_args(operation.__orig_bases__[0])[0]


OPERATIONS: Dict[str, Type[Operation[Any]]] = {each.__name__: each for each in Operation.__subclasses__()}
"""All operations by class name, which is also their name in a frame."""
