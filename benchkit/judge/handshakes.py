"""TLS handshakes of a trial's entry in the measured window, by the server's own counters."""

from __future__ import annotations

from typing import NamedTuple

from benchkit.judge.evidence import Evidence

METRIC = "tls_handshakes_total"
FULL, RESUMED = "full", "resumed"
"""Instances of the metric."""


class Handshakes(NamedTuple):
    """Handshakes in the window."""

    full: float
    resumed: float

    @property
    def number(self) -> float:
        """All of them."""
        return self.full + self.resumed

    @property
    def resumed_share(self) -> float | None:
        """Share that resumed a session; None where there was no handshake."""
        return self.resumed / self.number if self.number else None


def handshakes(evidence: Evidence) -> Handshakes | None:
    """Return the handshakes of the entry; None where it counts none, or samples cover less than half of the window."""
    window_s, counts = evidence.window_s, {}
    for series in evidence.telemetry.series(METRIC):
        if series.service == evidence.entry and series.instance is not None:
            rate = series.rate(window_s)
            if rate is None:
                return None
            counts[series.instance] = rate * window_s
    return Handshakes(counts[FULL], counts[RESUMED]) if {FULL, RESUMED} <= counts.keys() else None


def resumed_share(evidence: Evidence) -> float | None:
    """Return the share of the handshakes that resumed a session; None without handshakes."""
    found = handshakes(evidence)
    return None if found is None else found.resumed_share


def handshakes_per_s(evidence: Evidence) -> float | None:
    """Return the handshakes per second; None without TLS.

    In slices the server counts handshakes over the load tool's own time, which may be longer than the window
    (`Tool.overrun_s`).
    """
    found, load_s = handshakes(evidence), evidence.window_s
    if evidence.record.slices:
        load_s = max(load_s, evidence.row.duration_s or 0.0)
    return None if found is None else found.number / load_s


def server_cpu_s_per_handshake(evidence: Evidence) -> float | None:
    """Return the CPU time of all services per handshake, in seconds; None where connections are kept."""
    per_s, times = handshakes_per_s(evidence), [service.cpu_s for service in evidence.record.services]
    if evidence.record.load.keepalive or not per_s or None in times:
        return None
    return sum(time for time in times if time is not None) / (per_s * evidence.window_s)
