"""Established connections of services. Counting reads all sockets of the host: it is done rarely, for all services."""

from __future__ import annotations

import threading
from typing import Dict, Optional, Set

from benchkit.agent.frames import Json
from benchkit.agent.watch.collector import Collector, UnavailableError, Values
from benchkit.agent.watch.sock_diag import SockDiag


class EstablishedConnections:
    """The connections to the listening sockets of all services, counted together.

    For each request the kernel walks its table of all connections, also those in TIME-WAIT: 7 ms where it is empty.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._diag: Optional[SockDiag] = None
        self._ports: Set[int] = set()
        self._paths: Set[str] = set()
        self._by_port: Dict[int, int] = {}
        self._by_path: Dict[str, int] = {}

    def add(self, socket: Json) -> None:
        """Add a socket, {"tcp": [address, port]} or {"unix": path}. Raises UnavailableError."""
        with self._lock:
            if self._diag is None:
                self._diag = SockDiag()
            if "tcp" in socket:
                self._ports.add(socket["tcp"][1])
            else:
                self._paths.add(socket["unix"])

    def refresh(self) -> None:
        """Count the connections to all sockets. Raises UnavailableError."""
        with self._lock:
            self._by_port, self._by_path = {}, {}
            if self._diag is not None:
                if self._ports:
                    self._by_port = self._diag.tcp_established(self._ports)
                if self._paths:
                    self._by_path = self._diag.unix_established(self._paths)

    def count(self, socket: Json) -> Values:
        """Return the connections to one of the sockets, as last counted. Raises UnavailableError."""
        with self._lock:
            name = socket["tcp"][1] if "tcp" in socket else socket["unix"]
            counts = self._by_port if "tcp" in socket else self._by_path
            if name not in counts:
                raise UnavailableError(f"connections: those to {name} were not counted")
            return {("connections_established", str(name)): counts[name]}

    def close(self) -> None:
        """Close the netlink socket."""
        with self._lock:
            if self._diag is not None:
                self._diag.close()


class Connections(Collector):
    """The connections to one listening socket: {"tcp": [address, port]} or {"unix": path}."""

    def __init__(self, socket: Json, established: EstablishedConnections) -> None:
        self._socket = socket
        self._established = established
        established.add(socket)

    def sample(self) -> Values:
        """Return their number, as last counted."""
        return self._established.count(self._socket)
