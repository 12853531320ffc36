"""Profiles and kernel traces captured on a host: by a Go program's own profiler, by perf, and by bpftrace."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, SocketAddress, ToFile
from benchkit.agent.settings import Sysctls
from benchkit.agent.undo import Undo
from benchkit.errors import HostError
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess

ATTACH_S = 4.0
"""Time before the load in which bpftrace attaches its probes: it compiles its program for one to two seconds."""
AFTER_S = 1.0
"""Time by which a trace outlasts the planned end of the load, so that it has the calls of all requests."""
END_TIMEOUT_S = 30.0
"""Time for bpftrace to remove its probes and to write its sums."""
FRAMES = 8
"""Frames of a kernel stack that are kept; they show what a thread waits for."""
TRACEFS = PurePosixPath("/", "sys", "kernel", "tracing")
BTF = PurePosixPath("/", "sys", "kernel", "btf", "vmlinux")
"""The kernel's type information."""
CLOSED = 0
"""Local port of a TCP socket in state CLOSE (inet_put_port of Linux)."""
OUTPUT, LOG = "trace.txt", "trace.log"
_BEGAN, _ENDED = re.compile(rb"began ([0-9]+)"), re.compile(rb"ended [0-9]+")

INITIAL_PIDS = "pid:[4026531836]"
"""The initial PID namespace (PROC_PID_INIT_INO of Linux); in others, process ids differ from the kernel's."""
_PID = "$id = (uint64)pid;"
_NUMBERS = """\
$pid = ((struct task_struct *)curtask)->group_leader->thread_pid; $at = (uint64)$pid + sizeof(struct pid);
  if ((uint64)*(int32 *)$at != (uint64)pid) {{ $at = $at - 16; }}"""
"""The ids of a process in its namespaces, 16 bytes each, the outermost first. They end `struct pid`, whose size
includes the first of them before Linux 6.5."""
_PID_IN_NAMESPACE = f"""\
{_NUMBERS}
  $own = $at + 16 * @level; $id = (uint64)0;
  if ($pid->level >= @level && *(uint64 *)($own + 8) == @namespace) {{{{ $id = (uint64)*(int32 *)$own; }}}}"""
_NAMESPACE = f"{_NUMBERS} @level = (uint64)$pid->level; @namespace = *(uint64 *)($at + 16 * @level + 8);"

_PEERS = """\
tracepoint:syscalls:sys_enter_read, tracepoint:syscalls:sys_enter_recvfrom, tracepoint:syscalls:sys_enter_recvmsg {{
  {id}
  if (@service[$id]) {{ $fd = (uint64)args->fd; {set_peer} }}
}}
tracepoint:syscalls:sys_enter_*poll {{
  {id}
  if (@service[$id]) {{ $fd = (uint64)*(uint32 *)uptr(args->ufds); {set_peer} }}
}}"""
_SET_PEER = """\
@peer[tid] = (uint64)0;
  $file = *(struct file **)kptr((uint64)((struct task_struct *)curtask)->files->fdt->fd + 8 * $fd);
  if (($file->f_inode->i_mode & 0xf000) == 0xc000) {{
    $sk = ((struct socket *)$file->private_data)->sk; $family = $sk->__sk_common.skc_family;
    if (($family == 2 || $family == 10) && !@own[(uint64)$sk->__sk_common.skc_num]) {{
      @peer[tid] = (uint64)$sk->__sk_common.skc_dport;
    }}
  }}"""
"""The port, in network byte order, of the server to which the socket is connected that a thread reads or polls (the
first of several); 0 for sockets of the service's own clients, which have the port that it listens on, and other files.
S_IFSOCK is 0xc000, AF_INET 2 and AF_INET6 10."""

_PROGRAM = """\
BEGIN {{ {services} {own_ports} {namespace} printf("began %llu\\n", nsecs); }}
{peers}
tracepoint:raw_syscalls:sys_enter {{
  {id}
  if (@service[$id]) {{ @calls[@service[$id], args->id] = count(); }}
}}
tracepoint:sched:sched_switch {{
  {id}
  $prev = args->prev_pid; $next = args->next_pid; $now = nsecs < {load_ns} ? (uint64){load_ns} : nsecs;
  if (@service[$id]) {{
    @of[$prev] = @service[$id]; @since[$prev] = $now; @where[$prev] = kstack({frames});
    if ((args->prev_state & 255) == 0) {{ @ready[$prev] = $now; }}
  }}
  if (@since[$next]) {{
    if (@ready[$next]) {{
      @blocked_ns[@of[$next], {peer}@where[$next]] = sum(@ready[$next] - @since[$next]);
      @runnable_ns[@of[$next], @where[$next]] = sum($now - @ready[$next]);
    }}
    delete(@since[$next]); delete(@ready[$next]); delete(@where[$next]);
  }}
}}
tracepoint:sched:sched_wakeup /@since[args->pid]/ {{ @ready[args->pid] = nsecs < {load_ns} ? (uint64){load_ns} : nsecs; }}
interval:ms:50 /nsecs >= {until_ns}/ {{ exit(); }}
END {{
  printf("ended %llu\\n", nsecs);
  clear(@service); clear(@of); clear(@since); clear(@where); clear(@ready); {clear_peers}
}}
"""
"""Sums by service number: calls by system call number, and nanoseconds off the CPU by kernel stack, of blocked threads
also by the port of the server whose answer they wait for. A thread is blocked
until it is woken, then runnable; a preempted thread is runnable at once. Waits begin at the planned start of the load
at the earliest. They count when they end, so threads that stay idle after the load do not count."""


@dataclass(frozen=True)
class CapturedTrace:
    """A trace: the output of bpftrace, and its CPU time."""

    content: bytes
    cpu_s: float


@dataclass(frozen=True)
class TraceCapture:
    """A running trace around a load, which starts at `load_s` of the controller's `time.monotonic()`."""

    host: Host
    process: HostProcess
    folder: PurePosixPath
    load_s: float
    until_s: float

    def finish(self, load_ended_s: float) -> CapturedTrace:
        """Wait for bpftrace, and return its sums. Raises HostError where they do not cover all of the load."""
        ended = self.process.wait(max(0.0, self.until_s - time.monotonic()) + END_TIMEOUT_S)
        if ended is None:
            self.stop()
            raise HostError("bpftrace did not end", where=self.host.name, why=f"within {END_TIMEOUT_S:g} s")
        content = self.host.files.read(self.folder / OUTPUT)
        began = _BEGAN.search(content)
        if began is None or _ENDED.search(content) is None:
            log = self.host.files.read(self.folder / LOG).decode(errors="replace").strip()
            why = " ".join(log.splitlines()[-1].split()) if log else "it printed nothing"
            raise HostError("bpftrace recorded nothing", where=self.host.name, why=why)
        if self.host.clock.to_controller_s(int(began[1])) > self.load_s:
            raise HostError("bpftrace took too long to start", where=self.host.name, why=f"more than {ATTACH_S:g} s")
        if min(self.until_s, self.host.clock.to_controller_s(ended.at_ns)) < load_ended_s:
            raise HostError("bpftrace ended before the load", where=self.host.name)
        return CapturedTrace(content, ended.user_s + ended.system_s)

    def stop(self) -> None:
        """Stop bpftrace; does nothing where it has ended. Raises HostError."""
        self.host.processes.stop([self.process])


def start_trace(
    host: Host,
    services: Sequence[HostProcess],
    own_ports: Iterable[int],
    *,
    load_s: float,
    until_s: float,
    folder: PurePosixPath,
) -> TraceCapture:
    """Start to trace all processes of services until `until_s` of `time.monotonic()`; its load starts at `load_s`.

    `own_ports` are those on which they listen. Ports of other servers are known where the kernel has BTF. Raises
    HostError where bpftrace does not start, or this login may not use it.
    """
    if "bpftrace" not in host.facts.programs:
        raise HostError("bpftrace is missing", where=host.name, hint="install it with `benchkit hosts prepare`")
    if not host.facts.root:
        raise HostError("bpftrace needs root", where=host.name)
    host.call(FileStore.mkdir, folder)
    _mount_tracefs(host)
    members = [host.processes.members(service) for service in services]
    load_ns, until_ns = (host.clock.to_host_ns(instant_s) for instant_s in (load_s, until_s))
    ports = own_ports if host.processes.run(["test", "-e", str(BTF)]).ok else None
    program = bpftrace_program(members, ports, load_ns, until_ns, is_nested=_has_own_pids(host))
    process = host.processes.start(
        ProcessSpec(
            (host.facts.programs["bpftrace"].path, "-f", "json", "-e", program),
            env=ENVIRONMENT,
            cwd=folder,
            stdout=ToFile(folder / OUTPUT, LARGEST_BYTES),
            stderr=ToFile(folder / LOG),
        )
    )
    return TraceCapture(host, process, folder, load_s, until_s)


def bpftrace_program(
    members: Sequence[Sequence[int]], own_ports: Iterable[int] | None, load_ns: int, until_ns: int, *, is_nested: bool
) -> str:
    """Return the program for services by their process ids, numbered from 1; the load starts at `load_ns`.

    `own_ports` None: ports of other servers are not read. `is_nested`: the process ids are of a nested PID namespace.
    Both need the kernel's type information (BTF).
    """
    services = " ".join(f"@service[{pid}] = {number};" for number, pids in enumerate(members, 1) for pid in pids)
    own = (
        {"id": _PID_IN_NAMESPACE.format(), "namespace": _NAMESPACE.format()}
        if is_nested
        else {"id": _PID, "namespace": ""}
    )
    peers = {"own_ports": "", "peers": "", "peer": "", "clear_peers": ""}
    if own_ports is not None:
        peers = {
            "own_ports": " ".join(f"@own[(uint64){port}] = 1;" for port in (CLOSED, *own_ports)),
            "peers": _PEERS.format(id=own["id"], set_peer=_SET_PEER.format()),
            "peer": "@peer[$next], ",
            "clear_peers": "clear(@own); clear(@peer);",
        }
    return _PROGRAM.format(
        **own,
        **peers,
        services=services,
        frames=FRAMES,
        load_ns=load_ns,
        until_ns=until_ns,
    )


def _has_own_pids(host: Host) -> bool:
    return (
        host.processes.run(["readlink", str(PurePosixPath("/", "proc", "self", "ns", "pid"))]).stdout.decode().strip()
        != INITIAL_PIDS
    )


def _mount_tracefs(host: Host) -> None:
    if host.facts.root and not host.processes.run(["test", "-d", str(TRACEFS / "events")]).ok:
        mounted = host.processes.run(["mount", "-t", "tracefs", "nodev", str(TRACEFS)])
        if not mounted.ok:
            what = f"tracefs cannot be mounted at {TRACEFS}"
            raise HostError(what, where=host.name, why=mounted.printed_errors)


PPROF_TIMEOUT_S = 30.0
"""Time for a Go program to add up its samples and to answer, beyond the requested seconds."""
LARGEST_BYTES = 8 << 20
"""Limit of one message of an agent; a server's profile has some ten thousand bytes."""
SCRIPT_BYTES = 1 << 30
"""Limit of the output of `perf script`: more than any profile, too little to fill a disk."""
RECORD_TIMEOUT_S = 30.0
"""Time for perf to write its file, beyond the recorded seconds."""
SCRIPT_TIMEOUT_S = 120.0
OK = 200
DATA, TEXT, RECORD_LOG, SCRIPT_LOG = "perf.data", "perf.txt", "record.txt", "script.txt"

PARANOID = "perf_event_paranoid"
"""Kernel setting that limits perf for unprivileged users (perf-security.rst); a refused perf names it."""

ENVIRONMENT: Mapping[str, str] = {"PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "LC_ALL": "C", "PERF_PAGER": "cat"}
"""Environment with which perf ignores user settings, downloads no symbols, and prints decimal points."""

logger = logging.getLogger(__name__)

_OWN_MAPS = 'for map; do [ ! -f "$map" ] || [ -L "$map" ] || [ ! -O "$map" ] || echo "$map"; done'
"""Prints regular files of this user; links and files of others are not maps of its processes."""


def remove_perf_maps(host: Host, folder: PurePosixPath) -> None:
    """Remove the maps for perf of the ended processes that were started in a folder of `Undo.expect_perf_maps`.

    Raises HostError naming a map that cannot be removed; it stays on record.
    """
    undone = host.call(Undo.restore, own=True, scope=str(folder))
    if failures := [failure for each in undone for failure in each.failures]:
        raise HostError("maps for perf were not removed", where=host.name, why="; ".join(failures))


def require_perf_maps(host: Host, pids: Sequence[int]) -> None:
    """Raise HostError where a process has no map owned by this user: perf could not name its functions."""
    paths = [f"/tmp/perf-{pid}.map" for pid in pids]  # noqa: S108 - V8 writes and perf reads them there
    own = host.processes.run(["sh", "-c", _OWN_MAPS, "sh", *paths]).stdout.decode().split()
    if missing := [path for path in paths if path not in own]:
        why = "another user owns the file, or the process could not write it"
        raise HostError(f"no map for perf at {', '.join(missing)}", where=host.name, why=why)


@dataclass(frozen=True)
class CapturedProfile:
    """A captured profile: the content of its file, and its period on the controller's `time.monotonic()`.

    `cpu_s` is the CPU time of a separate process that recorded it; None for a Go program's own profiler.
    """

    content: bytes
    started_s: float
    ended_s: float
    cpu_s: float | None = None


@dataclass(frozen=True)
class PprofCapture:
    """A profile requested from a Go program."""

    answer: Future[CapturedProfile]

    def finish(self) -> CapturedProfile:
        """Wait for the answer. Raises HostError."""
        return self.answer.result()

    def stop(self) -> None:
        """Do nothing: the request ends after its seconds, or with the program."""


def start_pprof(host: Host, at: SocketAddress, path: str, *, after_s: float, seconds: int) -> PprofCapture:
    """Request a Go program's profile of `seconds` whole seconds, which start after `after_s`."""
    pool = ThreadPoolExecutor(1, thread_name_prefix=f"profile on {host.name}")
    timeout_s = seconds + PPROF_TIMEOUT_S

    def request() -> CapturedProfile:
        time.sleep(after_s)
        logger.debug("%s: profiling at %s for %d s", host.name, at, seconds)
        started_s = time.monotonic()
        answer = host.sockets.get_http(at, f"{path}?seconds={seconds}", timeout_s=timeout_s, max_bytes=LARGEST_BYTES)
        if answer.status != OK:
            text = answer.body.decode(errors="replace").strip()[:200]
            raise HostError(f"pprof at {at} answers {answer.status}", where=host.name, why=text or None)
        return CapturedProfile(answer.body, started_s, time.monotonic())

    try:
        return PprofCapture(pool.submit(request))
    finally:
        pool.shutdown(wait=False)


@dataclass(frozen=True)
class PerfCapture:
    """A recording by perf."""

    host: Host
    program: str
    process: HostProcess
    folder: PurePosixPath
    """Folder of this recording; removed with the trial's folder."""
    after_s: float
    seconds: float

    def finish(self) -> CapturedProfile:
        """Wait for perf and return the output of `perf script`, compressed with gzip. Raises HostError."""
        recorded = self.process.wait(self.after_s + self.seconds + RECORD_TIMEOUT_S)
        if recorded is None:
            self.stop()
            raise HostError(
                "perf did not end", where=self.host.name, why=f"within {RECORD_TIMEOUT_S:g} s after the recorded time"
            )
        # Resolving inlined functions starts a process for each address: minutes instead of a second.
        script = self.host.processes.start(
            ProcessSpec(
                (self.program, "script", "-i", DATA, "--no-inline"),
                env=ENVIRONMENT,
                cwd=self.folder,
                stdout=ToFile(self.folder / TEXT, SCRIPT_BYTES),
                stderr=ToFile(self.folder / SCRIPT_LOG),
            )
        )
        status = script.wait(SCRIPT_TIMEOUT_S)
        if status is None:
            self.host.processes.stop([script])
            raise HostError("perf script did not end", where=self.host.name, why=f"within {SCRIPT_TIMEOUT_S:g} s")
        if status.exit_code != 0:
            raise HostError("perf recorded nothing", where=self.host.name, why=self._reason())
        compressed = self.host.call(FileStore.compress, self.folder / TEXT)
        started_s = self.host.clock.to_controller_s(self.process.started_ns) + self.after_s
        content, cpu_s = self.host.files.read(compressed), recorded.user_s + recorded.system_s
        return CapturedProfile(content, started_s, started_s + self.seconds, cpu_s)

    def stop(self) -> None:
        """Stop perf; does nothing where it has ended. Raises HostError."""
        self.host.processes.stop([self.process])

    def _reason(self) -> str:
        logs = [
            self.host.files.read(self.folder / name).decode(errors="replace").strip()
            for name in (RECORD_LOG, SCRIPT_LOG)
        ]
        if PARANOID in logs[0]:
            key, user = f"kernel.{PARANOID}", self.host.facts.user
            level = self.host.call(Sysctls.read, [key])[key].value
            return f"the kernel does not let {user} profile these processes ({key} is {level})"
        return next((" ".join(log.splitlines()[0].split()) for log in logs if log), "it printed nothing")


def start_perf(
    host: Host,
    service: HostProcess,
    *,
    frequency_hz: int,
    call_graph: Literal["fp", "dwarf"],
    after_s: float,
    seconds: float,
    folder: PurePosixPath,
) -> PerfCapture:
    """Start perf on all processes of a service, for `seconds` after `after_s`.

    Samples are taken by the CPU clock, as Go's own profiler does: virtual machines have no hardware counters. Raises
    HostError where perf is missing or does not start.
    """
    if "perf" not in host.facts.programs:
        raise HostError("perf is missing", where=host.name, hint="install it with `benchkit hosts prepare`")
    program = host.facts.programs["perf"].path
    host.call(FileStore.mkdir, folder)
    argv = (
        *("timeout", "-s", "INT", f"{after_s + seconds:.3f}"),  # counts from now, however long perf takes to start
        *(program, "record", "-e", "cpu-clock", "-F", str(frequency_hz), "--call-graph", call_graph),
        *(("-D", str(round(after_s * 1000))) if after_s else ()),
        *("-k", "CLOCK_MONOTONIC", "-p", ",".join(map(str, host.processes.members(service)))),
        *("-o", DATA, "--no-buildid", "--no-buildid-cache"),
    )
    output = ToFile(folder / RECORD_LOG)
    process = host.processes.start(ProcessSpec(argv, env=ENVIRONMENT, cwd=folder, stdout=output, stderr="stdout"))
    return PerfCapture(host, program, process, folder, after_s, seconds)
