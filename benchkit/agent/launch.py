"""The start of a process: its streams, CPU affinity and limit of open files."""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import time
from typing import Any, Dict, Iterator, List, NamedTuple, Optional, Set, Tuple

from benchkit.agent.common import HOST_STATE, RefusedError, error_kind, write_all
from benchkit.agent.output_pumps import Pump, Sink
from benchkit.agent.workdir import Workdir

NOFILE_MARGIN = 32
LATEST_START_S = 600.0
OUTPUTS = ("stdout", "stderr")

Descriptors = Tuple[int, int, int]


class Command(NamedTuple):
    """A command to start."""

    argv: List[str]
    env: Optional[Dict[str, Optional[str]]] = None
    """Variables added to those of the agent; None removes one."""
    cwd: Optional[str] = None
    """Folder below the work directory; None: the work directory itself."""
    cpus: Optional[List[int]] = None
    nofile: Optional[int] = None
    """Soft limit of open files."""
    group: Optional[str] = None
    """Name of its control group; see `cgroups`."""
    stop_signum: int = signal.SIGTERM
    """Signal that asks it to end where nobody says which."""
    stop_grace_s: float = 1.0
    """Time after that signal at which it is killed."""


class Streams:
    """The streams of processes; opens descriptors, which the agent closes once the process has them."""

    def __init__(self, workdir: Workdir) -> None:
        self._workdir = workdir
        self._pump = Pump()
        self._pump.start()

    def named(
        self,
        stdout: Any,  # noqa: ANN401 - as it came in the message
        stderr: Any,  # noqa: ANN401
        sinks: Dict[str, Sink],
        parent_fds: contextlib.ExitStack,
    ) -> Descriptors:
        """Open the streams of a request; see `Processes.start`. There is no input."""
        out = self._output("stdout", stdout, sinks, parent_fds)
        err = subprocess.STDOUT if stderr == "stdout" else self._output("stderr", stderr, sinks, parent_fds)
        return subprocess.DEVNULL, out, err

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

    def flush(self) -> None:
        """Return once what processes have printed so far is in the files and in memory."""
        self._pump.flush()

    def _output(self, name: str, spec: Any, sinks: Dict[str, Sink], parent_fds: contextlib.ExitStack) -> int:  # noqa: ANN401
        if spec is None:
            return subprocess.DEVNULL
        path = self._workdir.inside(spec["path"], write=True)
        self._workdir.make_folder(path.parent)
        # Appending: a program may open /dev/stdout too, and one descriptor would overwrite what the other wrote.
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        fd = os.open(str(path), flags, 0o600)
        if spec.get("max_bytes") is None:
            parent_fds.callback(os.close, fd)
            return fd
        return self._pumped(name, Sink(spec["max_bytes"], fd), sinks, parent_fds)

    def _pumped(self, name: str, sink: Sink, sinks: Dict[str, Sink], parent_fds: contextlib.ExitStack) -> int:
        read_end, write_end = os.pipe2(os.O_CLOEXEC)
        parent_fds.callback(os.close, write_end)
        sinks[name] = sink
        self._pump.add(read_end, sink)
        return write_end


def launch(command: Command, descriptors: Descriptors, folder: str, tag: Dict[str, str], allowed: Set[int]) -> int:
    """Start a process in its own session and return its pid; for one thread at a time. Raises RefusedError.

    CPUs and limit are set before the fork: Python code between fork and exec can hang in a process with threads.
    """
    environment = {**os.environ, **(command.env or {}), **tag}
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
            raise RefusedError(kind, f"cannot start {command.argv[0]}", error.strerror) from None
    process.returncode = 0  # reaped by `Processes`, not by this object
    return process.pid


def sleep_until(at_ns: Optional[int]) -> Optional[float]:
    """Sleep until an instant of the monotonic clock; return the delay after it, None without an instant."""
    if at_ns is None:
        return None
    remaining_s = (at_ns - time.monotonic_ns()) / 1e9
    if remaining_s > LATEST_START_S:
        raise RefusedError("bad-request", f"a start in {remaining_s:.0f} s is too far in the future")
    time.sleep(max(0.0, remaining_s))
    return (time.monotonic_ns() - at_ns) / 1e9


@contextlib.contextmanager
def _on_cpus(cpus: Optional[List[int]], allowed: Set[int]) -> Iterator[None]:
    """Set the CPU affinity of this thread within the context; children started in it inherit the affinity."""
    if cpus is None:
        yield
        return
    foreign = sorted(set(cpus) - allowed)
    if foreign or not cpus:
        raise RefusedError("bad-request", f"CPUs {foreign or 'none'}: this host has {sorted(allowed)}")
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
        raise RefusedError("bad-request", f"{limit} open files: the agent needs {used + NOFILE_MARGIN} itself")
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, max(limit, hard)))
    except (OSError, ValueError):
        raise RefusedError("denied", f"{limit} open files: the hard limit is {hard}") from None
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
