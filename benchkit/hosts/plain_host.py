"""Hosts as machines that run installation steps: through their agent, or over plain commands of the login shell.

Plain commands are enough to gather facts about a host without Python, and to install Python there.
"""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Self

from benchkit.agent.common import parse_cpu_list
from benchkit.errors import HostError
from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.facts import GOARCH, PACKAGE_MANAGERS, PROGRAMS, version_queries
from benchkit.hosts.host import Host
from benchkit.hosts.install import StepOutcome
from benchkit.hosts.inventory import HostSpec
from benchkit.hosts.packages import SBIN
from benchkit.hosts.ssh import SshConnection, SshStream
from benchkit.models.facts import ProgramFact, RecordedFacts
from benchkit.safe_text import legible

STEP_TIMEOUT_S = 1800.0
"""Time for a step: a package manager waits for its lock (DPkg::Lock::Timeout) and downloads over slow links."""
NOT_FOUND = 127
SYSTEM_PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", *SBIN))
"""PATH of installation steps; dpkg requires the folders of daemons."""

FACTS_TIMEOUT_S = 30.0
RECEIVE_BYTES = 65536
OUTPUT_BYTES = 64 << 10

_FACTS = (
    'echo "hostname=$(uname -n)"',
    'echo "os=$(uname -s)"',
    'echo "kernel=$(uname -r)"',
    'echo "machine=$(uname -m)"',
    'echo "user=$(id -un)"',
    'echo "uid=$(id -u)"',
    'echo "nofile=$(ulimit -Hn)"',
    'while read -r key value _; do [ "$key" = Cpus_allowed_list: ] && echo "cpus=$value"; done < /proc/self/status',
    'while read -r key value _; do [ "$key" = MemTotal: ] && echo "memory_kib=$value"; done < /proc/meminfo',
    '[ -r /etc/os-release ] && (. /etc/os-release && echo "distribution=${PRETTY_NAME:-$NAME}")',
    'version=$(python3 --version 2>&1) && echo "python=${version#Python }"',
)
"""Commands for any POSIX shell; each prints a fact as `name=value`, or nothing."""


class HostRunner:
    """Runs steps on a host as its login user; their output is returned when they end."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for its end. Raises HostError where the host is lost."""
        try:
            done = self._host.processes.run(
                argv,
                env={"PATH": SYSTEM_PATH},
                stdin=(stdin or "").encode(),
                timeout_s=STEP_TIMEOUT_S,
                max_bytes=OUTPUT_BYTES,
            )
        except RefusedError as error:
            if error.kind != "not-found":
                raise
            return StepOutcome(NOT_FOUND, f"{argv[0]}: not found")
        code = done.ended.exit_code
        text = (done.stderr or done.stdout).decode(errors="replace") if shown else ""
        return StepOutcome(-(done.ended.signal or 0) if code is None else code, text)


class PlainHost:
    """Runs commands on a host, one after the other over one SSH connection; a context manager that closes it."""

    def __init__(self, spec: HostSpec, others: Mapping[str, HostSpec]) -> None:
        """Prepare the connection; `others` are the hosts of the inventory, by name, that may be its jump hosts."""
        self.spec = spec
        self._connection = SshConnection(spec, others)

    def __enter__(self) -> Self:
        self._connection.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connection.close()

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for its end; return its output if `shown`. Raises HostError."""
        code, printed = self._run(f"env PATH={SYSTEM_PATH} {shlex.join(argv)}", (stdin or "").encode(), STEP_TIMEOUT_S)
        if code == NOT_FOUND:
            return StepOutcome(NOT_FOUND, f"{argv[0]}: not found")
        return StepOutcome(code, printed if shown else "")

    def facts(self) -> RecordedFacts:
        """Return the facts that shell commands print. Raises HostError."""
        sought = {name: query.command[0] for name, query in version_queries(self.spec.programs).items()}
        sought |= {binary: binary for binary in PACKAGE_MANAGERS.values()}
        find = [
            f'path=$(command -v {shlex.quote(program)}) && echo "program {name}=$path"'
            for name, program in sought.items()
        ]
        sudo = ["sudo -n true && echo can_sudo=yes"] if self.spec.sudo else []
        script = "; ".join([*_FACTS, f"PATH=$PATH:{SYSTEM_PATH}", *find, *sudo, ":"])
        _, printed = self._run(f"exec /bin/sh -c {shlex.quote(script)}", b"", FACTS_TIMEOUT_S)
        return parse_plain_facts(printed, self.spec)

    def _run(self, line: str, stdin: bytes, timeout_s: float) -> tuple[int, str]:
        """Run a line in the login shell; return exit code and output. Raises HostError."""
        stream = self._connection.run(line)
        stream.send(stdin)
        stream.end_input()
        printed = self._read(stream, line, time.monotonic() + timeout_s)
        code = stream.exit_code(FACTS_TIMEOUT_S)
        if code is None or code < 0:
            raise HostError("a command was ended or the connection broke", where=self.spec.name, why=line)
        text = printed.decode(errors="replace")
        return code, (stream.stderr() or text if code else text)

    def _read(self, stream: SshStream, line: str, deadline: float) -> bytes:
        printed = b""
        while True:
            try:
                piece = stream.receive(RECEIVE_BYTES)
            except TimeoutError:
                if time.monotonic() > deadline:
                    raise HostError("a command does not end", where=self.spec.name, why=line) from None
                continue
            if not piece:
                return printed
            printed = (printed + piece)[-OUTPUT_BYTES:]


def parse_plain_facts(printed: str, spec: HostSpec) -> RecordedFacts:
    """Parse the output of `_FACTS`, with the programs of benchkit and of the inventory; pure."""
    found = dict(line.partition("=")[::2] for line in legible(printed).splitlines() if "=" in line)
    programs = {name.removeprefix("program "): path for name, path in found.items() if name.startswith("program ")}
    managers = [name for name, binary in PACKAGE_MANAGERS.items() if binary in programs]
    known = {*PROGRAMS, *spec.programs}
    return RecordedFacts(
        hostname=found.get("hostname"),
        os=found.get("os", "").lower() or None,
        distribution=found.get("distribution"),
        kernel=found.get("kernel"),
        machine=found.get("machine"),
        goarch=GOARCH.get(found.get("machine", "")),
        python=found.get("python"),
        cpus=tuple(parse_cpu_list(found.get("cpus", ""))),
        memory_bytes=_number(found.get("memory_kib"), 1024),
        user=found.get("user"),
        uid=_number(found.get("uid")),
        can_sudo=found.get("can_sudo") == "yes" if spec.sudo else None,
        nofile_hard=_number(found.get("nofile")),
        package_manager=managers[0] if managers else None,
        programs={name: ProgramFact(path=path) for name, path in programs.items() if name in known},
    )


def _number(text: str | None, unit: int = 1) -> int | None:
    return int(text) * unit if text and text.isascii() and text.isdigit() else None
