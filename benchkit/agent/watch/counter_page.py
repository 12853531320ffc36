"""A server's page of counters, requested at each interval over one connection.

`http.client` takes some 40 µs of CPU time for a request, 10 µs more than a minimal parser would.
"""

from __future__ import annotations

import http.client
import socket
from typing import Any

from benchkit.agent.watch.collector import UnavailableError
from benchkit.agent.watch.server_counters import BenchkitRequests

TIMEOUT_S = 1.0
PAGE_BYTES = 1 << 20


class CounterPage(http.client.HTTPConnection):
    """The counter page of one server, at a TCP address or a unix socket."""

    def __init__(self, target: Any) -> None:  # noqa: ANN401 - as it came in the message
        """Prepare a connection; `target`: {"path", and "tcp": [address, port] or "unix": path}."""
        address, port = target.get("tcp", ("localhost", None))
        super().__init__(address, port, timeout=TIMEOUT_S)
        self._unix = target.get("unix")
        self._path = target["path"]
        self.own = BenchkitRequests(0, 0)
        """Share of the agent itself in the server's counters."""

    def connect(self) -> None:
        """Connect; called by `request` where there is no connection."""
        if self._unix is None:
            super().connect()
        else:
            self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self.sock.settimeout(TIMEOUT_S)
            self.sock.connect(self._unix)
        self.own = BenchkitRequests(self.own.requests, self.own.connections + 1)

    def get(self) -> bytes:
        """Return the page. Raises UnavailableError for another answer, OSError where there is none in time."""
        try:
            return self._get()
        except http.client.HTTPException as error:
            self.close()
            raise UnavailableError(f"the counter page is no complete HTTP response: {error!r}") from None
        except (UnavailableError, OSError):
            self.close()
            raise

    def _get(self) -> bytes:
        self.request("GET", self._path)
        self.own = BenchkitRequests(self.own.requests + 1, self.own.connections)
        with self.getresponse() as response:
            content = response.read(PAGE_BYTES)
            if response.status != http.client.OK:
                raise UnavailableError(f"the counter page answers {response.status}")
            if response.read(1):
                raise UnavailableError(f"the counter page has more than {PAGE_BYTES} bytes")
            if response.length:
                raise UnavailableError("the server closed the connection before the end of the counter page")
        return content
