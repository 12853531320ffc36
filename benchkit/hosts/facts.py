"""Facts about a host: what is asked of its agent, and what its answer means. The second part is pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from benchkit.hosts.clock import Clock
from benchkit.models.facts import HostFacts, Interface, ProgramFact


@dataclass(frozen=True)
class Query:
    """How a program tells its version."""

    command: tuple[str, ...]
    pattern: str | None = None
    """The version is the first group; None: it cannot be asked."""
    kept: bool = False
    """Whether all that it says is kept, because more than its version follows from it."""


NGINX_LIKE = r"version:\s*[A-Za-z]+/([0-9.]+)"
"""nginx, Tengine, OpenResty, freenginx and Angie call themselves so; the first named is the binary's own version."""

MOST_SAID = 200
"""Characters that are kept of what a program says."""

PROGRAMS: Mapping[str, Query] = MappingProxyType(
    {
        "sshd": Query(("sshd", "-V"), r"OpenSSH_(\S+?),?\s"),  # before 9.2 an error, which names the version too
        "nginx": Query(("nginx", "-v"), NGINX_LIKE, kept=True),
        "wrk": Query(("wrk", "-v"), r"wrk\s+(?:[a-z]+/)?([0-9]\S*)"),
        "ab": Query(("ab", "-V"), r"ApacheBench, Version ([0-9.]+)"),
        "hey": Query(("hey",)),
        "siege": Query(("siege", "-V"), r"SIEGE ([0-9]\S*)"),
        "vegeta": Query(("vegeta", "-version"), r"Version:\s*v?([0-9]\S*)"),
        "h2load": Query(("h2load", "--version"), r"nghttp2/(\S+)"),
        "perf": Query(("perf", "--version"), r"perf version (\S+)"),
        "go": Query(("go", "version"), r"go version go(\S+)"),
        "git": Query(("git", "--version"), r"git version ([0-9][0-9.]*)"),
        "ssh": Query(("ssh", "-V"), r"OpenSSH_(\S+?),?\s"),
        "node": Query(("node", "--version"), r"v([0-9]\S*)"),
        "taskset": Query(("taskset", "--version"), r"util-linux ([0-9]\S*)"),
        "ip": Query(("ip", "-V"), r"iproute2-([^\s,]+)"),
        "tc": Query(("tc", "-V"), r"iproute2-([^\s,]+)"),
        "sudo": Query(("sudo",)),
        "sysctl": Query(("sysctl",)),
    }
)
"""Programs of hosts that benchkit may use, by name; the first word of the command is looked for."""

PACKAGE_MANAGERS: Mapping[str, str] = MappingProxyType(
    {"apt": "apt-get", "dnf": "dnf", "apk": "apk", "pacman": "pacman", "zypper": "zypper"}
)
"""Name → executable, in the order in which they are looked for."""

SYSCTLS = (
    "fs.file-max",
    "fs.nr_open",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_max_tw_buckets",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "vm.overcommit_memory",
)
"""Settings that decide how many connections a host can carry, and how fast."""

GOARCH: Mapping[str, str] = MappingProxyType(
    {
        "x86_64": "amd64",
        "aarch64": "arm64",
        "armv7l": "arm",
        "armv6l": "arm",
        "i686": "386",
        "ppc64le": "ppc64le",
        "s390x": "s390x",
        "riscv64": "riscv64",
        "loongarch64": "loong64",
    }
)
"""Kernel's name of an architecture → Go's."""


def queries(named: Mapping[str, str]) -> dict[str, Query]:
    """All programs to ask for; `named` are those of the inventory, name → path, asked at that path and nowhere else.

    One whose name benchkit does not know is asked as nginx is: the other programs have one binary a host.
    """
    known = dict(PROGRAMS)
    for name, path in named.items():
        query = known.get(name, PROGRAMS["nginx"])
        known[name] = replace(query, command=(path, *query.command[1:]))
    return known


def questions(*, sudo: bool, named: Mapping[str, str] = MappingProxyType({})) -> dict[str, Any]:
    """What to ask an agent for; `sudo`: whether the inventory lets benchkit try, `named`: the programs it names."""
    tools = {name: list(query.command) for name, query in queries(named).items()}
    tools |= {binary: [binary] for binary in PACKAGE_MANAGERS.values()}
    return {"tools": tools, "sysctls": list(SYSCTLS), "sudo": sudo}


def facts_of(answer: Mapping[str, Any], clock: Clock, named: Mapping[str, str] = MappingProxyType({})) -> HostFacts:
    """An agent's answer as facts, with the programs that the inventory names; pure.

    What a host says of itself is shown to people, so that its text comes without control characters. Raises
    AttributeError, KeyError, TypeError or ValueError for an answer that makes no sense.
    """
    found = _plain(answer)
    tools = found.pop("tools")
    managers = [name for name, binary in PACKAGE_MANAGERS.items() if binary in tools]
    return HostFacts(
        os=found.pop("system").lower(),
        goarch=GOARCH.get(found["machine"]),
        package_manager=managers[0] if managers else None,
        programs={
            name: program_fact(tools[name]["path"], tools[name]["text"], query)
            for name, query in queries(named).items()
            if name in tools
        },
        clock_offset_s=clock.wall_offset_s,
        clock_uncertainty_s=clock.uncertainty_s,
        interfaces=tuple(Interface(**each) for each in found.pop("interfaces")),
        sysctls={key: _one_blank(each["value"]) for key, each in found.pop("sysctls").items()},
        **found,
    )


def program_fact(path: str, text: str | None, query: Query) -> ProgramFact:
    """An executable, with what it said when it was asked."""
    said = " ".join(text.split())[:MOST_SAID] if text and query.kept else None
    return ProgramFact(path=path, version=version_in(text, query.pattern), version_output=said)


def version_in(text: str | None, pattern: str | None) -> str | None:
    """The version in what a program printed; None where it states none."""
    match = re.search(pattern, text) if text and pattern else None
    return match[1] if match else None


def _plain(said: Any) -> Any:  # noqa: ANN401 - any JSON value
    match said:
        case str():
            return "".join(each if each.isprintable() or each in "\t\n" else "\ufffd" for each in said)
        case Mapping():
            return {_plain(name): _plain(value) for name, value in said.items()}
        case list():
            return [_plain(value) for value in said]
    return said


def _one_blank(value: str | None) -> str | None:
    """The kernel separates numbers by tabs, people by a blank."""
    return None if value is None else " ".join(value.split())
