"""Installation of packages: steps as data, shown as one line or run in order, with clean-up steps.

`survey` reads the state of a host, `install_steps` converts it to steps, and `run_steps` runs them. `shell_line` shows
them as one line for users to paste where benchkit may not install.

The nginx and openssh-server packages of Debian and its derivatives start their daemons, at once and at every boot. A
machine for benchmarks needs the programs only, so the steps prevent new daemons from starting. Existing daemons stay as
they are.
"""

from __future__ import annotations

import logging
import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, Protocol

from benchkit.errors import HostError
from benchkit.hosts.agent_link import RefusedError
from benchkit.hosts.host import Host
from benchkit.hosts.packages import SBIN, Manager

logger = logging.getLogger(__name__)

Privilege = Literal["root", "sudo", "none"]

STEP_TIMEOUT_S = 1800.0
"""Time for a step: a package manager waits for its lock (DPkg::Lock::Timeout) and downloads over slow links."""
OUTPUT_BYTES = 64 << 10
NOT_FOUND = 127

_DAEMONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openssh-server": ("ssh.service", "ssh.socket"),
        "nginx": ("nginx.service",),
        "postgresql": ("postgresql.service",),
        "podman": ("podman.socket", "podman.service", "podman-restart.service", "podman-auto-update.timer"),
    }
)
"""Units that Debian's packages start, at once and at every boot. Packages of other managers start nothing."""

_INSTALL: Mapping[Manager, tuple[str, ...]] = MappingProxyType(
    {
        # noninteractive: there is no terminal. needrestart would restart unrelated daemons. On a new machine, the first
        # upgrade often holds the lock. Existing configuration files are kept.
        "apt": (
            *("env", "DEBIAN_FRONTEND=noninteractive", "NEEDRESTART_SUSPEND=1"),
            *("apt-get", "install", "--yes", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=300"),
            *("-o", "Dpkg::Options::=--force-confold"),
        ),
        "dnf": ("dnf", "install", "--assumeyes"),
        "apk": ("apk", "add"),
        "pacman": ("pacman", "--sync", "--needed", "--noconfirm"),
        "brew": ("brew", "install"),
    }
)

_UPDATE = ("apt-get", "update", "-o", "DPkg::Lock::Timeout=300")
_POLICY = "/usr/sbin/policy-rc.d"
_POLICY_MARK = "benchkit: no daemon starts while its package is installed"
_POLICY_TEXT = f"""#!/bin/sh
# {_POLICY_MARK}
test -z "$(find {_POLICY} -mmin -60)" || exit 101
"""
"""A policy-rc.d: exit code 101 forbids the action (Debian Policy 9.3.3, invoke-rc.d(8), deb-systemd-invoke(1p)).

It forbids for one hour only, so that daemons can start again after a crashed installation.
"""

_UNIT_FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")


@dataclass(frozen=True)
class InstallStep:
    """One command of an installation, as an argument list."""

    argv: tuple[str, ...]
    stdin: str | None = None
    always: bool = False
    """True for a clean-up step, which runs also after an earlier step failed or was interrupted."""
    retry_after: tuple[str, ...] | None = None
    """Command to run where `argv` fails, before `argv` is tried a second time."""


@dataclass(frozen=True)
class StepOutcome:
    """The end of a command."""

    code: int
    text: str = ""
    """Its output, unless already shown."""


class Runner(Protocol):
    """The interface of a machine that runs steps: this one, or a host over SSH."""

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command, show its output if `shown`, and wait for its end. Code 127: the command does not exist."""
        ...


class LocalRunner:
    """Runs steps on this machine. Their output goes to stderr: stdout is for results."""

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for its end."""
        sys.stderr.flush()
        path = os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))  # dpkg requires these folders
        output = sys.stderr if shown else subprocess.DEVNULL
        try:
            done = subprocess.run(
                argv,
                input=stdin or "",
                stdout=output,
                stderr=output,
                env=os.environ | {"PATH": path},
                text=True,
                check=False,
            )
        except FileNotFoundError:
            return StepOutcome(NOT_FOUND, f"{argv[0]}: not found")
        return StepOutcome(done.returncode)


class HostRunner:
    """Runs steps on a host as its login user; their output is returned when they end."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def run(self, argv: tuple[str, ...], *, stdin: str | None = None, shown: bool = True) -> StepOutcome:
        """Run a command and wait for its end. Raises HostError where the host is lost."""
        path = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", *SBIN))
        try:
            done = self._host.processes.run(
                argv, env={"PATH": path}, stdin=(stdin or "").encode(), timeout_s=STEP_TIMEOUT_S, max_bytes=OUTPUT_BYTES
            )
        except RefusedError as error:
            if error.kind != "not-found":
                raise
            return StepOutcome(NOT_FOUND, f"{argv[0]}: not found")
        code = done.ended.exit_code
        return StepOutcome(-(done.ended.signal or 0) if code is None else code, done.printed if shown else "")


def run_steps(steps: Iterable[InstallStep], runner: Runner, *, where: str | None = None) -> None:
    """Run steps in order; after a failed or interrupted step, only the steps marked `always`.

    Raises HostError naming the failed command and the clean-up commands that failed after it.
    """
    remaining = iter(steps)
    try:
        for step in remaining:
            _run_step(step, runner, where)
    except HostError as error:
        failed = tuple(_clean_up(remaining, runner))
        if not failed:
            raise
        raise HostError(error.what, where=where, why=error.why, hint=f"run this by hand: {'; '.join(failed)}") from None
    except BaseException as error:  # mostly an interrupt: clean-up steps must still run
        for line in _clean_up(remaining, runner):
            error.add_note(f"not done: {line}")
        raise


def _run_step(step: InstallStep, runner: Runner, where: str | None) -> None:
    logger.info("%s: running %s", where or "here", step.argv[0])
    outcome = runner.run(step.argv, stdin=step.stdin)
    if outcome.code != 0 and step.retry_after is not None:
        runner.run(step.retry_after)
        outcome = runner.run(step.argv, stdin=step.stdin)
    if outcome.code != 0:
        ended = f"exit code {outcome.code}" if outcome.code >= 0 else f"signal {-outcome.code}"
        why = f"{outcome.text.strip()} ({ended})" if outcome.text.strip() else ended
        raise HostError(f"`{shlex.join(step.argv)}` failed", where=where, why=why)


def _clean_up(remaining: Iterator[InstallStep], runner: Runner) -> Iterator[str]:
    """Run the remaining clean-up steps; yield the commands that failed."""
    for step in remaining:
        if step.always and runner.run(step.argv, stdin=step.stdin).code != 0:
            yield shlex.join(step.argv)


@dataclass(frozen=True)
class PackageState:
    """The state of a host that the steps depend on: its package manager and init system."""

    manager: Manager
    privilege: Privilege
    lists_current: bool = True
    """True where apt's lists have all packages."""
    policy: bool = False
    """True where the host has its own policy-rc.d."""
    systemd: bool = True
    units_before: frozenset[str] = frozenset()
    """Units of the daemons that existed before the installation."""


def survey(runner: Runner, manager: Manager, privilege: Privilege, packages: Iterable[str]) -> PackageState:
    """Read the state of a host; changes nothing there."""
    if manager != "apt":
        return PackageState(manager, privilege)
    packages = tuple(packages)

    def succeeds(*argv: str) -> bool:
        return runner.run(argv, shown=False).code == 0

    systemd = succeeds("test", "-x", "/usr/bin/systemctl") or succeeds("test", "-x", "/bin/systemctl")
    return PackageState(
        manager,
        privilege,
        lists_current=succeeds("apt-get", "install", "--simulate", "--quiet=2", "--no-install-recommends", *packages),
        policy=succeeds("test", "-e", _POLICY) and not succeeds("grep", "--quiet", _POLICY_MARK, _POLICY),
        systemd=systemd,
        units_before=frozenset(
            unit
            for unit in _units(packages)
            if any(succeeds("test", "-e", path) for path in _unit_paths(unit, systemd=systemd))
        ),
    )


def install_steps(state: PackageState, packages: Iterable[str]) -> tuple[InstallStep, ...]:
    """Return the steps that install `packages` without starting their daemons; pure.

    Without `privilege` in `state`, they are root's steps.
    """
    packages = tuple(packages)
    if not packages:
        return ()
    install = _INSTALL[state.manager] + packages
    if state.manager != "apt":
        return (InstallStep(_with(state.privilege, install)),)
    steps = [] if state.lists_current else [InstallStep(_UPDATE)]
    # The lists may be older than the mirror's files: after a failure update them and try again.
    steps.append(InstallStep(install, retry_after=_UPDATE if state.lists_current else None))
    units = [unit for unit in _units(packages) if unit not in state.units_before]
    if units and not state.policy:
        steps.insert(0, InstallStep(("install", "--mode=755", "/dev/stdin", _POLICY), stdin=_POLICY_TEXT))
        steps.append(InstallStep(("rm", "--force", _POLICY), always=True))
    if state.systemd:
        disable = [("systemctl", "disable", unit) for unit in units]
    else:
        disable = [("update-rc.d", script, "disable") for script in dict.fromkeys(map(_script, units))]
    steps.extend(InstallStep(argv, always=True) for argv in disable)
    return tuple(
        InstallStep(
            _with(state.privilege, step.argv),
            stdin=step.stdin,
            always=step.always,
            retry_after=step.retry_after and _with(state.privilege, step.retry_after),
        )
        for step in steps
    )


def shell_line(steps: Iterable[InstallStep], *, sudo: bool) -> str:
    """Return root's steps as one line for a shell; after a failure it runs only the steps marked `always`."""
    steps = tuple(steps)
    line = ""
    for step in steps:
        command = shlex.join(step.argv)
        if step.stdin is not None:
            command = f"printf %b {_double_quoted(step.stdin)} | {command}"
        line += command if not line else f"; {command}" if step.always else f" && {command}"
    if len(steps) > 1:  # one shell for all: sudo asks once, and the user's shell expands nothing
        line = f"sh -c {shlex.quote(line)}"
    return f"sudo {line}" if sudo else line


def _with(privilege: Privilege, argv: tuple[str, ...]) -> tuple[str, ...]:
    return ("sudo", "-n", *argv) if privilege == "sudo" else argv


def _units(packages: Iterable[str]) -> list[str]:
    return [unit for package in packages for unit in _DAEMONS.get(package, ())]


def _script(unit: str) -> str:
    """Return the init script of a unit, for hosts without systemd."""
    return unit.partition(".")[0]


def _unit_paths(unit: str, *, systemd: bool) -> tuple[str, ...]:
    return tuple(f"{folder}/{unit}" for folder in _UNIT_FOLDERS) if systemd else (f"/etc/init.d/{_script(unit)}",)


def _double_quoted(text: str) -> str:
    """Quote text for printf's %b, on one line and without single quotes, so that the line can itself be quoted."""
    for character, escaped in (("\\", "\\\\\\\\"), ('"', '\\"'), ("$", "\\$"), ("`", "\\`"), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f'"{text}"'
