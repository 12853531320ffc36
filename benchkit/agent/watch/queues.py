"""The accept queues of a service: how many connections wait in each listening socket, and how many may."""

from __future__ import annotations

from typing import Dict, List, Tuple

from benchkit.agent.watch.base import Collector, UnseenError, Values
from benchkit.agent.watch.sock_diag import FAMILIES, Listener, SockDiag


class AcceptQueues(Collector):
    """The listening sockets of a service, found by their port or path."""

    def __init__(self, ports: List[int], paths: List[str]) -> None:
        self._ports = ports
        self._paths = paths
        self._diag = SockDiag()
        self._families = [family for family in FAMILIES if ports and self._diag.tcp_listeners(family, ports)]
        self._names: Dict[Tuple[str, int], str] = {}

    def sample(self) -> Values:
        """Depth and limit by socket; the sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`."""
        found: Values = {}
        for listener in self._look():
            name = self._name(listener)
            found["accept_queue", name] = listener.queued
            found["accept_queue_limit", name] = listener.limit
        return found

    def close(self) -> None:
        """Let go of the netlink socket."""
        self._diag.close()

    def _look(self) -> List[Listener]:
        found = [each for family in self._families for each in self._diag.tcp_listeners(family, self._ports)]
        if self._paths:
            found += self._diag.unix_listeners(self._paths)
        if not found:
            listening = ", ".join([*map(str, self._ports), *self._paths])
            raise UnseenError(f"accept queues: nobody listens on {listening} any more")
        return sorted(found, key=lambda each: each.inode)

    def _name(self, listener: Listener) -> str:
        key = listener.address, listener.inode
        if key not in self._names:
            before = sum(address == listener.address for address, _ in self._names)
            self._names[key] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[key]
