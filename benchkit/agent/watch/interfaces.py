"""Bytes, packets and drops of every network interface, from /proc/net/dev (proc(5)).

Verdicts depend on these values.
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
    """All interfaces of the host, including loopback, which carries the load of a generator on the same host."""

    HEADER_LINES = 2

    def __init__(self) -> None:
        self._dev = KernelFile("/proc/self/net/dev")

    def sample(self) -> Values:
        """Return the counters by interface."""
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
        """Close the file."""
        self._dev.close()
