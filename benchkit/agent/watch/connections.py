"""Counts the established connections of services, at set instants only: each count walks over all of the host's."""

from __future__ import annotations

import threading
import time
from typing import Dict, List, NamedTuple, Tuple

from benchkit.agent.frames import Json
from benchkit.agent.watch.base import UnseenError, Values
from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.rhythm import SECOND_NS
from benchkit.agent.watch.sock_diag import SockDiag


class Listening(NamedTuple):
    """A service, and a socket that it listens on: {"tcp": [address, port]} or {"unix": path}."""

    group: Group
    socket: Json


class Connections(threading.Thread):
    """Counts at these instants of the host's monotonic clock, which lie ahead."""

    def __init__(self, at_ns: List[int], services: List[Listening], recorder: Recorder) -> None:
        super().__init__(name="connections", daemon=True)
        self._at_ns = sorted(at_ns)
        self._services = services
        self._recorder = recorder
        self._over = threading.Event()
        self.failures: Dict[str, None] = {}

    def run(self) -> None:
        """Count when it is time, until it is over."""
        try:
            diag = SockDiag()
        except UnseenError as error:
            self.failures[f"connections: {error}"] = None
            return
        for at_ns in self._at_ns:
            if self._over.wait(max(0.0, (at_ns - time.monotonic_ns()) / SECOND_NS)):
                break
            now_ns = time.monotonic_ns()
            try:
                self._recorder.write(now_ns, self._count(diag))
            except UnseenError as error:
                self.failures[f"connections: {error}"] = None
        diag.close()

    def stop(self) -> None:
        """Count no more."""
        self._over.set()

    def _count(self, diag: SockDiag) -> List[Tuple[Group, Values]]:
        found = []
        for group, socket in self._services:
            if "tcp" in socket:
                port = socket["tcp"][1]
                values: Values = {("connections_established", str(port)): diag.tcp_established(port)}
            else:
                values = {("connections_established", socket["unix"]): diag.unix_established(socket["unix"])}
            found.append((group, values))
        return found
