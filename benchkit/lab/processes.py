"""Programs and processes of a lab: starting its init processes, finding and killing all of its processes.

Every init process has a mark on its command line, `benchkit-lab:KEY:ID:PART`; sessions on a host have it in their
environment. KEY identifies the folder of the lab, ID one call of `up`, PART the role of the process. The marks find all
processes of a lab without the process that started them.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from benchkit.errors import HostError, InputError
from benchkit.hosts.packages import SBIN
from benchkit.lab.inside.system import is_refusal

_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
"""Environment of init processes, without anything of the caller's session."""
START_DEADLINE_S = 60.0
_PACKAGES = Path(__file__).parents[2]
_BOOT = "import sys; sys.path.insert(0, sys.argv[1]); from benchkit.lab.inside.start import main; main()"
_CHUNK = 1 << 16
MARK_VARIABLE = "BENCHKIT_LAB_HOST"
END_DEADLINE_S = 60.0
_POLL_S = 0.005


def find_programs(names: Iterable[str]) -> dict[str, str]:
    """Return the path of each program.

    Raises InputError naming all missing ones, with the command that installs them.
    """
    search_path = os.pathsep.join([os.environ.get("PATH", os.defpath), *SBIN])
    paths = {name: shutil.which(name, path=search_path) for name in names}
    if missing := [name for name, path in paths.items() if path is None]:
        raise InputError(
            f"missing on this machine: {', '.join(missing)}",
            where="lab",
            hint="run `benchkit lab prepare`, which installs them or prints how",
        )
    return {name: path for name, path in paths.items() if path is not None}


class NotPermittedError(HostError):
    """The kernel, or the container around this process, does not allow namespaces."""


def init_command(mark: str, *namespaces: str) -> list[str]:
    """Return the command of an init process, as process 1 of its namespaces, if any (options of unshare(1)).

    It is Python without `site`, and without the caller's environment.
    """
    apart = ["unshare", "--fork", "--kill-child", *namespaces] if namespaces else []
    return [*apart, sys.executable, "-I", "-S", "-c", _BOOT, str(_PACKAGES), mark]


class InitLauncher:
    """An init process that is being started; a context manager that closes the connection to it at the end."""

    def __init__(self, command: Sequence[str], config: Mapping[str, Any], log: Path) -> None:
        """Start the process and send `config` as first message; `log` is the file for its and its children's stderr."""
        self._log = log
        self._received = b""
        self._connection, streams = socket.socketpair()
        self._connection.settimeout(START_DEADLINE_S)
        with log.open("ab") as stderr, streams:
            subprocess.run(
                ["setsid", "--fork", *command],  # no child of this process, which need not wait for its end
                stdin=streams.fileno(),
                stdout=streams.fileno(),
                stderr=stderr,
                cwd="/",
                env=_ENVIRONMENT,
                check=True,
            )
        self.send(config)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def send(self, message: Mapping[str, Any]) -> None:
        """Send a message. Raises HostError where the process has ended."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except ConnectionError:
            raise self._ended() from None

    def receive(self) -> dict[str, Any]:
        """Return the next message.

        Raises NotPermittedError or HostError for a message of failure, HostError also after the deadline or the
        process's end.
        """
        while b"\n" not in self._received:
            try:
                chunk = self._connection.recv(_CHUNK)
            except ConnectionError:
                chunk = b""
            except TimeoutError:
                what = f"the lab was not ready within {START_DEADLINE_S:g} s"
                raise HostError(what, where="this machine", why=self._last_log_line()) from None
            if not chunk:
                raise self._ended()
            self._received += chunk
        line, _, self._received = self._received.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        if "failed" in message:
            kind = NotPermittedError if message["refused"] else HostError
            raise kind("the lab did not start", where="this machine", why=message["failed"])
        return message

    def _ended(self) -> HostError:
        why = self._last_log_line()
        kind = NotPermittedError if is_refusal(why) else HostError
        return kind("the lab's init process ended", where="this machine", why=why)

    def _last_log_line(self) -> str:
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "its log is empty"


@dataclass(frozen=True)
class InitProcess:
    """An init process of a lab: its switch, its supervisor, or the process 1 of a host."""

    process: psutil.Process
    lab_id: str
    part: str


def process_mark(key: str, lab_id: str, part: str) -> str:
    """Return the mark of a process of this lab; `part` is switch, supervisor, or host/NAME."""
    return f"{_prefix(key)}{lab_id}:{part}"


def _prefix(key: str) -> str:
    return f"benchkit-lab:{key}:"


def find_init_processes(key: str) -> list[InitProcess]:
    """Return the running init processes of the lab with this key, of this user only."""
    return [
        InitProcess(process, *word.removeprefix(_prefix(key)).split(":", 1))
        for process in _own_processes("cmdline")
        for word in process.info["cmdline"] or ()
        if word.startswith(_prefix(key))
    ]


def kill_all(key: str) -> bool:
    """Kill every process of the lab with this key; return False where there was none. Raises HostError where one stays.

    With namespaces, the kernel kills everything below the switch with it. Without them, it kills the servers with their
    supervisor; other processes are found as its descendants, orphans by their environment. Children are killed first,
    so that their parents can reap them. During execve(2) a process shows neither command line nor environment for an
    instant. So after a kill, two searches in a row must find no process.
    """
    deadline = time.monotonic() + END_DEADLINE_S
    killed_any = False
    while roots := _roots(key) or (_roots(key, after_s=_POLL_S) if killed_any else []):
        killed_any = True
        if time.monotonic() > deadline:
            raise HostError(
                "processes of the lab could not be killed",
                where="this machine",
                why=", ".join(f"{process.pid} is {_state(process)}" for process in roots),
                hint="a process that waits for a disk or a debugger ends after its wait; then run `benchkit lab down` again",
            )
        for group in (_descendants(roots), roots):
            for process in group:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            while _alive(group) and time.monotonic() < deadline:
                time.sleep(_POLL_S)
    return killed_any


def find_sessions(key: str) -> list[psutil.Process]:
    """Return the processes of sessions on hosts of the lab, found by their environment."""
    marks = ((process, (process.info["environ"] or {}).get(MARK_VARIABLE, "")) for process in _own_processes("environ"))
    return [process for process, mark in marks if mark.startswith(_prefix(key))]


def _roots(key: str, *, after_s: float = 0.0) -> list[psutil.Process]:
    """Wait `after_s`, and return the running processes that bear a mark of the lab; sessions with their sshd."""
    time.sleep(after_s)
    roots = [init.process for init in find_init_processes(key)]
    for process in find_sessions(key):
        roots.append(process)
        with suppress(psutil.NoSuchProcess):
            parent = process.parent()
            roots += [parent] if parent is not None and parent.name().startswith("sshd") else []
    return _alive(roots)


def _descendants(roots: Iterable[psutil.Process]) -> list[psutil.Process]:
    descendants: dict[int, psutil.Process] = {}
    for root in roots:
        with suppress(psutil.NoSuchProcess):
            descendants.update({child.pid: child for child in root.children(recursive=True)})
    return list(descendants.values())


def _alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    return [process for process in processes if _state(process) is not None]


def _own_processes(attribute: str) -> Iterator[psutil.Process]:
    """Yield this user's processes, each with one attribute: None where it has ended or denies access."""
    user = os.getuid()
    for process in psutil.process_iter(["uids", attribute]):
        if process.info["uids"] is not None and process.info["uids"].real == user:
            yield process


def _state(process: psutil.Process) -> str | None:
    """Return the state of a process; None where it has ended, even if its parent has not reaped it yet."""
    try:
        state = str(process.status()) if process.is_running() else None
    except psutil.NoSuchProcess:
        return None
    return None if state in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD) else state
