"""Division of this machine's CPUs among the hosts of a lab, and sentences on the limits of labs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
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
NO_QUOTA = "The hosts of this lab cannot have a CPU quota."
LOOPBACK = (
    "The hosts of this lab are SSH servers on loopback addresses of this machine, all as one user.",
    "Network stack, ports, sysctls, /tmp and processes are shared by all hosts; settings that need root are not applied.",
    "All traffic of this lab goes over one loopback interface, so its counters and errors are those of all hosts together.",
    "The hosts of this lab have no links of their own: they are not capped.",
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
    """Return the CPUs that this process may use by physical core: with hyper-threading, two are often one core."""
    usable, cores = os.sched_getaffinity(0), set()
    for cpu in usable:
        path = _TOPOLOGY / f"cpu{cpu}" / "topology" / "thread_siblings_list"
        siblings = parse_cpu_list(path.read_text()) if path.is_file() else ()
        cores.add(tuple(sorted(usable.intersection({cpu, *siblings}))))
    return sorted(cores)


def _spread(names: Sequence[str], cores: Sequence[Sequence[int]]) -> dict[str, tuple[int, ...]]:
    """Return equally many neighbouring cores for each host, or one in turn where there are more hosts than cores."""
    shares: dict[str, tuple[int, ...]] = {}
    for i, name in enumerate(names):
        own = cores[i * len(cores) // len(names) : (i + 1) * len(cores) // len(names)] or [cores[i % len(cores)]]
        shares[name] = tuple(sorted(cpu for core in own for cpu in core))
    return shares


def shared_cpus(hosts: Sequence[StartedHost]) -> list[str]:
    """Return the sentence on hosts that may run on the same CPUs, if there are any."""
    users = Counter(cpu for host in hosts for cpu in host.cpus)
    sharing = [host.name for host in hosts if any(users[cpu] > 1 for cpu in host.cpus)]
    return [f"{' and '.join(sharing)} share CPUs: each can take CPU time from the others."] if sharing else []
