"""Traces of a host's kernel: system calls of services, and what their threads wait for, added up in the kernel.

bpftrace records both. perf counts system calls, and hardware counters on hosts that have some. benchkit uses
`perf stat`, because `perf trace -s` copies each event and silently loses most of them.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, ToFile
from benchkit.errors import HostError
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess
from benchkit.hosts.profilers import ENVIRONMENT, LARGEST_BYTES, perf_of
from benchkit.models.trial import Tracer

ATTACH_S = 4.0
"""Time before the load in which a tracer attaches its probes: bpftrace compiles its program for one to two seconds."""
ATTACH_COUNTERS_S = 1.0
"""Time before the load in which perf attaches its counters."""
AFTER_S = 1.0
"""Time by which a trace outlasts the planned end of the load, so that it has the calls of all requests."""
END_TIMEOUT_S = 30.0
"""Time for a tracer to remove its probes and to write its sums."""
FRAMES = 8
"""Frames of a kernel stack that are kept; they show what a thread waits for."""
TRACEFS = PurePosixPath("/", "sys", "kernel", "tracing")
OUTPUT, LOG = "trace.txt", "trace.log"
_BEGAN, _ENDED = re.compile(rb"began ([0-9]+)"), re.compile(rb"ended [0-9]+")

COUNTED = re.compile(
    r"sys_enter_(accept4?|access|brk|clock_(gettime|nanosleep)|clone3?|close|connect|dup|epoll_(ctl|p?wait)|eventfd2|execve|exit|"
    r"fcntl|fdatasync|fsync|futex|getdents64|getp{1,2}id|getrandom|getsock(name|opt)|gettid|io_uring_enter|ioctl|kill|lseek|"
    r"madvise|mmap|mprotect|munmap|nanosleep|new(f?stat|fstatat)|open(at)?|pipe2|p?poll|p?select6?|p?(read|write)(64|v)?|"
    r"recv(from|m?msg)|send(to|m?msg|file64)|rt_sig(action|procmask|return)|sched_yield|setsockopt|shutdown|socket|splice|"
    r"statx|tgkill|timerfd_settime|unlink|v?fork|wait4)"
)
"""System calls that perf counts by their tracepoints: typical ones of servers, as each costs an event per thread."""
ALL_CALLS = "raw_syscalls:sys_enter"
COUNTERS = ("instructions", "cycles", "task-clock")
"""Events of perf: hardware counters, and the CPU time in which they count."""

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

_PROGRAM = """\
BEGIN {{ {services} {namespace} printf("began %llu\\n", nsecs); }}
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
      @blocked_ns[@of[$next], @where[$next]] = sum(@ready[$next] - @since[$next]);
      @runnable_ns[@of[$next], @where[$next]] = sum($now - @ready[$next]);
    }}
    delete(@since[$next]); delete(@ready[$next]); delete(@where[$next]);
  }}
}}
tracepoint:sched:sched_wakeup /@since[args->pid]/ {{ @ready[args->pid] = nsecs < {load_ns} ? (uint64){load_ns} : nsecs; }}
interval:ms:50 /nsecs >= {until_ns}/ {{ exit(); }}
END {{
  printf("ended %llu\\n", nsecs);
  clear(@service); clear(@of); clear(@since); clear(@where); clear(@ready);
}}
"""
"""Sums by service number: calls by system call number, and nanoseconds off the CPU by kernel stack. A thread is blocked
until it is woken, then runnable; a preempted thread is runnable at once. Waits begin at the planned start of the load
at the earliest. They count when they end, so threads that stay idle after the load do not count."""


@dataclass(frozen=True)
class CapturedTrace:
    """A trace: the output of the tracer, and its CPU time."""

    content: bytes
    cpu_s: float


@dataclass(frozen=True)
class TraceCapture:
    """A running trace around a load, which starts at `load_s` of the controller's `time.monotonic()`."""

    host: Host
    tracer: Tracer
    process: HostProcess
    folder: PurePosixPath
    load_s: float
    until_s: float

    def finish(self, load_ended_s: float) -> CapturedTrace:
        """Wait for the tracer, and return its sums. Raises HostError where they do not cover all of the load."""
        ended = self.process.wait(max(0.0, self.until_s - time.monotonic()) + END_TIMEOUT_S)
        if ended is None:
            self.stop()
            raise HostError(f"{self.tracer} did not end", where=self.host.name, why=f"within {END_TIMEOUT_S:g} s")
        content = self.host.files.read(self.folder / OUTPUT)
        began_ns, is_whole = self.process.started_ns, b"counter-value" in content
        if self.tracer == "bpftrace":
            began = _BEGAN.search(content)
            began_ns = int(began[1]) if began is not None else 0
            is_whole = began is not None and _ENDED.search(content) is not None
        if not is_whole:
            raise self._recorded_nothing()
        if self.host.clock.to_controller_s(began_ns) > self.load_s:
            raise HostError(
                f"{self.tracer} took too long to start", where=self.host.name, why=f"more than {ATTACH_S:g} s"
            )
        if min(self.until_s, self.host.clock.to_controller_s(ended.at_ns)) < load_ended_s:
            raise HostError(f"{self.tracer} ended before the load", where=self.host.name)
        return CapturedTrace(content, ended.user_s + ended.system_s)

    def stop(self) -> None:
        """Stop the tracer; does nothing where it has ended. Raises HostError."""
        self.host.processes.stop([self.process])

    def _recorded_nothing(self) -> HostError:
        log = self.host.files.read(self.folder / LOG).decode(errors="replace").strip()
        why = " ".join(log.splitlines()[-1].split()) if log else "it printed nothing"
        return HostError(f"{self.tracer} recorded nothing", where=self.host.name, why=why)


def tracer_of(host: Host) -> Tracer:
    """Return the tracer of a host. Raises HostError where the host has none that this login may use."""
    if host.facts.root and "bpftrace" in host.facts.programs:
        return "bpftrace"
    if "perf" in host.facts.programs:
        return "perf"
    what = "bpftrace and perf are missing" if host.facts.root else "perf is missing, and bpftrace needs root"
    raise HostError(what, where=host.name, hint="install them with `benchkit hosts prepare`")


def require_counters(host: Host) -> None:
    """Raise HostError where perf cannot read hardware counters on a host."""
    tried = host.processes.run([perf_of(host), "stat", "-j", "-e", "instructions,cycles", "true"])
    if not tried.ok or b"<not" in tried.stderr:
        why = "as on most virtual machines" if tried.ok else tried.printed_errors[:200]
        raise HostError("no hardware counters", where=host.name, why=why or None)


def start_trace(
    host: Host, tracer: Tracer, services: Sequence[HostProcess], *, load_s: float, until_s: float, folder: PurePosixPath
) -> TraceCapture:
    """Start to trace all processes of services until `until_s` of `time.monotonic()`; its load starts at `load_s`.

    perf takes one service at a time. Raises HostError where the tracer does not start.
    """
    host.call(FileStore.mkdir, folder)
    _mount_tracefs(host)
    members = [host.processes.members(service) for service in services]
    program = host.facts.programs["bpftrace" if tracer == "bpftrace" else "perf"].path
    if tracer == "bpftrace":
        load_ns, until_ns = (host.clock.to_host_ns(instant_s) for instant_s in (load_s, until_s))
        text = bpftrace_program(members, load_ns, until_ns, is_nested=_has_own_pids(host))
        argv: tuple[str, ...] = (program, "-f", "json", "-e", text)
    else:
        pids = ",".join(str(pid) for of_service in members for pid in of_service)
        seconds, events = f"{until_s - time.monotonic():.3f}", COUNTERS if tracer == "pmu" else _call_events(host)
        argv = ("timeout", "-s", "INT", seconds, program)
        argv = (*argv, "stat", "-j", "-e", ",".join(events), "-o", OUTPUT, "-p", pids)
    process = host.processes.start(
        ProcessSpec(
            argv,
            env=ENVIRONMENT,
            cwd=folder,
            stdout=ToFile(folder / OUTPUT, LARGEST_BYTES) if tracer == "bpftrace" else None,
            stderr=ToFile(folder / LOG),
        )
    )
    return TraceCapture(host, tracer, process, folder, load_s, until_s)


def bpftrace_program(members: Sequence[Sequence[int]], load_ns: int, until_ns: int, *, is_nested: bool) -> str:
    """Return the program for services by their process ids, numbered from 1; the load starts at `load_ns`.

    `is_nested`: the process ids are of a nested PID namespace, which needs the kernel's type information (BTF).
    """
    services = " ".join(f"@service[{pid}] = {number};" for number, pids in enumerate(members, 1) for pid in pids)
    own = (
        {"id": _PID_IN_NAMESPACE.format(), "namespace": _NAMESPACE.format()}
        if is_nested
        else {"id": _PID, "namespace": ""}
    )
    return _PROGRAM.format(**own, services=services, frames=FRAMES, load_ns=load_ns, until_ns=until_ns)


def _call_events(host: Host) -> tuple[str, ...]:
    """Return the tracepoints of system calls that the host's kernel has."""
    listed = host.processes.run(["ls", str(TRACEFS / "events" / "syscalls")])
    if not listed.ok:
        raise HostError(
            "perf cannot see tracepoints", where=host.name, why=listed.printed_errors, hint="log in as root"
        )
    return (ALL_CALLS, *(f"syscalls:{name}" for name in listed.stdout.decode().split() if COUNTED.fullmatch(name)))


def _has_own_pids(host: Host) -> bool:
    return (
        host.processes.run(["readlink", str(PurePosixPath("/", "proc", "self", "ns", "pid"))]).stdout.decode().strip()
        != INITIAL_PIDS
    )


def _mount_tracefs(host: Host) -> None:
    """Mount tracefs, the file system of tracepoints, if the system has not mounted it."""
    if host.facts.root and not host.processes.run(["test", "-d", str(TRACEFS / "events")]).ok:
        mounted = host.processes.run(["mount", "-t", "tracefs", "nodev", str(TRACEFS)])
        if not mounted.ok:
            what = f"tracefs cannot be mounted at {TRACEFS}"
            raise HostError(what, where=host.name, why=mounted.printed_errors)
