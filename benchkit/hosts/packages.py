"""The Debian packages that contain the programs benchkit needs, and their installation by apt: here, or on a host.

The nginx and openssh-server packages start their daemons, at once and at every boot. A machine for benchmarks needs the
programs only, so the command prevents new daemons from starting. Existing daemons stay as they are.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from benchkit.errors import HostError
from benchkit.hosts.host import Host

Privilege = Literal["root", "sudo", "none"]

INSTALL_TIMEOUT_S = 1800.0
"""Time to install: apt waits for its lock (DPkg::Lock::Timeout) and downloads over slow links."""
OUTPUT_BYTES = 64 << 10
SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of daemons, often missing in an ordinary user's PATH."""
PATH = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin", *SBIN))
"""PATH of the command; dpkg requires the folders of daemons."""


class Program(NamedTuple):
    """A program that hosts need: its package (None: Debian has none), and its website for hosts without that."""

    package: str | None
    home: str
    build: str | None = None
    """The command that builds it, where most systems have no package; a lab works without such a program."""
    file: str | None = None
    """Pattern of a file whose presence shows that it is installed; None: an executable of this name on PATH."""


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "sshd": Program("openssh-server", "https://www.openssh.com"),
        "ip": Program("iproute2", "https://github.com/iproute2/iproute2"),
        "tc": Program("iproute2", "https://github.com/iproute2/iproute2"),
        "nginx": Program("nginx", "https://nginx.org"),
        # A module of nginx, for cells with a Lua script.
        "nginx-lua": Program(
            "libnginx-mod-http-lua",
            "https://github.com/openresty/lua-nginx-module",
            file="/usr/lib/nginx/modules/ngx_http_lua_module.so",
        ),
        "wrk": Program("wrk", "https://github.com/wg/wrk"),
        "ab": Program("apache2-utils", "https://httpd.apache.org"),
        "hey": Program("hey", "https://github.com/rakyll/hey"),
        "h2load": Program("nghttp2-client", "https://nghttp2.org"),
        "oha": Program(None, "https://github.com/hatoo/oha", build="cargo install --locked oha"),
        "siege": Program("siege", "https://github.com/JoeDog/siege"),
        "node": Program("nodejs", "https://nodejs.org"),
        "taskset": Program("util-linux", "https://github.com/util-linux/util-linux"),
        "unshare": Program("util-linux", "https://github.com/util-linux/util-linux"),
        "perf": Program("linux-perf", "https://perfwiki.github.io"),
        "bpftrace": Program("bpftrace", "https://github.com/bpftrace/bpftrace"),
        "python3": Program("python3", "https://www.python.org"),
        "git": Program("git", "https://git-scm.com"),
        "ssh": Program("openssh-client", "https://www.openssh.com"),
        "go": Program("golang-go", "https://go.dev/dl"),
        "podman": Program("podman", "https://podman.io"),
        "runc": Program("runc", "https://github.com/opencontainers/runc"),
        # The bridges of podman, which writes its rules with iptables.
        "netavark": Program("netavark", "https://github.com/containers/netavark", file="/usr/lib/podman/netavark"),
        "iptables": Program("iptables", "https://www.netfilter.org"),
        "postgres": Program("postgresql", "https://www.postgresql.org", file="/usr/lib/postgresql/*/bin/postgres"),
        "chromium": Program("chromium", "https://www.chromium.org"),
        "php": Program("php-cli", "https://www.php.net"),
    }
)
"""Programs by the name of their binary."""

LINUX_ONLY = frozenset({"ip", "tc", "perf", "bpftrace", "taskset", "unshare"})
"""Programs for Linux only; `benchkit lab prepare` omits them on other systems."""

_DAEMONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "openssh-server": ("ssh.service", "ssh.socket"),
        "nginx": ("nginx.service",),
        "postgresql": ("postgresql.service",),
        "podman": ("podman.socket", "podman.service", "podman-restart.service", "podman-auto-update.timer"),
    }
)
"""Units that the packages start, at once and at every boot."""
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


def find_here(programs: Iterable[str], path: str) -> frozenset[str]:
    """Return the programs that this machine has, in the folders of `path` or of daemons."""
    folders = ":".join((path, *SBIN))

    def is_here(program: str) -> bool:
        file = PROGRAMS[program].file if program in PROGRAMS else None
        return shutil.which(program, path=folders) is not None or (file is not None and any(Path("/").glob(file[1:])))

    return frozenset(filter(is_here, programs))


def missing(wanted: Iterable[str], found: Collection[str]) -> tuple[str, ...]:
    """Return the programs of `wanted` that are not in `found`, in the order of PROGRAMS."""
    lacking = set(wanted).difference(found)
    return tuple(program for program in PROGRAMS if program in lacking)


def build_hint(programs: Iterable[str]) -> str | None:
    """Return the known commands that build these programs; None where none is known."""
    commands = [PROGRAMS[program].build for program in programs if program in PROGRAMS]
    known = [f"`{command}`" for command in commands if command is not None]
    return f"build it with {' and '.join(known)}" if known else None


def packages_for(programs: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the packages that contain `programs`, and the programs without a package.

    Names that benchkit does not know come from an inventory (`programs`) and have no package.
    """
    found = {program: PROGRAMS[program].package if program in PROGRAMS else None for program in programs}
    packages = dict.fromkeys(package for package in found.values() if package is not None)
    return tuple(packages), tuple(program for program, package in found.items() if package is None)


def install_command(packages: Collection[str]) -> tuple[str, ...]:
    """Return root's command that installs packages without starting their daemons."""
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
