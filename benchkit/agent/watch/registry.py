"""What is watched. Adding a collector touches its file, a line here and the vocabulary, `benchkit.models.telemetry`.

A host is looked at in rhythm with many other things to do, so what the kernel tells in one read is read there once,
through a file that stays open: a half to a quarter of what psutil takes for the same figures, and it is there on hosts
without psutil, too. psutil brings what differs between machines and kernels.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, List, Tuple

from benchkit.agent.child_process import Child
from benchkit.agent.frames import Json
from benchkit.agent.watch.accept_queues import AcceptQueues, Listeners
from benchkit.agent.watch.agent_cpu import Own
from benchkit.agent.watch.collector import Collector
from benchkit.agent.watch.connections import Connections
from benchkit.agent.watch.cores import Cores
from benchkit.agent.watch.cpu_quota import Quota
from benchkit.agent.watch.disks import Disks
from benchkit.agent.watch.frequency import Frequency
from benchkit.agent.watch.interfaces import Interfaces
from benchkit.agent.watch.memory import Memory
from benchkit.agent.watch.open_files import OpenFiles
from benchkit.agent.watch.process_tree import Tree
from benchkit.agent.watch.process_trees import ProcessTrees
from benchkit.agent.watch.tcp_counters import Netstat, Snmp, Sockstat
from benchkit.agent.watch.threads import Switches, ThreadTimes

Make = Callable[[], Collector]
"""Makes a collector. Raises UnseenError where the host does not have its source."""

AGENT = "agent"
"""The service by whose name the agent itself goes."""


def of_host() -> List[Make]:
    """What is watched of every host."""
    return [Cores, Interfaces, Snmp, Netstat, Sockstat, Quota, Memory, Disks]


def of_host_at_instants(psutil: Any) -> List[Make]:  # noqa: ANN401 - a module, or None
    """What is looked at of every host at set instants only."""
    return [lambda: Frequency(psutil)]


def of_agent() -> List[Make]:
    """What is watched of the agent itself."""
    return [Own]


def of_service(wanted: Json, child: Child, families: ProcessTrees, listeners: Listeners) -> Tuple[Tree, List[Make]]:
    """What is watched of a service: its tree, which comes first, and what follows from it.

    `wanted`: {"listen": [{"tcp": [address, port]} or {"unix": path}, …], "threads": whether each is of interest}.
    """
    tree = Tree(child, families)
    makes: List[Make] = [lambda: tree, lambda: Switches(tree, families), lambda: OpenFiles(tree)]
    ports = [each["tcp"][1] for each in wanted["listen"] if "tcp" in each]
    paths = [each["unix"] for each in wanted["listen"] if "unix" in each]
    if ports or paths:
        makes.append(lambda: AcceptQueues(ports, paths, listeners))
    if wanted["threads"]:
        makes.append(lambda: ThreadTimes(child, families))
    return tree, makes


def of_service_at_instants(wanted: Json) -> List[Make]:
    """What is looked at of a service at set instants only."""
    return [partial(Connections, socket) for socket in wanted["listen"]]
