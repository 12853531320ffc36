"""The collectors. A new collector needs its class, a line here and its metrics in `benchkit.models.telemetry`.

Hosts are busy while they are sampled, so collectors read each kernel file once a sample, and keep it open.
For the same values psutil takes two to four times as long.
"""

from __future__ import annotations

from functools import partial
from typing import Callable, List, Optional, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.collector import Collector
from benchkit.agent.cpu_collectors import Cores, CpuThrottling, Frequency
from benchkit.agent.memory_collectors import Disks, Memory, Paging
from benchkit.agent.network_collectors import Interfaces, Netstat, Snmp, Sockstat, SynFloodWarnings
from benchkit.agent.operations import SampledService
from benchkit.agent.process_collectors import (
    AgentCpu,
    ContextSwitches,
    GroupLimits,
    OpenFiles,
    ProcessTree,
    ProcessTrees,
    StorageWrites,
    ThreadTimes,
)
from benchkit.agent.socket_collectors import (
    AcceptQueues,
    Connections,
    EstablishedConnections,
    ListeningSockets,
    network_of,
)

Factory = Callable[[], Collector]
"""Creates a collector. Raises UnavailableError where the host does not have its source."""

AGENT = "agent"
"""Service name of the agent itself."""

HOST: Tuple[Factory, ...] = (Cores, Interfaces, Snmp, Netstat, Sockstat, CpuThrottling, Memory, Paging, Disks)
"""Collectors of every host, sampled at the interval."""

HOST_SCHEDULED: Tuple[Factory, ...] = (Frequency,)
"""Collectors of every host that are sampled at scheduled instants only."""

AGENT_ITSELF: Tuple[Factory, ...] = (AgentCpu,)
"""Collectors of the agent's own process."""


def of_service(
    service: SampledService, child: Child, trees: ProcessTrees, sockets: ListeningSockets
) -> Tuple[ProcessTree, List[Factory]]:
    """Return the process tree of a service, and the factories of its collectors, the tree's first."""
    tree = ProcessTree(child, trees)
    factories: List[Factory] = [
        lambda: tree,
        lambda: ContextSwitches(tree, trees),
        lambda: OpenFiles(tree),
        lambda: StorageWrites(tree),
        partial(GroupLimits, child),
    ]
    addresses = [each.tcp for each in service.listeners if each.tcp is not None]
    ports = [port for _, port in addresses]
    paths = [each.unix for each in service.listeners if each.unix is not None]
    if ports or paths:
        factories.append(lambda: AcceptQueues(ports, paths, sockets.of(_network(child))))
    factories += [partial(SynFloodWarnings, *address) for address in addresses]
    if service.threads:
        factories.append(lambda: ThreadTimes(child, trees))
    return tree, factories


def of_service_scheduled(service: SampledService, child: Child, established: EstablishedConnections) -> List[Factory]:
    """Return the collectors of a service that are sampled at scheduled instants only."""
    network = _network(child) if service.listeners else None
    return [partial(Connections, listener, established.of(network)) for listener in service.listeners]


def _network(child: Child) -> Optional[int]:
    """Return a process in the network namespace of a service's container; None: it shares the agent's."""
    return None if child.foreign_group is None else network_of(child.foreign_group.pids())
