"""The established connections of a service. Each count walks over all of the host's, so there are few."""

from __future__ import annotations

from benchkit.agent.frames import Json
from benchkit.agent.watch.collector import Collector, Values
from benchkit.agent.watch.sock_diag import SockDiag


class Connections(Collector):
    """Those on one socket that a service listens on: {"tcp": [address, port]} or {"unix": path}."""

    def __init__(self, socket: Json) -> None:
        self._socket = socket
        self._diag = SockDiag()

    def sample(self) -> Values:
        """How many there are now."""
        if "tcp" in self._socket:
            port = self._socket["tcp"][1]
            return {("connections_established", str(port)): self._diag.tcp_established(port)}
        path = self._socket["unix"]
        return {("connections_established", path): self._diag.unix_established(path)}

    def close(self) -> None:
        """Let go of the netlink socket."""
        self._diag.close()
