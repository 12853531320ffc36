"""Facts about a host: the request to its agent, and the pure conversion of the answer."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from benchkit.hosts.clock import Clock
from benchkit.models.facts import HostFacts, Interface, ProgramFact, RecordedFacts


@dataclass(frozen=True)
class VersionQuery:
    """A command that prints a program's version."""

    command: tuple[str, ...]
    pattern: str | None = None
    """Pattern whose first group is the version; None: the program prints no version."""
    keep_output: bool = False
    """True where the whole output becomes a fact, because it has more than the version."""


NGINX_LIKE = r"version:\s*[A-Za-z]+/([0-9.]+)"
"""Output of nginx, Tengine, OpenResty, freenginx and Angie; the first version is the binary's own."""

OUTPUT_CHARACTERS = 200
"""Characters kept of a program's output."""

PROGRAMS: Mapping[str, VersionQuery] = MappingProxyType(
    {
        "sshd": VersionQuery(("sshd", "-V"), r"OpenSSH_(\S+?),?\s"),  # before 9.2 the error message names the version
        "nginx": VersionQuery(("nginx", "-v"), NGINX_LIKE, keep_output=True),
        "wrk": VersionQuery(("wrk", "-v"), r"wrk\s+(?:[a-z]+/)?([0-9]\S*)"),
        "ab": VersionQuery(("ab", "-V"), r"ApacheBench, Version ([0-9.]+)"),
        "hey": VersionQuery(("hey",)),
        "siege": VersionQuery(("siege", "-V"), r"SIEGE ([0-9]\S*)"),
        "oha": VersionQuery(("oha", "--version"), r"oha ([0-9]\S*)"),
        "vegeta": VersionQuery(("vegeta", "-version"), r"Version:\s*v?([0-9]\S*)"),
        "h2load": VersionQuery(("h2load", "--version"), r"nghttp2/(\S+)"),
        "perf": VersionQuery(("perf", "--version"), r"perf version (\S+)"),
        "bpftrace": VersionQuery(("bpftrace", "--version"), r"bpftrace v(\S+)"),
        "go": VersionQuery(("go", "version"), r"go version go(\S+)"),
        "git": VersionQuery(("git", "--version"), r"git version ([0-9][0-9.]*)"),
        "ssh": VersionQuery(("ssh", "-V"), r"OpenSSH_(\S+?),?\s"),
        "python3": VersionQuery(("python3", "--version"), r"Python (\S+)"),
        "node": VersionQuery(("node", "--version"), r"v([0-9]\S*)"),
        "taskset": VersionQuery(("taskset", "--version"), r"util-linux ([0-9]\S*)"),
        "ip": VersionQuery(("ip", "-V"), r"iproute2-([^\s,]+)"),
        "tc": VersionQuery(("tc", "-V"), r"iproute2-([^\s,]+)"),
        "podman": VersionQuery(("podman", "--version"), r"podman version (\S+)"),
        "docker": VersionQuery(("docker", "--version"), r"Docker version ([^\s,]+)"),
        "runc": VersionQuery(("runc", "--version"), r"runc version (\S+)"),
        "postgres": VersionQuery(("postgres", "--version"), r"PostgreSQL\) ([0-9.]+)"),
        "apt": VersionQuery(("apt-get",)),
        "sudo": VersionQuery(("sudo",)),
        "sysctl": VersionQuery(("sysctl",)),
    }
)
"""Programs that benchkit may use on hosts, by name; the first word of the command is searched for."""

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
"""Settings that limit the number and the rate of connections."""

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
"""Architecture as the kernel names it → as Go names it."""


def version_queries(named: Mapping[str, str], sought: Collection[str] = ()) -> dict[str, VersionQuery]:
    """Return the queries of all programs; `named` (the inventory's name → path) are searched at their path only.

    An unknown name is queried like nginx, the only program with several binaries on a host. Programs in `sought` are
    only searched for: an option that makes one program print its version may make another start its work.
    """
    known = {**{name: VersionQuery((name,)) for name in sought}, **PROGRAMS}
    for name, path in named.items():
        query = known.get(name, PROGRAMS["nginx"])
        known[name] = replace(query, command=(path, *query.command[1:]))
    return known


def queried_programs(named: Mapping[str, str], sought: Collection[str] = ()) -> Mapping[str, Sequence[str]]:
    """Return the commands that the agent looks for, by name."""
    return {name: query.command for name, query in version_queries(named, sought).items()}


def parse_facts(
    answer: Mapping[str, Any],
    clock: Clock,
    named: Mapping[str, str] = MappingProxyType({}),
    sought: Collection[str] = (),
) -> HostFacts:
    """Convert an agent's answer to facts, with the programs in `named` and `sought`; pure.

    Control characters are replaced, because facts are printed. Raises AttributeError, KeyError, TypeError or ValueError
    for an answer of another form.
    """
    fields = _printable(answer)
    tools = fields.pop("tools")
    fields.pop("files", None)
    return HostFacts(
        os=fields.pop("system").lower(),
        goarch=GOARCH.get(fields["machine"]),
        package_manager="apt" if "apt" in tools else None,
        programs={
            name: program_fact(tools[name]["path"], tools[name]["text"], query)
            for name, query in version_queries(named, sought).items()
            if name in tools
        },
        clock_offset_s=clock.wall_offset_s,
        clock_uncertainty_s=clock.uncertainty_s,
        interfaces=tuple(Interface(**each) for each in fields.pop("interfaces")),
        sysctls={key: each["value"] and " ".join(each["value"].split()) for key, each in fields.pop("sysctls").items()},
        **fields,
    )


def parse_variable_facts(facts: Mapping[str, Any], clock: Clock, programs: Mapping[str, str]) -> RecordedFacts:
    """Convert an agent's answer to the facts that influence results and may change while a host is up; pure.

    Examples are CPUs going offline, limits and governors. `programs`: name → path of the file.
    """
    return RecordedFacts(
        kernel=facts["kernel"],
        cpus=tuple(facts["cpus"]),
        cores=facts["cores"],
        memory_bytes=facts["memory_bytes"],
        nofile_soft=facts["nofile_soft"],
        nofile_hard=facts["nofile_hard"],
        governor=facts["governor"],
        sysctls={key: " ".join(each["value"].split()) for key, each in facts["sysctls"].items() if each["value"]},
        executables={name: facts["files"][path] for name, path in programs.items()},
        clock_offset_s=clock.wall_offset_s,
        clock_uncertainty_s=clock.uncertainty_s,
    )


def program_fact(path: str, text: str | None, query: VersionQuery) -> ProgramFact:
    """Return an executable with its version, found in its output `text`."""
    output = " ".join(text.split())[:OUTPUT_CHARACTERS] if text and query.keep_output else None
    return ProgramFact(path=path, version=version_in(text, query.pattern), version_output=output)


def version_in(text: str | None, pattern: str | None) -> str | None:
    """Return the version in a program's output; None where it has none."""
    match = re.search(pattern, text) if text and pattern else None
    return match[1] if match else None


def _printable(value: Any) -> Any:  # noqa: ANN401 - any JSON value
    match value:
        case str():
            return "".join(each if each.isprintable() or each in "\t\n" else "\ufffd" for each in value)
        case Mapping():
            return {_printable(name): _printable(entry) for name, entry in value.items()}
        case list():
            return [_printable(entry) for entry in value]
    return value
