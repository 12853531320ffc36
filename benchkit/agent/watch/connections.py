"""Established connections of a service. Counting reads all connections of the host, so it is done rarely."""

from __future__ import annotations

from benchkit.agent.frames import Json
from benchkit.agent.watch.collector import Collector, Values
from benchkit.agent.watch.sock_diag import SockDiag


class Connections(Collector):
    """The connections to one listening socket: {"tcp": [address, port]} or {"unix": path}."""

    def __init__(self, socket: Json) -> None:
        self._socket = socket
        self._diag = SockDiag()

    def sample(self) -> Values:
        """Return their number."""
        if "tcp" in self._socket:
            port = self._socket["tcp"][1]
            return {("connections_established", str(port)): self._diag.tcp_established(port)}
        path = self._socket["unix"]
        return {("connections_established", path): self._diag.unix_established(path)}

    def close(self) -> None:
        """Close the netlink socket."""
        self._diag.close()
