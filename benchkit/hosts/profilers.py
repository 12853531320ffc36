"""Profiles taken on a host: by a Go program's own profiler over HTTP, or by perf of the processes of a service."""

from __future__ import annotations

import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal, Protocol

from benchkit.errors import HostError
from benchkit.hosts.host import Host
from benchkit.hosts.processes import Process, Start, ToFile
from benchkit.hosts.sockets import Tcp, Unix

ANSWER_S = 5.0
"""What a Go program may take to sum its samples up and to answer, beyond the seconds that it was asked for."""
LARGEST_BYTES = 8 << 20
"""A profile of a server has some ten thousand bytes; one message of an agent carries so many."""
TEXT_BYTES = 1 << 30
"""What `perf script` may print: more than any profile of ours, less than a disk."""
FINISH_S = 30.0
"""What perf may take to write its file, beyond the seconds that it records."""
SCRIPT_S = 120.0
OK = 200
DATA, TEXT, LOG, COMPLAINTS = "perf.data", "perf.txt", "record.txt", "script.txt"

PARANOID = "perf_event_paranoid"
"""The kernel's setting for what perf may see without rights of its own (perf-security.rst); perf names it when refused."""

ENVIRONMENT: Mapping[str, str] = {"PERF_CONFIG": "/dev/null", "DEBUGINFOD_URLS": "", "LC_ALL": "C", "PERF_PAGER": "cat"}
"""No user's settings, nothing fetched from anywhere, numbers with points."""


@dataclass(frozen=True)
class CapturedProfile:
    """A profile as it was taken: the file's content, and when, on the controller's `time.monotonic()`.

    `cpu_s` is what a process of its own took to record it; a Go program's own profiler has none.
    """

    content: bytes
    started_s: float
    ended_s: float
    cpu_s: float | None = None


class ProfileInProgress(Protocol):
    """A profile that is being taken."""

    def finish(self) -> CapturedProfile:
        """Wait for it. Raises HostError where there is none."""

    def stop(self) -> None:
        """Take no more of it; fine where it is finished. Raises HostError."""


@dataclass(frozen=True)
class Asking:
    """A Go program that was asked for its profile."""

    answer: Future[CapturedProfile]

    def finish(self) -> CapturedProfile:
        """Wait for the answer. Raises HostError."""
        return self.answer.result()

    def stop(self) -> None:
        """Nothing is to be done: the question ends by itself, or with the program."""


def ask(host: Host, at: Tcp | Unix, path: str, *, after_s: float, seconds: int) -> Asking:
    """Ask a Go program, after a while, for the profile of so many seconds from then on."""
    pool = ThreadPoolExecutor(1, thread_name_prefix=f"profile on {host.name}")

    def later() -> CapturedProfile:
        time.sleep(after_s)
        return pprof(host, at, path, seconds)

    try:
        return Asking(pool.submit(later))
    finally:
        pool.shutdown(wait=False)


def pprof(host: Host, at: Tcp | Unix, path: str, seconds: int) -> CapturedProfile:
    """The profile of so many seconds from now on of a Go program. Raises HostError where it gives none."""
    started_s = time.monotonic()
    answer = host.sockets.http(
        at,
        f"{path}?seconds={seconds}",
        headers=[("Host", "localhost"), ("Connection", "close")],
        timeout_s=seconds + ANSWER_S,
        max_body=LARGEST_BYTES,
    )
    if answer.status != OK:
        said = answer.body.decode(errors="replace").strip()[:200]
        raise HostError(f"pprof at {at} answers {answer.status}", where=host.name, why=said or None)
    if not answer.complete or answer.body_bytes > len(answer.body):
        raise HostError(f"pprof at {at} gave a part of a profile", where=host.name, why=f"{answer.body_bytes} bytes")
    return CapturedProfile(answer.body, started_s, time.monotonic())


@dataclass(frozen=True)
class Recording:
    """perf at work."""

    host: Host
    program: str
    process: Process
    folder: PurePosixPath
    """Its own; it is removed with the trial's."""
    after_s: float
    seconds: float

    def finish(self) -> CapturedProfile:
        """Wait for its end and read what it recorded as the text of `perf script`, gzipped. Raises HostError."""
        recorded = self.process.wait(self.after_s + self.seconds + FINISH_S)
        if recorded is None:
            self.stop()
            raise HostError("perf did not end", where=self.host.name, why=f"within {FINISH_S:g} s of its time")
        # Inlined functions would have to be looked up by a process for each address: minutes instead of a second.
        script = self.host.processes.start(
            Start(
                (self.program, "script", "-i", DATA, "--no-inline"),
                env=ENVIRONMENT,
                cwd=self.folder,
                stdout=ToFile(self.folder / TEXT, TEXT_BYTES),
                stderr=ToFile(self.folder / COMPLAINTS),
            )
        )
        done = script.wait(SCRIPT_S)
        if done is None:
            self.host.processes.stop([script])
            raise HostError("perf script did not end", where=self.host.name, why=f"within {SCRIPT_S:g} s")
        if done.exit_code != 0:  # the reason stands with what recorded, unless that went well
            raise HostError("perf recorded nothing", where=self.host.name, why=self._why())
        packed = self.host.request("pack", {"path": str(self.folder / TEXT)}, time_s=SCRIPT_S)
        started_s = self.host.clock.here_s(self.process.started_ns) + self.after_s
        content, cpu_s = self.host.files.read(packed["path"]), recorded.user_s + recorded.system_s
        return CapturedProfile(content, started_s, started_s + self.seconds, cpu_s)

    def stop(self) -> None:
        """End perf, if it is still there. Raises HostError."""
        self.host.processes.stop([self.process])

    def _why(self) -> str:
        """What perf said, in a sentence; where the kernel lets it not, the setting that decides about that."""
        said = [self.host.files.read(self.folder / name).decode(errors="replace").strip() for name in (LOG, COMPLAINTS)]
        if PARANOID in said[0] and (level := self._paranoid()) is not None:
            user = self.host.facts.user
            return f"the kernel does not let {user} look at these processes (kernel.{PARANOID} is {level})"
        return next((" ".join(each.splitlines()[0].split()) for each in said if each), "it said nothing")

    def _paranoid(self) -> str | None:
        setting = self.host.changes.read([f"kernel.{PARANOID}"])
        found = next(iter(setting.values()), None)
        return None if found is None else found.value


def record(
    host: Host,
    service: Process,
    *,
    frequency_hz: int,
    call_graph: Literal["fp", "dwarf"],
    after_s: float,
    seconds: float,
    folder: PurePosixPath,
) -> Recording:
    """Have perf look, after a while, at all processes of a service for so many seconds.

    Samples are taken by the clock of the CPUs on which they run: as Go's own profiler takes them, and on virtual machines
    too, which have no counters. Raises HostError where there is no perf, or it cannot be started.
    """
    program = host.facts.programs.get("perf")
    if program is None:
        raise HostError("there is no perf", where=host.name, hint="`benchkit hosts prepare` installs it where it may")
    host.files.mkdir(folder)
    argv = (
        *("timeout", "-s", "INT", f"{after_s + seconds:.3f}"),  # from now on, however long perf takes to begin
        *(program.path, "record", "-e", "cpu-clock", "-F", str(frequency_hz), "--call-graph", call_graph),
        *(("-D", str(round(after_s * 1000))) if after_s else ()),
        *("-k", "CLOCK_MONOTONIC", "-p", ",".join(map(str, members(host, service)))),
        *("-o", DATA, "--no-buildid", "--no-buildid-cache"),
    )
    output = ToFile(folder / LOG)
    process = host.processes.start(Start(argv, env=ENVIRONMENT, cwd=folder, stdout=output, stderr="stdout"))
    return Recording(host, program.path, process, folder, after_s, seconds)


def members(host: Host, service: Process) -> tuple[int, ...]:
    """The pids of a service and of its descendants. Raises HostError where nothing of it is there."""
    running = host.request("ps", {})["processes"]
    pids = tuple(each["pid"] for one in running if one["id"] == service.id for each in one["members"])
    if not pids:
        raise HostError(f"nothing is left of {service.argv[0]}", where=host.name)
    return pids


def expect_maps(host: Host, pids: tuple[int, ...]) -> None:
    """Have the host know that these processes leave files for perf outside of the work directory. Raises HostError."""
    host.request("expect_maps", {"pids": list(pids)})


def drop_maps(host: Host, pids: tuple[int, ...]) -> None:
    """Remove what processes that have ended left for perf. Raises HostError."""
    host.request("drop_maps", {"pids": list(pids)})
