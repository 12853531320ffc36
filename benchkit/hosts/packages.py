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
    """A program that hosts need, and its source."""

    packages: Mapping[Manager, str]
    """Its package, by manager; managers without one are absent."""

    home: str
    """Its website, for hosts without a package of it."""

    build: str | None = None
    """The command that builds it, for a program without a package in most systems: a lab does without it."""

    file: str | None = None
    """Pattern of a file that shows it is there, for what is not on PATH; None: an executable of this name."""


PROGRAMS: Mapping[str, ProgramPackages] = MappingProxyType(
    {
        "sshd": ProgramPackages(
            {"apt": "openssh-server", "dnf": "openssh-server", "apk": "openssh-server", "pacman": "openssh"},
            "https://www.openssh.com",
        ),
        "ip": ProgramPackages(
            {"apt": "iproute2", "dnf": "iproute", "apk": "iproute2", "pacman": "iproute2"},
            "https://github.com/iproute2/iproute2",
        ),
        "tc": ProgramPackages(
            {"apt": "iproute2", "dnf": "iproute-tc", "apk": "iproute2", "pacman": "iproute2"},
            "https://github.com/iproute2/iproute2",
        ),
        "nginx": ProgramPackages(
            {"apt": "nginx", "dnf": "nginx", "apk": "nginx", "pacman": "nginx", "brew": "nginx"},
            "https://nginx.org",
        ),
        # A module of nginx, for cells with a Lua script.
        "nginx-lua": ProgramPackages(
            {"apt": "libnginx-mod-http-lua", "apk": "nginx-mod-http-lua"},
            "https://github.com/openresty/lua-nginx-module",
            file="/usr/lib/nginx/modules/ngx_http_lua_module.so",
        ),
        "wrk": ProgramPackages({"apt": "wrk", "apk": "wrk", "brew": "wrk"}, "https://github.com/wg/wrk"),
        "ab": ProgramPackages(
            {"apt": "apache2-utils", "dnf": "httpd-tools", "apk": "apache2-utils", "pacman": "apache", "brew": "httpd"},
            "https://httpd.apache.org",
        ),
        "hey": ProgramPackages(
            {"apt": "hey", "apk": "hey", "pacman": "hey", "brew": "hey"},
            "https://github.com/rakyll/hey",
        ),
        "h2load": ProgramPackages(
            {"apt": "nghttp2-client", "dnf": "nghttp2", "apk": "nghttp2", "pacman": "nghttp2", "brew": "nghttp2"},
            "https://nghttp2.org",
        ),
        "oha": ProgramPackages(
            {"pacman": "oha", "brew": "oha"},
            "https://github.com/hatoo/oha",
            build="cargo install --locked oha --features http3",
        ),
        "siege": ProgramPackages(
            {"apt": "siege", "dnf": "siege", "pacman": "siege", "brew": "siege"},
            "https://github.com/JoeDog/siege",
        ),
        "node": ProgramPackages(
            {"apt": "nodejs", "dnf": "nodejs", "apk": "nodejs", "pacman": "nodejs", "brew": "node"},
            "https://nodejs.org",
        ),
        "taskset": ProgramPackages(
            {"apt": "util-linux", "dnf": "util-linux", "apk": "util-linux-misc", "pacman": "util-linux"},
            "https://github.com/util-linux/util-linux",
        ),
        "perf": ProgramPackages(
            {"apt": "linux-perf", "dnf": "perf", "apk": "perf", "pacman": "perf"},
            "https://perfwiki.github.io",
        ),
        "bpftrace": ProgramPackages(
            {"apt": "bpftrace", "dnf": "bpftrace", "apk": "bpftrace", "pacman": "bpftrace"},
            "https://github.com/bpftrace/bpftrace",
        ),
        "python3": ProgramPackages(
            {"apt": "python3", "dnf": "python3", "apk": "python3", "pacman": "python", "brew": "python"},
            "https://www.python.org",
        ),
        "git": ProgramPackages(
            {"apt": "git", "dnf": "git", "apk": "git", "pacman": "git", "brew": "git"}, "https://git-scm.com"
        ),
        "ssh": ProgramPackages(
            {"apt": "openssh-client", "dnf": "openssh-clients", "apk": "openssh-client", "pacman": "openssh"},
            "https://www.openssh.com",
        ),
        "go": ProgramPackages(
            {"apt": "golang-go", "dnf": "golang", "apk": "go", "pacman": "go", "brew": "go"}, "https://go.dev/dl"
        ),
        "podman": ProgramPackages(
            {"apt": "podman", "dnf": "podman", "apk": "podman", "pacman": "podman"}, "https://podman.io"
        ),
        "runc": ProgramPackages(
            {"apt": "runc", "dnf": "runc", "apk": "runc", "pacman": "runc"}, "https://github.com/opencontainers/runc"
        ),
        # The bridges of podman, which writes its rules with iptables.
        "netavark": ProgramPackages(
            {"apt": "netavark", "dnf": "netavark", "apk": "netavark", "pacman": "netavark"},
            "https://github.com/containers/netavark",
            file="/usr/lib/podman/netavark",
        ),
        "iptables": ProgramPackages(
            {"apt": "iptables", "dnf": "iptables-nft", "apk": "iptables", "pacman": "iptables"},
            "https://www.netfilter.org",
        ),
        "postgres": ProgramPackages(
            {"apt": "postgresql", "dnf": "postgresql-server", "apk": "postgresql", "pacman": "postgresql"},
            "https://www.postgresql.org",
            file="/usr/lib/postgresql/*/bin/postgres",
        ),
        "chromium": ProgramPackages(
            {"apt": "chromium", "dnf": "chromium", "apk": "chromium", "pacman": "chromium", "brew": "chromium"},
            "https://www.chromium.org",
        ),
    }
)
"""Programs by the name of their binary."""

LINUX_ONLY = frozenset({"ip", "tc", "perf", "bpftrace", "taskset"})
"""Programs that a lab on another system does not need: its hosts are ports of the loopback interface."""

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Folders of daemons, often missing in the PATH of an ordinary user."""


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
    """Return the commands that build those of these programs for which one is known; None without any."""
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
