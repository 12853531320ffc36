"""The steps that install packages on a host: made here as data, carried out by `benchkit.hosts.steps`.

`survey` asks a host what the steps depend on, `install_steps` turns the answer into steps, `line_to_run` shows them as
the one line that a person pastes where benchkit may not install.

The nginx and openssh-server packages of Debian and its descendants start their daemons, at once and at every boot. A
machine that is to run benchmarks wants their programs only, so the steps keep a daemon that was not there before from
starting. Daemons that were there before are left as they are.
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
"""The units that Debian's packages start, at once and at every boot. Other managers' packages wait to be enabled."""

_INSTALL: Mapping[Manager, tuple[str, ...]] = MappingProxyType(
    {
        # noninteractive: nobody could answer; needrestart would restart daemons that are none of our business; a fresh
        # machine often holds the lock for its own first upgrade; a configuration file found in place stays.
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

It forbids for an hour only, so that an installation cut off by a crash does not keep daemons from starting for ever.
"""

_UNIT_FOLDERS = ("/etc/systemd/system", "/lib/systemd/system", "/usr/lib/systemd/system")


@dataclass(frozen=True)
class PackageState:
    """What a host's package manager and init system are like, as far as the steps depend on it."""

    manager: Manager
    privilege: Privilege
    lists_current: bool = True
    """apt knows all the packages without asking its mirrors."""
    policy: bool = False
    """The host has a policy-rc.d of its own."""
    systemd: bool = True
    units_before: frozenset[str] = frozenset()
    """Those of the daemons' units that stand there before anything is installed."""


def survey(runner: Runner, manager: Manager, privilege: Privilege, packages: Iterable[str]) -> PackageState:
    """Ask a host what the steps depend on; changes nothing there."""
    if manager != "apt":
        return PackageState(manager, privilege)
    packages = tuple(packages)

    def yes(*argv: str) -> bool:
        return runner.run(argv, shown=False).code == 0

    systemd = yes("test", "-x", "/usr/bin/systemctl") or yes("test", "-x", "/bin/systemctl")
    return PackageState(
        manager,
        privilege,
        lists_current=yes("apt-get", "install", "--simulate", "--quiet=2", "--no-install-recommends", *packages),
        policy=yes("test", "-e", _POLICY) and not yes("grep", "--quiet", _POLICY_MARK, _POLICY),
        systemd=systemd,
        units_before=frozenset(
            unit
            for unit in _units(packages)
            if any(yes("test", "-e", place) for place in _places(unit, systemd=systemd))
        ),
    )


def install_steps(ground: PackageState, packages: Iterable[str]) -> tuple[Step, ...]:
    """The steps that install `packages`, with what keeps their daemons from starting. Pure; without privilege as root's."""
    packages = tuple(packages)
    if not packages:
        return ()
    install = _INSTALL[ground.manager] + packages
    if ground.manager != "apt":
        return (Step(_with(ground.privilege, install)),)
    steps = [] if ground.lists_current else [Step(_UPDATE)]
    # Lists that know the packages may still be older than the mirror: files are gone, and one update brings the new ones.
    steps.append(Step(install, retry_after=_UPDATE if ground.lists_current else None))
    units = [unit for unit in _units(packages) if unit not in ground.units_before]
    if units and not ground.policy:
        steps.insert(0, Step(("install", "--mode=755", "/dev/stdin", _POLICY), stdin=_POLICY_TEXT))
        steps.append(Step(("rm", "--force", _POLICY), always=True))
    if ground.systemd:
        disable = [("systemctl", "disable", unit) for unit in units]
    else:
        disable = [("update-rc.d", script, "disable") for script in dict.fromkeys(map(_script, units))]
    steps.extend(Step(argv, always=True) for argv in disable)
    return tuple(
        Step(
            _with(ground.privilege, step.argv),
            stdin=step.stdin,
            always=step.always,
            retry_after=step.retry_after and _with(ground.privilege, step.retry_after),
        )
        for step in steps
    )


def line_to_run(steps: Iterable[Step], *, sudo: bool) -> str:
    """Steps made for root, as one line for a person's shell: after a failure only what always has to be done."""
    steps = tuple(steps)
    line = ""
    for step in steps:
        words = shlex.join(step.argv)
        if step.stdin is not None:
            words = f"printf %b {_double_quoted(step.stdin)} | {words}"
        line += words if not line else f"; {words}" if step.always else f" && {words}"
    if len(steps) > 1:  # one shell for all: sudo asks once, and a person's own shell expands nothing
        line = f"sh -c {shlex.quote(line)}"
    return f"sudo {line}" if sudo else line


def _with(privilege: Privilege, argv: tuple[str, ...]) -> tuple[str, ...]:
    return ("sudo", "-n", *argv) if privilege == "sudo" else argv


def _units(packages: Iterable[str]) -> list[str]:
    return [unit for package in packages for unit in _DAEMONS.get(package, ())]


def _script(unit: str) -> str:
    """The init script that does a unit's work where there is no systemd."""
    return unit.partition(".")[0]


def _places(unit: str, *, systemd: bool) -> tuple[str, ...]:
    return tuple(f"{folder}/{unit}" for folder in _UNIT_FOLDERS) if systemd else (f"/etc/init.d/{_script(unit)}",)


def _double_quoted(text: str) -> str:
    """Text as printf's %b reads it back: on one line, and without single quotes of ours, so that the whole can be quoted."""
    for character, escaped in (("\\", "\\\\\\\\"), ('"', '\\"'), ("$", "\\$"), ("`", "\\`"), ("\n", "\\n")):
        text = text.replace(character, escaped)
    return f'"{text}"'
