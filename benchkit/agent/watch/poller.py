"""Asks a server for its own counters, in a thread of its own, so that one that is slow to answer delays nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Any, Optional

from benchkit.agent.basics import RefusedError
from benchkit.agent.http import HttpResponse
from benchkit.agent.watch.base import UnseenError, Values
from benchkit.agent.watch.counters import KINDS, Asked
from benchkit.agent.watch.recorder import Group, Recorder
from benchkit.agent.watch.rhythm import Rhythm

TIMEOUT_S = 1.0
PAGE_BYTES = 1 << 20
OK = 200


class Poller(threading.Thread):
    """Asks one server over one connection that is kept open."""

    def __init__(self, admin: Any, rhythm: Rhythm, recorder: Recorder, group: Group) -> None:  # noqa: ANN401 - as it came in the message
        """`admin`: {"kind", "path", and "tcp": [address, port] or "unix": path}."""
        super().__init__(name=f"poller {group.service}", daemon=True)
        self._admin = admin
        self._read = KINDS[admin["kind"]]
        host = "{}:{}".format(*admin["tcp"]) if "tcp" in admin else "localhost"
        self._request = f"GET {admin['path']} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
        self._rhythm = rhythm
        self._recorder = recorder
        self._group = group
        self._connection: Optional[socket.socket] = None
        self._asked = Asked(0, 0)
        self.failures = 0
        self.last_failure: Optional[str] = None

    def run(self) -> None:
        """Ask in the rhythm until that ends."""
        track = self._recorder.track(self._rhythm.interval_ns)
        for asked in self._rhythm.beats():
            try:
                values = self._poll()
                track.write(time.monotonic_ns(), [(self._group, values)], asked=asked)
            except (RefusedError, UnseenError, OSError) as error:
                self.failures += 1
                self.last_failure = getattr(error, "what", None) or str(error)
                self._hang_up()
        track.close()
        self._hang_up()

    def story(self) -> Optional[str]:
        """What went wrong, for people; None where nothing did."""
        if not self.failures:
            return None
        times = "once" if self.failures == 1 else f"{self.failures} times"
        return f"{self._group.service}: its own counters were not had {times}: {self.last_failure}"

    def _poll(self) -> Values:
        """The counters as they were when the answer came: a busy server takes its time before it looks at them."""
        if self._connection is None:
            self._connection = self._connect()
            self._asked = Asked(self._asked.requests, self._asked.connections + 1)
        self._connection.sendall(self._request)
        self._asked = Asked(self._asked.requests + 1, self._asked.connections)
        response = HttpResponse(self._connection, time.monotonic() + TIMEOUT_S, PAGE_BYTES, PAGE_BYTES)
        response.read("GET")
        if response.status != OK or not response.complete:
            raise UnseenError(f"{self._admin['path']} answers {response.status}")
        values = self._read(bytes(response.start_of_body), self._asked)
        if response.closes:
            self._hang_up()
        return values

    def _connect(self) -> socket.socket:
        if "tcp" in self._admin:
            address, port = self._admin["tcp"]
            return socket.create_connection((address, port), TIMEOUT_S)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.settimeout(TIMEOUT_S)
            connection.connect(self._admin["unix"])
        except OSError:
            connection.close()
            raise
        return connection

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None
