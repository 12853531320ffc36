"""Collectors of the network: interfaces, counters of TCP and UDP, and warnings of SYN flooding in the kernel's log.

Only counters are read: listing all sockets each second would cost more than all other collectors together.
"""

from __future__ import annotations

import contextlib
import os
import re
from typing import Dict, Iterator, List, Optional, Tuple

from benchkit.agent.collector import Collector, KernelFile, UnavailableError, Values

INTERFACE_COLUMNS = (
    ("net_received_bytes_total", 0),
    ("net_received_packets_total", 1),
    ("net_received_drops_total", 3),
    ("net_sent_bytes_total", 8),
    ("net_sent_packets_total", 9),
    ("net_sent_drops_total", 11),
)

COUNTERS = {
    b"ActiveOpens": ("tcp_active_opens_total", None),
    b"PassiveOpens": ("tcp_passive_opens_total", None),
    b"RetransSegs": ("tcp_retransmits_total", None),
    b"CurrEstab": ("tcp_sockets", "established"),
    b"ListenOverflows": ("listen_overflows_total", None),
    b"ListenDrops": ("listen_drops_total", None),
    b"SyncookiesSent": ("syn_cookies_sent_total", None),
    b"TCPReqQFullDoCookies": ("req_queue_full_cookies_total", None),
    b"TCPReqQFullDrop": ("req_queue_full_drops_total", None),
    b"InDatagrams": ("udp_received_total", None),
    b"OutDatagrams": ("udp_sent_total", None),
    b"InErrors": ("udp_in_errors_total", None),
    b"RcvbufErrors": ("udp_receive_buffer_errors_total", None),
    b"SndbufErrors": ("udp_send_buffer_errors_total", None),
}
SOCKET_STATES = {b"inuse": "in_use", b"orphan": "orphaned", b"tw": "time_wait", b"alloc": "allocated"}

KERNEL_LOG = "/dev/kmsg"
RECORD_BYTES = 8192
"""Size of the longest log record: a read into a smaller buffer fails (Documentation/ABI/testing/dev-kmsg)."""

_RECORD = re.compile(rb"([0-9]+),[^;]*;[^\n]*Possible SYN flooding on port (?:([^ ]+):)?([0-9]+)\. ")
_FACILITY_BITS = 3
"""Low bits of a record's first number that are its severity; the bits above are its facility, 0 for the kernel."""
_ANY_ADDRESS = (None, "0.0.0.0", "[::]")  # noqa: S104 - compared, not bound
"""Addresses in a warning that stand for any address of the host; older kernels print none."""


class Interfaces(Collector):
    """All interfaces of the host, including loopback, which carries the load of a generator on the same host."""

    HEADER_LINES = 2

    def __init__(self) -> None:
        self._dev = KernelFile("/proc/self/net/dev")
        self.files = (self._dev,)

    def sample(self) -> Values:
        """Return the counters by interface."""
        found: Values = {}
        for line in self._dev.read().split(b"\n")[self.HEADER_LINES :]:
            name, _, counters = line.rpartition(b":")
            field = counters.split()
            if name:
                interface = name.strip().decode()
                for metric, place in INTERFACE_COLUMNS:
                    found[metric, interface] = int(field[place])
        return found


class ProtocolCounters(Collector):
    """A file with a line of names and a line of numbers for each protocol: snmp or netstat."""

    def __init__(self, path: str, *protocols: bytes) -> None:
        self._file = KernelFile(path)
        self.files: List[KernelFile] = [self._file]
        self._starts = [b"\n" + protocol + b": " for protocol in protocols]
        headers = [names.split() for names, _ in self._lines()]
        self._places = [
            [(at, COUNTERS[name]) for at, name in enumerate(names) if name in COUNTERS] for names in headers
        ]
        if not any(self._places):
            raise UnavailableError(f"{path} has no known counters")

    def sample(self) -> Values:
        """Return the known counters that this kernel has."""
        found: Values = {}
        for places, (_, line) in zip(self._places, self._lines()):  # noqa: B905 - Python 3.8 has no strict
            numbers = line.split()
            found.update({key: int(numbers[at]) for at, key in places})
        return found

    def _lines(self) -> Iterator[Tuple[bytes, bytes]]:
        content = b"\n" + self._file.read()
        for start in self._starts:
            found = content.split(start, 2)
            if len(found) != len(("before", "names", "numbers")):
                raise UnavailableError(f"{self._file.path} has no {start.decode().strip()}")
            yield found[1].partition(b"\n")[0], found[2].partition(b"\n")[0]


class Snmp(ProtocolCounters):
    """Connections opened and accepted, retransmitted segments, established connections; datagrams of IPv4 and IPv6."""

    IPV6 = b"Udp6"

    def __init__(self) -> None:
        super().__init__("/proc/self/net/snmp", b"Tcp", b"Udp")
        with contextlib.suppress(UnavailableError):  # a kernel without IPv6
            self.files.append(KernelFile("/proc/self/net/snmp6"))

    def sample(self) -> Values:
        """Return the counters of TCP, which include IPv6, and the sums of UDP's counters of IPv4 and IPv6."""
        found = super().sample()
        for file in self.files[1:]:
            for line in file.read().split(b"\n"):
                if line.startswith(self.IPV6):
                    name, number = line[len(self.IPV6) :].split()
                    if name in COUNTERS:
                        found[COUNTERS[name]] += int(number)
        return found


class Netstat(ProtocolCounters):
    """Full accept queues, dropped connections, cookies."""

    def __init__(self) -> None:
        super().__init__("/proc/self/net/netstat", b"TcpExt")


class Sockstat(Collector):
    """TCP sockets by state, of IPv4 and IPv6 together."""

    def __init__(self) -> None:
        self.files = [KernelFile("/proc/self/net/sockstat")]
        with contextlib.suppress(UnavailableError):  # a kernel without IPv6
            self.files.append(KernelFile("/proc/self/net/sockstat6"))

    def sample(self) -> Values:
        """Return the sockets in use, orphaned, in TIME_WAIT and allocated."""
        found: Dict[str, int] = {}
        for file in self.files:
            for line in file.read().split(b"\n"):
                if line.startswith((b"TCP:", b"TCP6:")):
                    field = line.split()
                    for name, value in zip(field[1::2], field[2::2]):  # noqa: B905 - Python 3.8 has no strict
                        if name in SOCKET_STATES:
                            found[SOCKET_STATES[name]] = found.get(SOCKET_STATES[name], 0) + int(value)
        return {("tcp_sockets", state): value for state, value in found.items()}


class SynFloodWarnings(Collector):
    """Number of warnings about a service's port since the collector was created.

    A host that hides its log from the login user (`kernel.dmesg_restrict`) has no samples. Nothing is lost then: the
    kernel's counters of dropped connections and SYN cookies cover the same events.
    """

    def __init__(self, address: str, port: int) -> None:
        """Start at the end of the log: earlier warnings are about earlier services."""
        self._address, self._port = address, port
        self._warnings = 0
        self._fd = _open_log()

    def sample(self) -> Values:
        """Read all new records of the log; return nothing where it cannot be read."""
        if self._fd is None:
            return {}
        while True:
            try:
                record = os.read(self._fd, RECORD_BYTES)
            except BlockingIOError:
                return {("syn_flood_warnings_total", None): self._warnings}
            except BrokenPipeError:  # the kernel has overwritten unread records: the next read continues after them
                continue
            self._warnings += self._is_about_service(warned_socket(record))

    def close(self) -> None:
        """Close the log."""
        if self._fd is not None:
            os.close(self._fd)

    def _is_about_service(self, socket: Optional[Tuple[Optional[str], int]]) -> bool:
        return socket is not None and socket[1] == self._port and socket[0] in (*_ANY_ADDRESS, self._address)


def warned_socket(record: bytes) -> Optional[Tuple[Optional[str], int]]:
    """Return address (None: not printed) and port of a warning of SYN flooding; None for any other record."""
    found = _RECORD.match(record)
    if found is None or int(found[1]) >> _FACILITY_BITS:
        return None
    return found[2].decode() if found[2] is not None else None, int(found[3])


def _open_log() -> Optional[int]:
    """Open the log at its end; None where the host has none, or hides it from this user."""
    try:
        fd = os.open(KERNEL_LOG, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    os.lseek(fd, 0, os.SEEK_END)
    return fd
