"""Which package brings which program, by package manager. Knowledge as data; `benchkit.hosts.package_steps` makes use of it."""

from __future__ import annotations

import shutil
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

Manager = Literal["apt", "dnf", "apk", "pacman", "brew"]


@dataclass(frozen=True)
class Program:
    """A program that hosts need, and where it comes from."""

    packages: Mapping[Manager, str]
    """The package that has it; a manager without one is left out."""

    home: str
    """Where to get it where no package has it."""


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        "sshd": Program(
            {"apt": "openssh-server", "dnf": "openssh-server", "apk": "openssh-server", "pacman": "openssh"},
            "https://www.openssh.com",
        ),
        "ip": Program(
            {"apt": "iproute2", "dnf": "iproute", "apk": "iproute2", "pacman": "iproute2"},
            "https://github.com/iproute2/iproute2",
        ),
        "tc": Program(
            {"apt": "iproute2", "dnf": "iproute-tc", "apk": "iproute2", "pacman": "iproute2"},
            "https://github.com/iproute2/iproute2",
        ),
        "nginx": Program(
            {"apt": "nginx", "dnf": "nginx", "apk": "nginx", "pacman": "nginx", "brew": "nginx"},
            "https://nginx.org",
        ),
        "wrk": Program({"apt": "wrk", "apk": "wrk", "brew": "wrk"}, "https://github.com/wg/wrk"),
        "ab": Program(
            {"apt": "apache2-utils", "dnf": "httpd-tools", "apk": "apache2-utils", "pacman": "apache", "brew": "httpd"},
            "https://httpd.apache.org",
        ),
        "hey": Program(
            {"apt": "hey", "apk": "hey", "pacman": "hey", "brew": "hey"},
            "https://github.com/rakyll/hey",
        ),
        "h2load": Program(
            {"apt": "nghttp2-client", "dnf": "nghttp2", "apk": "nghttp2", "pacman": "nghttp2", "brew": "nghttp2"},
            "https://nghttp2.org",
        ),
        "siege": Program(
            {"apt": "siege", "dnf": "siege", "pacman": "siege", "brew": "siege"},
            "https://github.com/JoeDog/siege",
        ),
        "node": Program(
            {"apt": "nodejs", "dnf": "nodejs", "apk": "nodejs", "pacman": "nodejs", "brew": "node"},
            "https://nodejs.org",
        ),
        "taskset": Program(
            {"apt": "util-linux", "dnf": "util-linux", "apk": "util-linux-misc", "pacman": "util-linux"},
            "https://github.com/util-linux/util-linux",
        ),
        "perf": Program(
            {"apt": "linux-perf", "dnf": "perf", "apk": "perf", "pacman": "perf"},
            "https://perfwiki.github.io",
        ),
        "git": Program(
            {"apt": "git", "dnf": "git", "apk": "git", "pacman": "git", "brew": "git"}, "https://git-scm.com"
        ),
        "ssh": Program(
            {"apt": "openssh-client", "dnf": "openssh-clients", "apk": "openssh-client", "pacman": "openssh"},
            "https://www.openssh.com",
        ),
        "go": Program(
            {"apt": "golang-go", "dnf": "golang", "apk": "go", "pacman": "go", "brew": "go"}, "https://go.dev/dl"
        ),
        "chromium": Program(
            {"apt": "chromium", "dnf": "chromium", "apk": "chromium", "pacman": "chromium", "brew": "chromium"},
            "https://www.chromium.org",
        ),
    }
)
"""By the name of the binary."""

LINUX_ONLY = frozenset({"ip", "tc", "perf", "taskset"})
"""Programs that a lab elsewhere does without: it has no namespaces, its hosts are ports of the loopback interface."""

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Where daemons live; the PATH of an ordinary user often lacks these."""


def find_here(programs: Iterable[str], path: str) -> frozenset[str]:
    """Those of `programs` that this machine has, in the folders of `path` or in those of daemons."""
    folders = ":".join((path, *SBIN))
    return frozenset(program for program in programs if shutil.which(program, path=folders))


def manager_here(path: str) -> Manager | None:
    """This machine's package manager; None where it is none that benchkit knows."""
    binaries: dict[Manager, str] = {manager: manager for manager in get_args(Manager)} | {"apt": "apt-get"}
    return next((manager for manager, binary in binaries.items() if shutil.which(binary, path=path)), None)


def missing(wanted: Iterable[str], found: Collection[str]) -> tuple[str, ...]:
    """Those of `wanted` that are not among `found`, in the order of PROGRAMS."""
    lacking = set(wanted).difference(found)
    return tuple(program for program in PROGRAMS if program in lacking)


def packages_for(programs: Iterable[str], manager: Manager) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The packages that bring `programs`, and those of the programs that no package of this manager has.

    Names that benchkit does not know are an inventory's own (`programs`): no package has those.
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
