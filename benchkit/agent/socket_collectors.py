"""Collectors of the sockets of services: accept queues from /proc/PID/net, their limits and connections from ss(8)."""

from __future__ import annotations

import os
import re
import socket
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from benchkit.agent.collector import Collector, KernelFile, UnavailableError, Values
from benchkit.agent.common import OperationError, with_port
from benchkit.agent.operations import SocketAddress
from benchkit.agent.sockets import kernel_endpoint

SS_S = 10.0
SS_BYTES = 8 << 20
"""Limit of the output of ss: 100,000 connections."""
LISTENING = b"0A"
"""State of a listening socket in /proc/net/tcp, which lists these before all others (tcp_ipv4.c of Linux)."""
_TCP_LIMIT = re.compile(r"^LISTEN +\d+ +(\d+) .*\bino:(\d+)", re.MULTILINE)
_UNIX_LIMIT = re.compile(r"^u_\S+ +LISTEN +\d+ +(\d+) .* (\d+) +\* 0", re.MULTILINE)

RunTool = Callable[[Sequence[str]], str]
"""Runs a command in the network namespace of a service, and returns its output. Raises UnavailableError."""


class Listener(NamedTuple):
    """A listening socket and its accept queue."""

    inode: int
    address: str
    """An IP address with its port, or the path of a unix socket."""
    queued: int


def tool_in_network(run: Callable[[List[str], float, int], Tuple[Optional[int], str]], pid: Optional[int]) -> RunTool:
    """Return a function that runs commands in the network namespace of a process; None: in the agent's."""
    prefix = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]

    def run_tool(argv: Sequence[str]) -> str:
        try:
            exit_code, text = run([*prefix, *argv], SS_S, SS_BYTES)
        except OperationError as error:
            raise UnavailableError(f"sockets: {error}") from None
        if exit_code != 0:
            raise UnavailableError(f"sockets: {' '.join(argv)}: {text.strip()[:200] or exit_code}")
        return text

    return run_tool


def network_of(pids: Sequence[int]) -> Optional[int]:
    """Return the first of these processes outside the agent's network namespace; None: all are in it."""
    own = _network_id("self")
    return next((pid for pid in pids if _network_id(str(pid)) not in (own, None)), None)


def _network_id(process: str) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115 - as all of the agent
    except OSError:
        return None


def tcp_listeners(content: bytes, family: int, ports: Sequence[int]) -> Iterator[Listener]:
    """Yield the listening sockets on these ports in the content of /proc/net/tcp or tcp6."""
    for line in content.split(b"\n")[1:]:
        field = line.split()
        if len(field) > 9 and field[3] == LISTENING:  # noqa: PLR2004 - a complete line
            address, port = kernel_endpoint(field[1].decode(), family)
            if port in ports:
                yield Listener(int(field[9]), with_port(address, port), int(field[4].partition(b":")[2], 16))


def unix_listeners(content: bytes, paths: Sequence[str]) -> Iterator[Listener]:
    """Yield the listening sockets at these paths in /proc/net/unix: connections in their queues have inode 0."""
    found: Dict[str, List[int]] = {path: [] for path in paths}
    for line in content.decode(errors="surrogateescape").split("\n"):
        field = line.split(None, 7)
        if len(field) == 8 and field[7] in found:  # noqa: PLR2004 - with a path
            if field[3] == "00010000":
                found[field[7]].insert(0, int(field[6]))
            elif field[6] == "0":
                found[field[7]].append(0)
    return (Listener(inodes[0], path, inodes.count(0)) for path, inodes in found.items() if inodes and inodes[0])


def has_other_state(content: bytes) -> bool:
    """Return True for a part of /proc/net/tcp that goes beyond the listening sockets."""
    lines = content.split(b"\n")[1:-1]
    return bool(lines) and lines[-1].split(None, 4)[3] != LISTENING


class AcceptQueues(Collector):
    """The listening sockets of a service, by port or path."""

    def __init__(self, listeners: Sequence[SocketAddress], run_tool: RunTool, pid: Optional[int]) -> None:
        super().__init__()
        self._run_tool = run_tool
        self._ports = [each.tcp[1] for each in listeners if each.tcp is not None]
        self._paths = [each.unix for each in listeners if each.unix is not None]
        folder = f"/proc/{pid or 'self'}/net"
        self._tcp: List[Tuple[KernelFile, int]] = []
        if self._ports:
            for name, family in (("tcp", socket.AF_INET), ("tcp6", socket.AF_INET6)):
                if os.path.exists(f"{folder}/{name}"):  # noqa: PTH110 - as all of the agent
                    self._tcp.append((KernelFile(f"{folder}/{name}"), family))
        self._unix = KernelFile(f"{folder}/unix") if self._paths else None
        self.files = [*(file for file, _ in self._tcp), *([self._unix] if self._unix else [])]
        self._limits: Dict[int, Optional[int]] = {}
        self._names: Dict[int, str] = {}

    def sample(self) -> Values:
        """Return queue length and limit by socket.

        Several sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`.
        """
        present = [
            each
            for file, family in self._tcp
            for each in tcp_listeners(file.read(has_other_state), family, self._ports)
        ]
        present += unix_listeners(self._unix.read(), self._paths) if self._unix else ()
        if not present:
            listening = ", ".join([*map(str, self._ports), *self._paths])
            raise UnavailableError(f"accept queues: no listening socket at {listening}")
        if any(each.inode not in self._limits for each in present):
            self._read_limits(present)
        found: Values = {}
        for each in sorted(present):
            name = self._name(each)
            found["accept_queue", name] = each.queued
            limit = self._limits[each.inode]
            if limit is not None:
                found["accept_queue_limit", name] = limit
        return found

    def _read_limits(self, present: Sequence[Listener]) -> None:
        text = ""
        try:
            text = self._run_tool(["ss", "-Hltne"]) if self._ports else ""
            limits = {int(inode): int(limit) for limit, inode in _TCP_LIMIT.findall(text)}
            text = self._run_tool(["ss", "-Hlx"]) if self._paths else ""
            limits.update((int(inode), int(limit)) for limit, inode in _UNIX_LIMIT.findall(text))
        except UnavailableError as error:
            self.problem, limits = f"limits of accept queues: {error}", {}
        self._limits = {each.inode: limits.get(each.inode) for each in present}

    def _name(self, listener: Listener) -> str:
        if listener.inode not in self._names:
            before = sum(name.partition("#")[0] == listener.address for name in self._names.values())
            self._names[listener.inode] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[listener.inode]


class Connections(Collector):
    """The established connections to the sockets of a service."""

    def __init__(self, listeners: Sequence[SocketAddress], run_tool: RunTool, pid: Optional[int]) -> None:
        super().__init__()
        self._run_tool = run_tool
        self._ports = [each.tcp[1] for each in listeners if each.tcp is not None]
        self._paths = [each.unix for each in listeners if each.unix is not None]
        self.files = [KernelFile(f"/proc/{pid or 'self'}/net/unix")] if self._paths else []

    def sample(self) -> Values:
        """Return the number of connections by port and path. Raises UnavailableError."""
        found: Values = {}
        if self._ports:
            wanted = " or ".join(f"sport = :{port}" for port in self._ports)
            text = self._run_tool(["ss", "-Htn", "state", "established", f"( {wanted} )"])
            of_lines = [line.split()[2].rpartition(":")[2] for line in text.splitlines()]
            found.update({("connections_established", str(port)): of_lines.count(str(port)) for port in self._ports})
        for file in self.files:
            ends = [line.split(None, 7)[5:] for line in file.read().decode(errors="surrogateescape").splitlines()[1:]]
            for path in self._paths:
                count = sum(1 for end in ends if end[0] == "03" and end[2:] == [path])
                found["connections_established", path] = count
        return found
