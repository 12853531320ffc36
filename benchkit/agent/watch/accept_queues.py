"""Accept queues of services: number of waiting connections of each listening socket, and its limit."""

from __future__ import annotations

import threading
from typing import Dict, List, Optional, Set, Tuple

from benchkit.agent.watch.collector import Collector, UnavailableError, Values
from benchkit.agent.watch.sock_diag import FAMILIES, Listener, SockDiag


class ListeningSockets:
    """The listening sockets of all services, read together: the kernel always lists all of the host's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._diag: Optional[SockDiag] = None
        self._ports: Set[int] = set()
        self._paths: Set[str] = set()
        self._families: Set[int] = set()
        self.current: List[Listener] = []

    def add(self, ports: List[int], paths: List[str]) -> None:
        """Add sockets by port and path. Raises UnavailableError where the kernel does not list them."""
        with self._lock:
            if self._diag is None:
                self._diag = SockDiag()
            self._families.update(family for family in FAMILIES if self._diag.tcp_listeners(family, ports))
            self._ports.update(ports)
            self._paths.update(paths)
            self._read(self._diag)

    def refresh(self) -> None:
        """Read all sockets. Raises UnavailableError."""
        with self._lock:
            if self._diag is not None:
                self._read(self._diag)

    def close(self) -> None:
        """Close the netlink socket."""
        with self._lock:
            if self._diag is not None:
                self._diag.close()

    def _read(self, diag: SockDiag) -> None:
        found = [each for family in self._families for each in diag.tcp_listeners(family, self._ports)]
        found += diag.unix_listeners(self._paths) if self._paths else []
        self.current = sorted(found, key=lambda each: each.inode)


class AcceptQueues(Collector):
    """The listening sockets of a service, by port or path."""

    def __init__(self, ports: List[int], paths: List[str], listeners: ListeningSockets) -> None:
        self._ports = ports
        self._paths = paths
        self._listeners = listeners
        self._names: Dict[Tuple[str, int], str] = {}
        listeners.add(ports, paths)

    def sample(self) -> Values:
        """Return depth and limit by socket; the sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`."""
        found: Values = {}
        for listener in self._listeners.current:
            if listener.port in self._ports or listener.address in self._paths:
                name = self._name(listener)
                found["accept_queue", name] = listener.queued
                found["accept_queue_limit", name] = listener.limit
        if not found:
            listening = ", ".join([*map(str, self._ports), *self._paths])
            raise UnavailableError(f"accept queues: no listening socket at {listening}")
        return found

    def _name(self, listener: Listener) -> str:
        key = listener.address, listener.inode
        if key not in self._names:
            before = sum(address == listener.address for address, _ in self._names)
            self._names[key] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[key]
