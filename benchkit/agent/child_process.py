"""A process that the agent starts: its command, streams, CPU affinity and limits, its output and its resource usage."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Dict, Iterator, List, Optional, Sequence, Set, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.cgroups import Cgroup
from benchkit.agent.common import HOST_STATE, OperationError, Workdir, error_kind, write_all
from benchkit.agent.proc import ProcStat, memory_kills

NOFILE_MARGIN = 32
FIRST_SIGNALLED = 128
OUTPUTS = ("stdout", "stderr")

Descriptors = Tuple[int, int, int]


class Sink:
    """The destination of an output: a file or memory, up to a limit; bytes beyond it are counted and dropped."""

    def __init__(self, max_bytes: int, fd: Optional[int] = None) -> None:
        self.kept = bytearray()
        self.report = ops.OutputSize(0, 0, None)
        self.done = threading.Event()
        self._max = max_bytes
        self._fd = fd

    def write(self, piece: bytes) -> None:
        """Write or drop a piece of output."""
        keep = piece[: self._max - self.report.size] if self.report.error is None else b""
        try:
            if self._fd is None:
                self.kept += keep
            else:
                write_all(self._fd, keep)
        except OSError as error:
            self.report.error = error.strerror
            self.report.is_host_state = error_kind(error) == HOST_STATE
            keep = b""
        self.report.size += len(keep)
        self.report.dropped += len(piece) - len(keep)

    def close(self) -> None:
        """Close the file at the end of the output."""
        if self._fd is not None:
            os.close(self._fd)
        self.done.set()


class Pump(threading.Thread):
    """Copies the output of all processes to their sinks, so that no process can fill the disk."""

    PIECE = 65536

    def __init__(self) -> None:
        super().__init__(name="pump", daemon=True)
        self._selector = selectors.DefaultSelector()
        wake_out, self._wake_in = os.pipe2(os.O_CLOEXEC)
        self._selector.register(wake_out, selectors.EVENT_READ)
        self._new: List[Tuple[int, Sink]] = []
        self._flushes: List[threading.Event] = []

    def add(self, fd: int, sink: Sink) -> None:
        """Copy the output of `fd` to `sink`, and close both at its end."""
        self._new.append((fd, sink))
        os.write(self._wake_in, b"+")

    def flush(self) -> None:
        """Return once all that processes have printed so far is in its sinks."""
        done = threading.Event()
        self._flushes.append(done)
        os.write(self._wake_in, b"+")
        done.wait()

    def run(self) -> None:
        """Copy outputs until the agent ends."""
        asked: List[threading.Event] = []
        while True:
            # Output from before a flush is readable one round after the loop has seen the flush, at the latest.
            due, asked = asked, []
            for key, _ in self._selector.select(0 if due else None):
                piece = os.read(key.fd, self.PIECE)
                if key.data is None:
                    while self._new:
                        fd, sink = self._new.pop()
                        self._selector.register(fd, selectors.EVENT_READ, sink)
                    while self._flushes:
                        asked.append(self._flushes.pop())
                elif piece:
                    key.data.write(piece)
                    if key.data.report.dropped:
                        time.sleep(0.001)  # slows down a process that prints beyond its limit
                else:
                    self._selector.unregister(key.fd)
                    os.close(key.fd)
                    key.data.close()
            for done in due:
                done.set()


class Streams:
    """The streams of processes; opens descriptors, which the agent closes once the process has them."""

    def __init__(self, workdir: Workdir) -> None:
        self._workdir = workdir
        self._pump = Pump()
        self._pump.start()
        self.flush = self._pump.flush

    def named(self, spec: ops.ProcessSpec, sinks: Dict[str, Sink], parent_fds: contextlib.ExitStack) -> Descriptors:
        """Open the streams of a process. There is no input."""
        out = self._output("stdout", spec.stdout, sinks, parent_fds)
        if spec.stderr == "stdout":
            return subprocess.DEVNULL, out, subprocess.STDOUT
        return subprocess.DEVNULL, out, self._output("stderr", spec.stderr, sinks, parent_fds)

    def in_memory(
        self, content: bytes, max_bytes: int, sinks: Dict[str, Sink], parent_fds: contextlib.ExitStack
    ) -> Descriptors:
        """Open `content` as input, and both outputs in memory, up to `max_bytes` each."""
        source = subprocess.DEVNULL
        if content:
            source = os.memfd_create("stdin")
            parent_fds.callback(os.close, source)
            write_all(source, content)
            os.lseek(source, 0, os.SEEK_SET)
        out, err = (self._pumped(name, Sink(max_bytes), sinks, parent_fds) for name in OUTPUTS)
        return source, out, err

    def _output(
        self, name: str, file: Optional[ops.ToFile], sinks: Dict[str, Sink], parent_fds: contextlib.ExitStack
    ) -> int:
        if file is None:
            return subprocess.DEVNULL
        path = self._workdir.inside(file.path, write=True)
        self._workdir.make_folder(path.parent)
        # Appending: a program may open /dev/stdout too, and two descriptors would overwrite each other's output.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(str(path), flags, 0o600)
        if file.max_bytes is None:
            parent_fds.callback(os.close, fd)
            return fd
        return self._pumped(name, Sink(file.max_bytes, fd), sinks, parent_fds)

    def _pumped(self, name: str, sink: Sink, sinks: Dict[str, Sink], parent_fds: contextlib.ExitStack) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        parent_fds.callback(os.close, write_end)
        sinks[name] = sink
        self._pump.add(read_end, sink)
        return write_end


def launch(
    command: ops.ProcessSpec, descriptors: Descriptors, folder: str, tag: Dict[str, str], allowed: Set[int]
) -> int:
    """Start a process in its own session and return its pid; for one thread at a time. Raises OperationError.

    CPUs and limit are set before the fork: Python code between fork and exec can hang in a process with threads.
    """
    environment = {**os.environ, **command.env, **tag}
    with _on_cpus(command.cpus, allowed), _soft_nofile(command.nofile):
        try:
            process = subprocess.Popen(
                command.argv,
                cwd=folder,
                env={name: value for name, value in environment.items() if value is not None},
                stdin=descriptors[0],
                stdout=descriptors[1],
                stderr=descriptors[2],
                start_new_session=True,
            )
        except OSError as error:
            kind = "not-found" if isinstance(error, FileNotFoundError) else "denied"
            kind = HOST_STATE if error_kind(error) == HOST_STATE else kind
            raise OperationError(kind, f"cannot start {command.argv[0]}", error.strerror) from None
    process.returncode = 0  # reaped by `Processes`, not by this object
    return process.pid


@contextlib.contextmanager
def _on_cpus(cpus: Optional[Sequence[int]], allowed: Set[int]) -> Iterator[None]:
    if cpus is None:
        yield
        return
    foreign = sorted(set(cpus) - allowed)
    if foreign or not cpus:
        raise OperationError("bad-request", f"CPUs {foreign or 'none'}: this host has {sorted(allowed)}")
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


@contextlib.contextmanager
def _soft_nofile(limit: Optional[int]) -> Iterator[None]:
    """Set the soft limit of open files within the context, for children to inherit; raise the hard limit if needed."""
    if limit is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    used = sum(1 for _ in os.scandir("/proc/self/fd"))
    if limit < used + NOFILE_MARGIN:  # the limit applies to the agent itself for a moment
        raise OperationError("bad-request", f"{limit} open files: the agent needs {used + NOFILE_MARGIN} itself")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, hard)))
    except (OSError, ValueError):
        raise OperationError("denied", f"{limit} open files: the hard limit is {hard}") from None
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


class Child:
    """A process that the agent started."""

    def __init__(self, number: int, command: ops.ProcessSpec, sinks: Dict[str, Sink]) -> None:
        self.id = number
        self.command = command
        self.sinks = sinks
        self.pid = 0
        self.start = 0
        self.started_ns = 0
        self.ended: Optional[ops.ExitStatus] = None
        self.record: Optional[Path] = None
        self.group: Optional[Cgroup] = None
        """A control group of another program, such as a container's, whose processes and CPU time count as its own."""
        self.quota_group: Optional[Cgroup] = None
        """The group with a CPU quota that it runs in."""
        self._memory_kills = memory_kills()
        self._orphans_user_s = 0.0
        self._orphans_system_s = 0.0

    def end(self, status: int, usage: resource.struct_rusage) -> None:
        """Record its exit code or signal, and its resource usage, including the children it waited for."""
        self.ended = ops.ExitStatus(
            at_ns=time.monotonic_ns(),
            exit_code=os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            signal=os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            user_s=usage.ru_utime,
            system_s=usage.ru_stime,
            memory_kills=self._killed_since() if _is_signalled(status) else None,
        )

    def _killed_since(self) -> Optional[int]:
        now = memory_kills()
        return None if now is None or self._memory_kills is None else now - self._memory_kills

    def adopt(self, usage: resource.struct_rusage) -> None:
        """Add the resource usage of an orphaned descendant."""
        self._orphans_user_s += usage.ru_utime
        self._orphans_system_s += usage.ru_stime

    def cpu_time(self, tree: List[ProcStat]) -> ops.CpuTime:
        """Return the CPU time of its control group; without one, of its live processes `tree` and of ended ones.

        Raises OperationError where its control group never existed.
        """
        if self.group is not None:
            used = self.group.cpu()
            if used is None:
                raise OperationError("not-found", f"the control group {self.group.path} does not exist")
            return used
        ended_user_s, ended_system_s = (self.ended.user_s, self.ended.system_s) if self.ended else (0.0, 0.0)
        user_s = ended_user_s + self._orphans_user_s + sum(each.user_s for each in tree)
        system_s = ended_system_s + self._orphans_system_s + sum(each.system_s for each in tree)
        return ops.CpuTime(user_s + system_s, user_s)

    def report(self) -> ops.ProcessReport:
        """Return the current state of this process."""
        outputs = {name: replace(sink.report) for name, sink in self.sinks.items()}
        return ops.ProcessReport(self.id, self.pid, self.start, self.started_ns, self.ended, outputs)


def _is_signalled(status: int) -> bool:
    """Return True where a signal ended a process, or SIGKILL its child: shells and engines then exit with 128 + 9."""
    return os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == FIRST_SIGNALLED + signal.SIGKILL
