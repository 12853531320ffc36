"""Division of this machine's CPUs among the hosts of a lab, and sentences on the limits of labs."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchkit.agent.common import parse_cpu_list
from benchkit.lab.spec import LabHost
from benchkit.lab.state import StartedHost

SERVER_ROLE = "sut"
_TOPOLOGY = Path("/sys/devices/system/cpu")

ONE_KERNEL = (
    "The hosts of this lab are one machine: kernel, memory, caches and disk are shared. Sysctls outside net.* and some "
    "of net.core are not isolated and not applied."
)
SENDERS_CPU = (
    "A packet between lab hosts is received on the CPU that sent it: each host's CPUs do part of the other's network "
    "work."
)
NO_BUCKET_FILTER = "this kernel has no token bucket filter (tc tbf)"
NO_OWN_LINK = "hosts on loopback have no link of their own"
NO_QUOTA = "The hosts of this lab cannot have a CPU quota."
LOOPBACK = (
    "The hosts of this lab are SSH servers on loopback addresses of this machine, all as one user.",
    "Network stack, ports, sysctls, /tmp and processes are shared by all hosts; settings that need root are not applied.",
    "All traffic of this lab goes over one loopback interface, so its counters and errors are those of all hosts together.",
    "The hosts of this lab reach each other by address, not by name.",
)


def divide_cpus(
    hosts: Sequence[LabHost], cores: Sequence[Sequence[int]], *, shared: bool
) -> dict[str, tuple[int, ...]]:
    """Return the CPUs of each host. `cores` are the usable CPUs by physical core, in the order of the machine.

    Servers under test get the first half of the cores and all other hosts the second. So no load generator and no
    proxy takes CPU time from a server. Within a half each host gets its own cores; where there are more hosts than
    cores, cores are assigned in turn. Hosts that are all servers under test, or all others, divide all cores. With one
    core, or with `shared`, every host has every CPU.
    """
    everything = tuple(sorted(cpu for core in cores for cpu in core))
    if shared or len(cores) < 2:  # noqa: PLR2004 - a single core cannot be divided
        return {host.name: everything for host in hosts}
    servers = [host.name for host in hosts if SERVER_ROLE in host.roles]
    others = [host.name for host in hosts if SERVER_ROLE not in host.roles]
    if not servers or not others:
        return _spread(servers or others, cores)
    half = len(cores) // 2
    return {**_spread(servers, cores[:half]), **_spread(others, cores[half:])}


def usable_cores() -> list[tuple[int, ...]]:
    """Return the CPUs that this process may use, grouped by physical core."""
    return group_by_core(os.sched_getaffinity(0), {cpu: _siblings(cpu) for cpu in os.sched_getaffinity(0)})


def group_by_core(cpus: set[int], siblings: Mapping[int, frozenset[int]]) -> list[tuple[int, ...]]:
    """Return `cpus` by physical core: with hyper-threading, CPU 0 and CPU 1 are often threads of one core."""
    groups = {tuple(sorted((siblings[cpu] & cpus) | {cpu})) for cpu in cpus}
    return sorted(groups)


def overlaps(cpus: Mapping[str, Sequence[int]]) -> list[tuple[tuple[str, ...], tuple[int, ...]]]:
    """Return each group of hosts that share CPUs, with the CPUs that exactly this group shares."""
    users: dict[int, tuple[str, ...]] = {}
    for name, allowed in cpus.items():
        for cpu in allowed:
            users[cpu] = (*users.get(cpu, ()), name)
    groups: dict[tuple[str, ...], list[int]] = {}
    for cpu in sorted(users):
        if len(users[cpu]) > 1:
            groups.setdefault(users[cpu], []).append(cpu)
    return [(names, tuple(shared)) for names, shared in groups.items()]


def _spread(names: Sequence[str], cores: Sequence[Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return equally many neighbouring cores for each host; the first hosts get the remainder.

    With more hosts than cores, cores are assigned in turn.
    """
    if len(names) > len(cores):
        return {name: tuple(sorted(cores[i % len(cores)])) for i, name in enumerate(names)}
    share, remainder = divmod(len(cores), len(names))
    shares: dict[str, tuple[int, ...]] = {}
    start = 0
    for i, name in enumerate(names):
        end = start + share + (1 if i < remainder else 0)
        shares[name] = tuple(sorted(cpu for core in cores[start:end] for cpu in core))
        start = end
    return shares


def _siblings(cpu: int) -> frozenset[int]:
    """Return the CPUs of this CPU's physical core; only this CPU where the kernel shows no topology."""
    path = _TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list"
    return frozenset(parse_cpu_list(path.read_text()) if path.is_file() else (cpu,))


def shared_cpus(hosts: Sequence[StartedHost]) -> list[str]:
    """Return a sentence for each group of hosts that may run on the same CPUs."""
    return [
        f"{_list(names)} share CPU {_list([str(cpu) for cpu in cpus])}: each can take CPU time from the other."
        for names, cpus in overlaps({host.name: host.cpus for host in hosts})
    ]


def uncapped_links(names: Sequence[str], why: str) -> list[str]:
    """Return the sentence on links whose rate is not limited, if there are any."""
    return [f"The link of {_list(names)} is not capped: {why}."] if names else []


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
