"""What a lab cannot do that hosts of their own could, as sentences for people."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.lab.cpus import overlaps
from benchkit.lab.state import HostState

ONE_KERNEL = (
    "The hosts of this lab are one machine: kernel, memory, caches and disk are shared; sysctls outside net.* and some "
    "of net.core are not isolated, not applied."
)
SENDERS_CPU = (
    "A packet between lab hosts is received on the CPU that sent it: part of each host's network work is done by the "
    "CPUs of the other."
)
NO_QUOTA = "No CPU quota can be put on a host of this lab."
LOOPBACK = (
    "The hosts of this lab are SSH servers on loopback addresses of this machine, all as one user.",
    "Network stack, ports, sysctls, /tmp and processes are shared by all hosts; nothing is applied that needs root.",
    "All traffic of this lab goes over one loopback interface: its counters and errors are those of all hosts together.",
    "The hosts of this lab know each other by address, not by name.",
)


def shared_cpus(hosts: Sequence[HostState]) -> list[str]:
    """A sentence for each group of hosts that may run on the same CPUs."""
    return [
        f"{_list(names)} share CPU {_list([str(cpu) for cpu in cpus])}: each can take time from the other."
        for names, cpus in overlaps({host.name: host.cpus for host in hosts})
    ]


def disjoint(hosts: Sequence[HostState]) -> bool:
    """Whether no two hosts have a CPU in common."""
    return not overlaps({host.name: host.cpus for host in hosts})


def uncapped(names: Sequence[str]) -> list[str]:
    """The sentence on links that could not be capped, if there are any."""
    if not names:
        return []
    return [f"The link of {_list(names)} is not capped: this kernel has no token bucket filter (tc tbf)."]


def cap_without_namespaces(names: Sequence[str]) -> list[str]:
    """The sentence on caps that loopback cannot have, if any was asked for."""
    if not names:
        return []
    return [f"The link of {_list(names)} is not capped: hosts on loopback have no link of their own."]


def fallback(why: str) -> str:
    """Why a lab that root asked for has no namespaces."""
    return f"No namespaces for the hosts of this lab: {why}."


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
