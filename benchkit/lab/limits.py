"""Limits of a lab compared with separate machines, as sentences for messages and reports."""

from __future__ import annotations

from collections.abc import Sequence

from benchkit.lab.cpus import overlaps
from benchkit.lab.state import HostState

ONE_KERNEL = (
    "The hosts of this lab are one machine: kernel, memory, caches and disk are shared; sysctls outside net.* and some "
    "of net.core are not isolated and not applied."
)
SENDERS_CPU = (
    "A packet between lab hosts is received on the CPU that sent it: part of each host's network work is done by the "
    "CPUs of the other."
)
NO_QUOTA = "The hosts of this lab cannot have a CPU quota."
LOOPBACK = (
    "The hosts of this lab are SSH servers on loopback addresses of this machine, all as one user.",
    "Network stack, ports, sysctls, /tmp and processes are shared by all hosts; settings that need root are not applied.",
    "All traffic of this lab goes over one loopback interface: its counters and errors are those of all hosts together.",
    "The hosts of this lab reach each other by address, not by name.",
)


def shared_cpus(hosts: Sequence[HostState]) -> list[str]:
    """Return a sentence for each group of hosts that may run on the same CPUs."""
    return [
        f"{_list(names)} share CPU {_list([str(cpu) for cpu in cpus])}: each can take CPU time from the other."
        for names, cpus in overlaps({host.name: host.cpus for host in hosts})
    ]


def have_separate_cpus(hosts: Sequence[HostState]) -> bool:
    """Return whether no two hosts have a CPU in common."""
    return not overlaps({host.name: host.cpus for host in hosts})


def uncapped_links(names: Sequence[str]) -> list[str]:
    """Return the sentence on links whose rate could not be limited, if there are any."""
    if not names:
        return []
    return [f"The link of {_list(names)} is not capped: this kernel has no token bucket filter (tc tbf)."]


def uncapped_loopback(names: Sequence[str]) -> list[str]:
    """Return the sentence on rate limits that loopback cannot have, if any was requested."""
    if not names:
        return []
    return [f"The link of {_list(names)} is not capped: hosts on loopback have no link of their own."]


def no_namespaces(reason: str) -> str:
    """Return the sentence on a lab that root started without namespaces."""
    return f"The hosts of this lab have no namespaces: {reason}."


def _list(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
