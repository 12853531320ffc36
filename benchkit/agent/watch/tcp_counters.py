"""TCP counters of the host (RFC 4022 and Linux), and its sockets by state.

Only counters are read: listing all sockets each second would cost more than all other collectors together.
"""

from __future__ import annotations

import contextlib
from typing import Dict, List, Optional, Tuple

from benchkit.agent.watch.collector import Collector, KernelFile, UnavailableError, Values

NAMES = {
    b"RetransSegs": ("tcp_retransmits_total", None),
    b"CurrEstab": ("tcp_sockets", "established"),
    b"ListenOverflows": ("listen_overflows_total", None),
    b"ListenDrops": ("listen_drops_total", None),
    b"SyncookiesSent": ("syn_cookies_sent_total", None),
    b"TCPReqQFullDoCookies": ("req_queue_full_cookies_total", None),
    b"TCPReqQFullDrop": ("req_queue_full_drops_total", None),
}
STATES = {b"inuse": "in_use", b"orphan": "orphaned", b"tw": "time_wait", b"alloc": "allocated"}


class ProtocolCounters(Collector):
    """A file with a line of names and a line of numbers for each protocol: snmp or netstat."""

    def __init__(self, path: str, protocol: bytes) -> None:
        self._file = KernelFile(path)
        self._start = b"\n" + protocol + b": "
        self._names: List[Tuple[int, Tuple[str, Optional[str]]]] = []
        header, _ = self._lines()
        self._names = [(place, NAMES[name]) for place, name in enumerate(header.split()) if name in NAMES]
        if not self._names:
            raise UnavailableError(f"{path} has no known TCP counters")

    def sample(self) -> Values:
        """Return the known counters that this kernel has."""
        numbers = self._lines()[1].split()
        return {key: int(numbers[place]) for place, key in self._names}

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _lines(self) -> Tuple[bytes, bytes]:
        content = b"\n" + self._file.read()
        found = content.split(self._start, 2)
        if len(found) != len(("before", "names", "numbers")):
            raise UnavailableError(f"{self._file.path} has no {self._start.decode().strip()}")
        return found[1].partition(b"\n")[0], found[2].partition(b"\n")[0]


class Snmp(ProtocolCounters):
    """Retransmitted segments and established connections."""

    def __init__(self) -> None:
        super().__init__("/proc/self/net/snmp", b"Tcp")


class Netstat(ProtocolCounters):
    """Full accept queues, dropped connections, cookies."""

    def __init__(self) -> None:
        super().__init__("/proc/self/net/netstat", b"TcpExt")


class Sockstat(Collector):
    """TCP sockets by state, of IPv4 and IPv6 together."""

    def __init__(self) -> None:
        self._files = [KernelFile("/proc/self/net/sockstat")]
        with contextlib.suppress(UnavailableError):  # a kernel without IPv6
            self._files.append(KernelFile("/proc/self/net/sockstat6"))

    def sample(self) -> Values:
        """Return the sockets in use, orphaned, in TIME_WAIT and allocated."""
        found: Dict[str, int] = {}
        for file in self._files:
            for line in file.read().split(b"\n"):
                if line.startswith((b"TCP:", b"TCP6:")):
                    field = line.split()
                    for name, value in zip(field[1::2], field[2::2]):  # noqa: B905 - Python 3.8 has no strict
                        if name in STATES:
                            found[STATES[name]] = found.get(STATES[name], 0) + int(value)
        return {("tcp_sockets", state): value for state, value in found.items()}

    def close(self) -> None:
        """Close the files."""
        for file in self._files:
            file.close()
