"""Collectors of the sockets of services: accept queues from /proc/PID/net, their limits and connections from ss(8)."""

from __future__ import annotations

import os
import re
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

from benchkit.agent.common import OperationError, Values, read_file, with_port
from benchkit.agent.operations import SocketAddress
from benchkit.agent.sockets import TCP, bound_sockets

SS_S = 10.0
SS_BYTES = 8 << 20
"""Limit of the output of ss: 100,000 connections."""
_TCP_LIMIT = re.compile(r"^LISTEN +\d+ +(\d+) .*\bino:(\d+)", re.MULTILINE)
_UNIX_LIMIT = re.compile(r"^u_\S+ +LISTEN +\d+ +(\d+) .* (\d+) +\* 0", re.MULTILINE)

RunTool = Callable[[List[str], float, int], Tuple[Optional[int], str]]
"""Runs a command with a timeout in seconds and a limit of bytes; returns its exit code and its output."""


class Listener(NamedTuple):
    """A listening socket and its accept queue."""

    inode: int
    address: str
    """An IP address with its port, or the path of a unix socket."""
    queued: int


def network_of(pids: Sequence[int]) -> Optional[int]:
    """Return the first of these processes outside the agent's network namespace; None: all are in it."""
    own = _network_id("self")
    return next((pid for pid in pids if _network_id(str(pid)) not in (own, None)), None)


def _network_id(process: str) -> Optional[str]:
    try:
        return os.readlink(f"/proc/{process}/ns/net")  # noqa: PTH115 - as all of the agent
    except OSError:
        return None


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


class ServiceSockets:
    """The sockets of a service, by port or path, in the network namespace of a process; None: in the agent's."""

    def __init__(self, listeners: Sequence[SocketAddress], run_tool: RunTool, pid: Optional[int]) -> None:
        self._run_tool = run_tool
        self._prefix = [] if pid is None else ["nsenter", f"--net=/proc/{pid}/ns/net"]
        self._folder = f"/proc/{pid or 'self'}/net"
        self._ports = [each.port for each in listeners if each.kind == "tcp"]
        self._paths = [each.address for each in listeners if each.kind == "unix"]
        self._limits: Dict[int, Optional[int]] = {}
        self._names: Dict[int, str] = {}

    def accept_queues(self) -> Values:
        """Return queue length and limit by socket.

        Several sockets of one address (SO_REUSEPORT) are numbered: `10.0.0.1:80#2`.
        """
        bound = bound_sockets(TCP, self._folder) if self._ports else ()
        present = [
            Listener(each.inode, with_port(each.address, each.port), each.queued)
            for each in bound
            if each.port in self._ports
        ]
        if self._paths:
            present += unix_listeners(read_file(f"{self._folder}/unix"), self._paths)
        if not present:
            listening = ", ".join([*map(str, self._ports), *self._paths])
            raise OperationError("unavailable", f"accept queues: no listening socket at {listening}")
        if any(each.inode not in self._limits for each in present):
            self._limits = {each.inode: None for each in present}
            self._limits.update(self._read_limits())
        found: Values = {}
        for each in sorted(present):
            name = self._name(each)
            found["accept_queue", name] = each.queued
            limit = self._limits[each.inode]
            if limit is not None:
                found["accept_queue_limit", name] = limit
        return found

    def connections(self) -> Values:
        """Return the number of established connections by port and path. Raises OperationError."""
        found: Values = {}
        if self._ports:
            wanted = " or ".join(f"sport = :{port}" for port in self._ports)
            text = self._run(["ss", "-Htn", "state", "established", f"( {wanted} )"])
            of_lines = [line.split()[2].rpartition(":")[2] for line in text.splitlines()]
            found.update({("connections_established", str(port)): of_lines.count(str(port)) for port in self._ports})
        if self._paths:
            table = read_file(f"{self._folder}/unix").decode(errors="surrogateescape")
            ends = [line.split(None, 7)[5:] for line in table.splitlines()[1:]]
            for path in self._paths:
                count = sum(1 for end in ends if end[0] == "03" and end[2:] == [path])
                found["connections_established", path] = count
        return found

    def _read_limits(self) -> Dict[int, int]:
        found = _TCP_LIMIT.findall(self._run(["ss", "-Hltne"])) if self._ports else []
        found += _UNIX_LIMIT.findall(self._run(["ss", "-Hlx"])) if self._paths else []
        return {int(inode): int(limit) for limit, inode in found}

    def _run(self, argv: List[str]) -> str:
        exit_code, text = self._run_tool([*self._prefix, *argv], SS_S, SS_BYTES)
        if exit_code != 0:
            raise OperationError("unavailable", f"sockets: {' '.join(argv)}: {text.strip()[:200] or exit_code}")
        return text

    def _name(self, listener: Listener) -> str:
        if listener.inode not in self._names:
            before = sum(name.partition("#")[0] == listener.address for name in self._names.values())
            self._names[listener.inode] = f"{listener.address}#{before + 1}" if before else listener.address
        return self._names[listener.inode]
