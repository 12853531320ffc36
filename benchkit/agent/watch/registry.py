"""The collectors. A new collector needs its module, a line here and its metrics in `benchkit.models.telemetry`.

Hosts are sampled while they have much else to do, so collectors read each file of the kernel once, and keep it open:
that takes a half to a quarter of the time of psutil for the same values.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, List, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.frames import Json
from benchkit.agent.watch.accept_queues import AcceptQueues, ListeningSockets
from benchkit.agent.watch.agent_cpu import AgentCpu
from benchkit.agent.watch.collector import Collector
from benchkit.agent.watch.connections import Connections, EstablishedConnections
from benchkit.agent.watch.cores import Cores
from benchkit.agent.watch.cpu_quota import CpuThrottling
from benchkit.agent.watch.disks import Disks
from benchkit.agent.watch.frequency import Frequency
from benchkit.agent.watch.interfaces import Interfaces
from benchkit.agent.watch.kernel_log import SynFloodWarnings
from benchkit.agent.watch.memory import Memory, Paging
from benchkit.agent.watch.open_files import OpenFiles
from benchkit.agent.watch.process_tree import ProcessTree
from benchkit.agent.watch.process_trees import ProcessTrees
from benchkit.agent.watch.tcp_counters import Netstat, Snmp, Sockstat
from benchkit.agent.watch.threads import ContextSwitches, ThreadTimes

Factory = Callable[[], Collector]
"""Creates a collector. Raises UnavailableError where the host does not have its source."""

AGENT = "agent"
"""Service name of the agent itself."""

HOST: Tuple[Factory, ...] = (Cores, Interfaces, Snmp, Netstat, Sockstat, CpuThrottling, Memory, Paging, Disks)
"""Collectors of every host, sampled at the interval."""

HOST_SCHEDULED: Tuple[Factory, ...] = (Frequency,)
"""Collectors of every host, sampled at scheduled instants only."""

AGENT_ITSELF: Tuple[Factory, ...] = (AgentCpu,)
"""Collectors of the agent's own process."""


def of_service(
    service: Json, child: Child, trees: ProcessTrees, sockets: ListeningSockets
) -> Tuple[ProcessTree, List[Factory]]:
    """Return the process tree of a service, and its collectors, of which the tree is the first.

    `service`: {"listeners": [{"tcp": [address, port]} or {"unix": path}, …], "threads": sample each thread}.
    """
    tree = ProcessTree(child, trees)
    factories: List[Factory] = [lambda: tree, lambda: ContextSwitches(tree, trees), lambda: OpenFiles(tree)]
    ports = [each["tcp"][1] for each in service["listeners"] if "tcp" in each]
    paths = [each["unix"] for each in service["listeners"] if "unix" in each]
    if ports or paths:
        factories.append(lambda: AcceptQueues(ports, paths, sockets))
    factories += [partial(SynFloodWarnings, *each["tcp"]) for each in service["listeners"] if "tcp" in each]
    if service["threads"]:
        factories.append(lambda: ThreadTimes(child, trees))
    return tree, factories


def of_service_scheduled(service: Json, established: EstablishedConnections) -> List[Factory]:
    """Return the collectors of a service that are sampled at scheduled instants only."""
    return [partial(Connections, listener, established) for listener in service["listeners"]]
