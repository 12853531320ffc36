"""Installation of packages: one command for root, run here or on a host, or shown as a line for a shell.

The nginx and openssh-server packages of Debian and its derivatives start their daemons, at once and at every boot. A
machine for benchmarks needs the programs only, so the command prevents new daemons from starting. Existing daemons stay
as they are.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Literal

from benchkit.errors import HostError
from benchkit.hosts.host import Host
from benchkit.hosts.packages import SBIN, Manager

Privilege = Literal["root", "sudo", "none"]

INSTALL_TIMEOUT_S = 1800.0
"""Time to install: a package manager waits for its lock (DPkg::Lock::Timeout) and downloads over slow links."""
OUTPUT_BYTES = 64 << 10
PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", *SBIN))
"""PATH of the command; dpkg requires the folders of daemons."""

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
        "dnf": ("dnf", "install", "--assumeyes"),
        "apk": ("apk", "add"),
        "pacman": ("pacman", "--sync", "--needed", "--noconfirm"),
        "brew": ("brew", "install"),
    }
)
_APT = (
    "policy=/usr/sbin/policy-rc.d new=",
    (
        "for unit in UNITS; do"
        ' [ -e /etc/systemd/system/$unit ] || [ -e /lib/systemd/system/$unit ] || new="$new $unit"; done'
    ),
    (
        'if [ "$new" ] && [ ! -e $policy ]; then trap "rm -f $policy" EXIT; trap "exit 130" INT TERM HUP;'
        ' echo "#!/bin/sh" > $policy; echo "test -z \\"\\$(find $policy -mmin -60)\\" || exit 101" >> $policy;'
        " chmod 755 $policy; fi"
    ),
    "export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1",
    'options="-o DPkg::Lock::Timeout=300 -o Dpkg::Options::=--force-confold"',
    'install="apt-get install --yes --no-install-recommends $options PACKAGES"',
    "$install || { apt-get update $options && $install; }",
    "code=$?",
    '[ -z "$new" ] || ! command -v systemctl > /dev/null || systemctl disable $new',
    "exit $code",
)
"""Shell script for apt, on one line for people to paste.

Where apt has no lists, or older ones than the mirror's files, it updates them.

A policy-rc.d with exit code 101 forbids to start daemons (Debian Policy 9.3.3, invoke-rc.d(8)); it forbids for one hour
only, so that they can start again after a crashed installation. needrestart would restart unrelated daemons. On a new
machine, the first upgrade often holds the lock. Existing configuration files are kept.
"""


def install_command(manager: Manager, packages: Iterable[str]) -> tuple[str, ...]:
    """Return root's command that installs packages without starting their daemons."""
    packages = tuple(packages)
    if manager != "apt":
        return (*_INSTALL[manager], *packages)
    units = [unit for package in packages for unit in _DAEMONS.get(package, ())]
    script = "; ".join(_APT).replace("UNITS", " ".join(units) or "''").replace("PACKAGES", shlex.join(packages))
    return ("sh", "-c", script)


def shell_line(command: Iterable[str], *, sudo: bool) -> str:
    """Return root's command for a shell, with sudo or without."""
    line = shlex.join(command)
    return f"sudo {line}" if sudo else line


def install_here(command: tuple[str, ...], *, sudo: bool) -> None:
    """Run root's command on this machine; its output goes to stderr, as stdout is for results. Raises HostError."""
    sys.stderr.flush()
    argv = ("sudo", "-n", *command) if sudo else command
    environment = os.environ | {"PATH": os.pathsep.join((os.environ.get("PATH", os.defpath), *SBIN))}
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=environment, check=False)
    if done.returncode != 0:
        raise HostError("the packages could not be installed", why=f"exit code {done.returncode}")


def install_on(host: Host, command: tuple[str, ...], *, sudo: bool) -> None:
    """Run root's command on a host. Raises HostError with the end of its output."""
    argv = ("sudo", "-n", *command) if sudo else command
    done = host.processes.run(argv, env={"PATH": PATH}, timeout_s=INSTALL_TIMEOUT_S, max_bytes=OUTPUT_BYTES)
    if not done.ok:
        why = f"{done.printed[-500:]} ({done.ended})" if done.printed else str(done.ended)
        raise HostError("the packages could not be installed", where=host.name, why=why)
