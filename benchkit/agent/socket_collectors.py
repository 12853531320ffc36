"""Collectors of the sockets of services, from ss(8): accept queues and their limits, and established connections."""

from __future__ import annotations

import os
import threading
from typing import Callable, Dict, Generic, Iterator, List, NamedTuple, Optional, Sequence, Set, Tuple, TypeVar

from benchkit.agent.common import OperationError, Values, read_file
from benchkit.agent.operations import SocketAddress

SS_S = 10.0
SS_BYTES = 8 << 20
"""Limit of the output of ss: 100,000 connections."""

RunTool = Callable[[List[str], float, int], Tuple[Optional[int], str]]
"""Runs a command with a timeout in seconds and a limit of bytes; returns its exit code and its output."""
T = TypeVar("T")


class Listener(NamedTuple):
    """A listening socket and its accept queue."""

    inode: int
    address: str
    """An IP address with its port, or the path of a unix socket."""
    queued: int
    limit: int


def parse_listeners(text: str) -> Iterator[Listener]:
    """Yield the listening sockets in the output of `ss -Hltnxe`; `*` is the IPv6 address that takes IPv4, too."""
    for line in text.splitlines():
        kind, state, queued, limit, address, *more = line.split()
        if state == "LISTEN":
            inode = next(each for each in more if each.startswith("ino:"))[4:] if kind == "tcp" else more[0]
            shown = "[::]" + address[1:] if address.startswith("*:") else address
            yield Listener(int(inode), shown, int(queued), int(limit))


def network_of(pids: Sequence[int]) -> Optional[int]:
    """Return the first of these processes outside the agent's network namespace; None: all are in it."""
    own = _network_id("self")
    return next((pid for pid in pids if _network_id(str(pid)) not in (own, None)), None)


def _network_id(process: str) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115 - as all of the agent
    except OSError:
        return None


class SharedReading(Generic[T]):
    """A reading for many services, repeated when one of them asks for it a second time; safe for many threads.

    A run of ss takes milliseconds, and a sliced block has a server for each of its cells.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._lock = threading.Lock()
        self._served: Set[object] = set()
        self._found: Optional[T] = None

    def of(self, service: object) -> T:
        """Return a reading that this service has not had yet. Raises OperationError."""
        with self._lock:
            if self._found is None or service in self._served:
                self._served, self._found = set(), None
                self._found = self._read()
            self._served.add(service)
            return self._found


class SocketTable:
    """The sockets of a network namespace: that of a process, or the agent's own (None)."""

    def __init__(self, run_tool: RunTool, pid: Optional[int]) -> None:
        self._run_tool = run_tool
        self._prefix = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
        self._unix = f"/proc/{pid or 'self'}/net/unix"
        self.ports: Set[int] = set()
        """Ports whose connections are counted."""
        self.listeners = SharedReading(self._read_listeners)
        self.connections = SharedReading(self._read_connections)

    def _read_listeners(self) -> List[Listener]:
        return sorted(parse_listeners(self._run(["ss", "-Hltnxe"])))

    def _read_connections(self) -> List[str]:
        """Return the port or path of each established connection."""
        found = []
        if self.ports:
            wanted = " or ".join(f"sport = :{port}" for port in sorted(self.ports))
            text = self._run(["ss", "-Htn", "state", "established", f"( {wanted} )"])
            found = [line.split()[2].rpartition(":")[2] for line in text.splitlines()]
        table = read_file(self._unix).decode(errors="surrogateescape")
        ends = [line.split(None, 7)[5:] for line in table.splitlines()[1:]]
        return found + [end[2] for end in ends if end[0] == "03" and len(end) == 3]  # noqa: PLR2004 - with a path

    def _run(self, argv: List[str]) -> str:
        exit_code, text = self._run_tool([*self._prefix, *argv], SS_S, SS_BYTES)
        if exit_code != 0:
            raise OperationError("unavailable", f"sockets: {' '.join(argv)}: {text.strip()[:200] or exit_code}")
        return text


class ServiceSockets:
    """The sockets of a service, by port or path, among those of its network namespace."""

    def __init__(self, listeners: Sequence[SocketAddress], table: SocketTable) -> None:
        self._table = table
        ports = [each.port for each in listeners if each.kind == "tcp"]
        table.ports.update(ports)
        self._places = [*map(str, ports), *(each.address for each in listeners if each.kind == "unix")]
        self._names: Dict[int, str] = {}

    def accept_queues(self) -> Values:
        """Return queue length and limit by socket.

        Several sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`.
        """
        found: Values = {}
        for each in self._table.listeners.of(self):
            if each.address in self._places or each.address.rpartition(":")[2] in self._places:
                name = self._name(each)
                found["accept_queue", name], found["accept_queue_limit", name] = each.queued, each.limit
        if not found:
            raise OperationError("unavailable", f"accept queues: no listening socket at {', '.join(self._places)}")
        return found

    def connections(self) -> Values:
        """Return the number of established connections by port and path. Raises OperationError."""
        ends = self._table.connections.of(self)
        return {("connections_established", place): ends.count(place) for place in self._places}

    def _name(self, listener: Listener) -> str:
        if listener.inode not in self._names:
            before = sum(name.partition("#")[0] == listener.address for name in self._names.values())
            self._names[listener.inode] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[listener.inode]
