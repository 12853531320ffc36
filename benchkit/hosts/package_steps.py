"""The steps that install packages on a host, as data; `benchkit.hosts.steps` runs them.

`survey` reads the state of a host, `install_steps` converts it to steps, `shell_line` shows them as one line for users
to paste where benchkit may not install.

The nginx and openssh-server packages of Debian and its descendants start their daemons, at once and at every boot. A
machine for benchmarks needs their programs only, so the steps prevent new daemons from starting. Daemons that existed
before are not changed.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from benchkit.hosts.packages import Manager
from benchkit.hosts.steps import Runner, Step

Privilege = Literal["root", "sudo", "none"]

_DAEMONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"openssh-server": ("ssh.service", "ssh.socket"), "nginx": ("nginx.service",)}
)
"""Units that Debian's packages start, at once and at every boot. Packages of other managers start nothing."""

_INSTALL: Mapping[Manager, tuple[str, ...]] = MappingProxyType(
    {
        # noninteractive: there is no terminal; needrestart would restart unrelated daemons; a new machine often holds
        # the lock for its first upgrade; existing configuration files are kept.
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
"""Debian Policy 9.3.3 and invoke-rc.d(8): 101 forbids the action. deb-systemd-invoke(1p) asks the same file.

It forbids for one hour only: after an installation that crashed, daemons can start again.
"""

_UNIT_FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")


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


def install_steps(state: PackageState, packages: Iterable[str]) -> tuple[Step, ...]:
    """Return the steps that install `packages` without starting their daemons; pure.

    Without privilege: root's steps.
    """
    packages = tuple(packages)
    if not packages:
        return ()
    install = _INSTALL[state.manager] + packages
    if state.manager != "apt":
        return (Step(_with(state.privilege, install)),)
    steps = [] if state.lists_current else [Step(_UPDATE)]
    # Lists with the packages may still be older than the mirror, whose files have changed: then update and try again.
    steps.append(Step(install, retry_after=_UPDATE if state.lists_current else None))
    units = [unit for unit in _units(packages) if unit not in state.units_before]
    if units and not state.policy:
        steps.insert(0, Step(("install", "--mode=755", "/dev/stdin", _POLICY), stdin=_POLICY_TEXT))
        steps.append(Step(("rm", "--force", _POLICY), always=True))
    if state.systemd:
        disable = [("systemctl", "disable", unit) for unit in units]
    else:
        disable = [("update-rc.d", script, "disable") for script in dict.fromkeys(map(_script, units))]
    steps.extend(Step(argv, always=True) for argv in disable)
    return tuple(
        Step(
            _with(state.privilege, step.argv),
            stdin=step.stdin,
            always=step.always,
            retry_after=step.retry_after and _with(state.privilege, step.retry_after),
        )
        for step in steps
    )


def shell_line(steps: Iterable[Step], *, sudo: bool) -> str:
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
    """Quote text for printf's %b: on one line and without single quotes, so that the whole line can be quoted."""
    for character, escaped in (("\\", "\\\\\\\\"), ('"', '\\"'), ("$", "\\$"), ("`", "\\`"), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f'"{text}"'
