"""The packages that contain the programs benchkit needs, by package manager."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Literal, get_args

Manager = Literal["apt", "dnf", "apk", "pacman", "brew"]


@dataclass(frozen=True)
class ProgramPackages:
    """A program that hosts need, and its sources."""

    packages: Mapping[Manager, str]
    """Its package by manager; managers without a package are absent."""

    home: str
    """Its website, for hosts without a package."""

    build: str | None = None
    """The command that builds it, where most systems have no package; a lab works without such a program."""

    file: str | None = None
    """Pattern of a file whose presence shows that it is installed; None: an executable of this name on PATH."""


def _packages(name: str, **others: str | None) -> Mapping[Manager, str]:
    """Return the packages of a program: `name`, except for managers in `others`; None: that manager has no package."""
    return {manager: package for manager in get_args(Manager) if (package := others.get(manager, name)) is not None}


PROGRAMS: Mapping[str, ProgramPackages] = MappingProxyType(
    {
        "sshd": ProgramPackages(_packages("openssh-server", pacman="openssh", brew=None), "https://www.openssh.com"),
        "ip": ProgramPackages(_packages("iproute2", dnf="iproute", brew=None), "https://github.com/iproute2/iproute2"),
        "tc": ProgramPackages(
            _packages("iproute2", dnf="iproute-tc", brew=None), "https://github.com/iproute2/iproute2"
        ),
        "nginx": ProgramPackages(_packages("nginx"), "https://nginx.org"),
        # A module of nginx, for cells with a Lua script.
        "nginx-lua": ProgramPackages(
            {"apt": "libnginx-mod-http-lua", "apk": "nginx-mod-http-lua"},
            "https://github.com/openresty/lua-nginx-module",
            file="/usr/lib/nginx/modules/ngx_http_lua_module.so",
        ),
        "wrk": ProgramPackages(_packages("wrk", dnf=None, pacman=None), "https://github.com/wg/wrk"),
        "ab": ProgramPackages(
            _packages("apache2-utils", dnf="httpd-tools", pacman="apache", brew="httpd"), "https://httpd.apache.org"
        ),
        "hey": ProgramPackages(_packages("hey", dnf=None), "https://github.com/rakyll/hey"),
        "h2load": ProgramPackages(_packages("nghttp2", apt="nghttp2-client"), "https://nghttp2.org"),
        "oha": ProgramPackages(
            {"pacman": "oha", "brew": "oha"},
            "https://github.com/hatoo/oha",
            build="cargo install --locked oha",
        ),
        "siege": ProgramPackages(_packages("siege", apk=None), "https://github.com/JoeDog/siege"),
        "node": ProgramPackages(_packages("nodejs", brew="node"), "https://nodejs.org"),
        "taskset": ProgramPackages(
            _packages("util-linux", apk="util-linux-misc", brew=None), "https://github.com/util-linux/util-linux"
        ),
        "perf": ProgramPackages(_packages("perf", apt="linux-perf", brew=None), "https://perfwiki.github.io"),
        "bpftrace": ProgramPackages(_packages("bpftrace", brew=None), "https://github.com/bpftrace/bpftrace"),
        "python3": ProgramPackages(_packages("python3", pacman="python", brew="python"), "https://www.python.org"),
        "git": ProgramPackages(_packages("git"), "https://git-scm.com"),
        "ssh": ProgramPackages(
            _packages("openssh-client", dnf="openssh-clients", pacman="openssh", brew=None), "https://www.openssh.com"
        ),
        "go": ProgramPackages(_packages("go", apt="golang-go", dnf="golang"), "https://go.dev/dl"),
        "podman": ProgramPackages(_packages("podman", brew=None), "https://podman.io"),
        "runc": ProgramPackages(_packages("runc", brew=None), "https://github.com/opencontainers/runc"),
        # The bridges of podman, which writes its rules with iptables.
        "netavark": ProgramPackages(
            _packages("netavark", brew=None), "https://github.com/containers/netavark", file="/usr/lib/podman/netavark"
        ),
        "iptables": ProgramPackages(_packages("iptables", dnf="iptables-nft", brew=None), "https://www.netfilter.org"),
        "postgres": ProgramPackages(
            _packages("postgresql", dnf="postgresql-server", brew=None),
            "https://www.postgresql.org",
            file="/usr/lib/postgresql/*/bin/postgres",
        ),
        "chromium": ProgramPackages(_packages("chromium"), "https://www.chromium.org"),
    }
)
"""Programs by the name of their binary."""

LINUX_ONLY = frozenset({"ip", "tc", "perf", "bpftrace", "taskset"})
"""Programs for Linux only; `benchkit lab prepare` leaves them out on other systems."""

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of daemons, often missing in an ordinary user's PATH."""


def find_here(programs: Iterable[str], path: str) -> frozenset[str]:
    """Return the programs that this machine has, in the folders of `path` or of daemons."""
    folders = ":".join((path, *SBIN))

    def is_here(program: str) -> bool:
        file = PROGRAMS[program].file if program in PROGRAMS else None
        return shutil.which(program, path=folders) is not None or (file is not None and any(Path("/").glob(file[1:])))

    return frozenset(filter(is_here, programs))


def manager_here(path: str) -> Manager | None:
    """Return this machine's package manager; None for one that benchkit does not support."""
    binaries: dict[Manager, str] = {manager: manager for manager in get_args(Manager)} | {"apt": "apt-get"}
    return next((manager for manager, binary in binaries.items() if shutil.which(binary, path=path)), None)


def missing(wanted: Iterable[str], found: Collection[str]) -> tuple[str, ...]:
    """Return the programs of `wanted` that are not in `found`, in the order of PROGRAMS."""
    lacking = set(wanted).difference(found)
    return tuple(program for program in PROGRAMS if program in lacking)


def build_hint(programs: Iterable[str]) -> str | None:
    """Return the known commands that build these programs; None where none is known."""
    commands = [PROGRAMS[program].build for program in programs if program in PROGRAMS]
    known = [f"`{command}`" for command in commands if command is not None]
    return f"build it with {' and '.join(known)}" if known else None


def packages_for(programs: Iterable[str], manager: Manager) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the packages that contain `programs`, and the programs without a package of this manager.

    Names that benchkit does not know come from an inventory (`programs`) and have no package.
    """
    packages: dict[str, None] = {}
    without: list[str] = []
    for program in programs:
        package = PROGRAMS[program].packages.get(manager) if program in PROGRAMS else None
        if package is None:
            without.append(program)
        else:
            packages[package] = None
    return tuple(packages), tuple(without)
