"""Traces of the kernel on a host: system calls of services, and what their threads wait for, added up in the kernel."""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.errors import HostError
from benchkit.hosts.host import Host
from benchkit.hosts.processes import HostProcess, ProcessSpec, ToFile
from benchkit.hosts.profilers import ENVIRONMENT, LARGEST_BYTES
from benchkit.models.trial import Tracer

TAIL_S = 0.5
"""Time between the planned end of a trace and that of the window."""
END_TIMEOUT_S = 30.0
"""Time for a tracer to remove its probes and to write its sums."""
FRAMES = 8
"""Frames of kernel stacks that tell what a thread waits for."""
TRACEFS = PurePosixPath("/", "sys", "kernel", "tracing")
OUTPUT, LOG = "trace.txt", "trace.log"
_TIMES = re.compile(rb"(began|ended) ([0-9]+)")

INITIAL_PIDS = "pid:[4026531836]"
"""PID namespace of a system (PROC_PID_INIT_INO of Linux); in another one, process ids are not those of the kernel."""
_PID = "$id = (uint64)pid;"
_NUMBERS = """\
$pid = ((struct task_struct *)curtask)->group_leader->thread_pid; $at = (uint64)$pid + sizeof(struct pid);
  if ((uint64)*(int32 *)$at != (uint64)pid) {{ $at = $at - 16; }}"""
"""The ids of a process in its namespaces, 16 bytes each from the outermost on: they end `struct pid`, whose size has
the first of them before Linux 6.5."""
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
  $prev = args->prev_pid; $next = args->next_pid; $now = nsecs;
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
tracepoint:sched:sched_wakeup /@since[args->pid]/ {{ @ready[args->pid] = nsecs; }}
interval:ms:50 /nsecs >= {until_ns}/ {{ exit(); }}
END {{
  printf("ended %llu\\n", nsecs);
  clear(@service); clear(@of); clear(@since); clear(@where); clear(@ready);
}}
"""
"""Sums by the number of the service: calls by their number, and nanoseconds off the CPU by kernel stack: until a thread
is woken (blocked), and from then on (runnable). A thread that is preempted is runnable at once."""


@dataclass(frozen=True)
class CapturedTrace:
    """A trace: what the tracer printed, and its period on the controller's `time.monotonic()`."""

    content: bytes
    started_s: float
    ended_s: float
    cpu_s: float


@dataclass(frozen=True)
class TraceCapture:
    """A trace that is being taken."""

    host: Host
    tracer: Tracer
    process: HostProcess
    folder: PurePosixPath
    started_s: float
    """Start of what perf traces, as planned, on the controller's `time.monotonic()`."""
    until_s: float

    def finish(self) -> CapturedTrace:
        """Wait for the tracer, and return its sums. Raises HostError where there are none."""
        ended = self.process.wait(max(0.0, self.until_s - time.monotonic()) + END_TIMEOUT_S)
        if ended is None:
            self.stop()
            raise HostError(f"{self.tracer} did not end", where=self.host.name, why=f"within {END_TIMEOUT_S:g} s")
        content = self.host.files.read(self.folder / OUTPUT)
        cpu_s = ended.user_s + ended.system_s
        if self.tracer == "perf":
            if b"syscall" not in content:
                raise self._recorded_nothing()
            return CapturedTrace(content, self.started_s, self.until_s, cpu_s)
        times = {name: int(ns) for name, ns in _TIMES.findall(content)}
        if not {b"began", b"ended"} <= times.keys():
            raise self._recorded_nothing()
        began_s, ended_s = (self.host.clock.to_controller_s(times[name]) for name in (b"began", b"ended"))
        return CapturedTrace(content, began_s, ended_s, cpu_s)

    def stop(self) -> None:
        """Stop the tracer; does nothing where it has ended. Raises HostError."""
        self.host.processes.stop([self.process])

    def _recorded_nothing(self) -> HostError:
        log = self.host.files.read(self.folder / LOG).decode(errors="replace").strip()
        why = " ".join(log.splitlines()[-1].split()) if log else "it printed nothing"
        return HostError(f"{self.tracer} recorded nothing", where=self.host.name, why=why)


def tracer_of(host: Host) -> Tracer:
    """Return the tracer that a host has. Raises HostError where it has none that this login may use."""
    if host.facts.root and "bpftrace" in host.facts.programs:
        return "bpftrace"
    if "perf" in host.facts.programs:
        return "perf"
    what = "bpftrace and perf are missing" if host.facts.root else "perf is missing, and bpftrace needs root"
    raise HostError(what, where=host.name, hint="install them with `benchkit hosts prepare`")


def start_trace(
    host: Host,
    tracer: Tracer,
    services: Sequence[HostProcess],
    *,
    after_s: float,
    until_s: float,
    folder: PurePosixPath,
) -> TraceCapture:
    """Start to trace all processes of these services, after `after_s` until an instant of `time.monotonic()`.

    Attaching the probes takes bpftrace a second or more. perf takes one service. Raises HostError where the tracer
    does not start.
    """
    host.files.mkdir(folder)
    _mount_tracefs(host)
    members = [host.processes.members(service) for service in services]
    program, started_s = host.facts.programs[tracer].path, time.monotonic() + after_s
    if tracer == "bpftrace":
        argv: tuple[str, ...] = (
            "sh",
            "-c",
            f'sleep {after_s:.3f}; exec "$0" -f json -e "$1"',
            program,
            bpftrace_program(members, host.clock.to_host_ns(until_s), is_nested=_has_own_pids(host)),
        )
    else:
        pids = ",".join(str(pid) for of_service in members for pid in of_service)
        command = (
            f'sleep {after_s:.3f}; exec timeout -s INT {until_s - started_s:.3f} "$0" trace -s -o {OUTPUT} -p "$1"'
        )
        argv = ("sh", "-c", command, program, pids)
    process = host.processes.start(
        ProcessSpec(
            argv,
            env=ENVIRONMENT,
            cwd=folder,
            stdout=ToFile(folder / OUTPUT, LARGEST_BYTES) if tracer == "bpftrace" else None,
            stderr=ToFile(folder / LOG),
        )
    )
    return TraceCapture(host, tracer, process, folder, started_s, until_s)


def bpftrace_program(members: Sequence[Sequence[int]], until_ns: int, *, is_nested: bool) -> str:
    """Return the program for services of these process ids, which are numbered from 1, until an instant of its clock.

    `is_nested`: the process ids are those of a PID namespace, which takes the kernel's type information (BTF).
    """
    services = " ".join(f"@service[{pid}] = {number};" for number, pids in enumerate(members, 1) for pid in pids)
    own = (
        {"id": _PID_IN_NAMESPACE.format(), "namespace": _NAMESPACE.format()}
        if is_nested
        else {"id": _PID, "namespace": ""}
    )
    return _PROGRAM.format(**own, services=services, frames=FRAMES, until_ns=until_ns)


def _has_own_pids(host: Host) -> bool:
    return (
        host.processes.run(["readlink", str(PurePosixPath("/", "proc", "self", "ns", "pid"))]).stdout.decode().strip()
        != INITIAL_PIDS
    )


def _mount_tracefs(host: Host) -> None:
    """Mount the file system of tracepoints where root's system has not done so at its start."""
    if host.facts.root and not host.processes.run(["test", "-d", str(TRACEFS / "events")]).ok:
        mounted = host.processes.run(["mount", "-t", "tracefs", "nodev", str(TRACEFS)])
        if not mounted.ok:
            why = mounted.stderr.decode(errors="replace").strip()
            raise HostError(f"tracefs cannot be mounted at {TRACEFS}", where=host.name, why=why)
