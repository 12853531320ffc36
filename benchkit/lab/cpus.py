"""Which CPUs each host of a lab may use."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchkit.lab.spec import LabHost

SERVER_ROLE = "sut"
_TOPOLOGY = Path("/sys/devices/system/cpu")


def divide(hosts: Sequence[LabHost], cores: Sequence[Sequence[int]], *, shared: bool) -> dict[str, tuple[int, ...]]:
    """CPUs by host. `cores` are the usable CPUs, those of one physical core together, neighbours beside each other.

    The servers under test get the first half of the cores and everybody else the second, so that no load generator and
    no proxy takes a cycle from a server. In a half, hosts get cores of their own as far as there are cores; past that
    they take turns. A lab without a server under test is one half. With one core, or when all is `shared`, every host
    has every CPU.
    """
    everything = tuple(sorted(cpu for core in cores for cpu in core))
    if shared or len(cores) < 2:  # noqa: PLR2004 - fewer than two cannot be divided
        return {host.name: everything for host in hosts}
    servers = [host.name for host in hosts if SERVER_ROLE in host.roles]
    others = [host.name for host in hosts if SERVER_ROLE not in host.roles]
    if not servers or not others:
        return _spread(servers or others, cores)
    half = len(cores) // 2
    return {**_spread(servers, cores[:half]), **_spread(others, cores[half:])}


def usable_cores() -> list[tuple[int, ...]]:
    """The CPUs that this process may use, those that are threads of one physical core together."""
    return group(os.sched_getaffinity(0), {cpu: _siblings(cpu) for cpu in os.sched_getaffinity(0)})


def group(cpus: set[int], siblings: Mapping[int, frozenset[int]]) -> list[tuple[int, ...]]:
    """`cpus` by physical core: with hyper-threads, CPU 0 and CPU 1 of a machine are often two halves of one."""
    groups = {tuple(sorted((siblings[cpu] & cpus) | {cpu})) for cpu in cpus}
    return sorted(groups)


def parse_list(text: str) -> frozenset[int]:
    """The kernel's list format, `0-2,8`, as numbers (cpuset(7), FORMATS, List format)."""
    found: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        found.update(range(int(first), int(last if dash else first) + 1))
    return frozenset(found)


def overlaps(cpus: Mapping[str, Sequence[int]]) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Which hosts share which CPUs: each group of hosts once, with the CPUs that exactly they share."""
    users: dict[int, tuple[str, ...]] = {}
    for name, own in cpus.items():
        for cpu in own:
            users[cpu] = (*users.get(cpu, ()), name)
    groups: dict[tuple[str, ...], list[int]] = {}
    for cpu in sorted(users):
        if len(users[cpu]) > 1:
            groups.setdefault(users[cpu], []).append(cpu)
    return [(names, tuple(shared)) for names, shared in groups.items()]


def _spread(names: Sequence[str], cores: Sequence[Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Cores in equal runs of neighbours, the first hosts getting what is left over; in turns where they do not reach."""
    if len(names) > len(cores):
        return {name: tuple(sorted(cores[i % len(cores)])) for i, name in enumerate(names)}
    each, left = divmod(len(cores), len(names))
    shares: dict[str, tuple[int, ...]] = {}
    start = 0
    for i, name in enumerate(names):
        end = start + each + (1 if i < left else 0)
        shares[name] = tuple(sorted(cpu for core in cores[start:end] for cpu in core))
        start = end
    return shares


def _siblings(cpu: int) -> frozenset[int]:
    """The CPUs that share a physical core with this one; itself alone where the kernel does not say."""
    path = _TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    return parse_list(path.read_text()) if path.is_file() else frozenset({cpu})
