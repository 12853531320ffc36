"""Bytes, packets and drops of every network interface, from /proc/net/dev (proc(5)).

Read directly: verdicts rest on it, so that it has to be there on hosts without psutil, too.
"""

from __future__ import annotations

from benchkit.agent.watch.collector import Collector, KernelFile, Values

COLUMNS = (
    ("net_received_bytes_total", 0),
    ("net_received_packets_total", 1),
    ("net_received_drops_total", 3),
    ("net_sent_bytes_total", 8),
    ("net_sent_packets_total", 9),
    ("net_sent_drops_total", 11),
)


class Interfaces(Collector):
    """The interfaces of the host, the loopback too: a load beside its server goes over that."""

    HEADER_LINES = 2

    def __init__(self) -> None:
        self._dev = KernelFile("/proc/self/net/dev")

    def sample(self) -> Values:
        """Counters by interface."""
        found: Values = {}
        for line in self._dev.read().split(b"\n")[self.HEADER_LINES :]:
            name, _, counters = line.rpartition(b":")
            field = counters.split()
            if name:
                interface = name.strip().decode()
                for metric, place in COLUMNS:
                    found[metric, interface] = int(field[place])
        return found

    def close(self) -> None:
        """Let go of the file."""
        self._dev.close()
