"""Diagnoses of connections: those to servers behind, delayed acknowledgements, lost attempts to connect."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean, stands_out

LEAST_OPENED = 0.5
"""Connections for each request from which on most requests open one."""


def _opened(cell: CellEvidence) -> float | None:
    """Return the connections opened to the servers behind for each request; None: there is none, or it is unknown."""
    behind = [name for name in cell.services if name != cell.entry]
    if not behind:
        return None
    accepted = [cell.per_request("connections_accepted_total", name) for name in behind]
    opened = max((values for values in accepted if len(values)), key=lambda values: values.mean(), default=np.empty(0))
    if not len(opened):
        opened = cell.per_request("tcp_active_opens_total", host_wide=True)
        if cell.shares_load_host and not cell.keeps_connections:
            opened = opened - 1.0  # the load opens one for each request
    return mean(opened)


def _opens_connections(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield a server that opens a connection to the one behind it for each request."""
    number = _opened(cell)
    if number is not None and stands_out(number, _opened(other), LEAST_OPENED):
        yield Symptom(
            service=cell.entry,
            text="opens a connection to its upstream for nearly every request",
            evidence=f"{number:.2f} connections per request",
            next_step="Keep connections to the upstream: nginx needs `keepalive` there, and before 1.29.7 "
            "`proxy_http_version 1.1` with an empty `Connection` header.",
        )


UPSTREAM_CONNECTIONS = Diagnosis("upstream-connections", _opens_connections)


DELAYED_S = (0.038, 0.050)
"""Latencies of a request that waited for one delayed acknowledgement."""


def _delayed_acknowledgements(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield answers in several pieces that wait for the client's delayed acknowledgement.

    Linux delays an acknowledgement by 40 ms at least (TCP_DELACK_MIN, HZ/25, include/net/tcp.h). Nagle's algorithm
    (RFC 896) holds the second small piece of an answer until the first is acknowledged.
    """
    late, others = (each.latency.share(*DELAYED_S) for each in (cell, other))
    if cell.keeps_connections and cell.latency.is_peak(*DELAYED_S) and stands_out(late, others, 0.0):
        low, high = (units.seconds(end) for end in DELAYED_S)
        yield Symptom(
            text="waits for delayed acknowledgements (Nagle's algorithm)",
            evidence=f"{units.share(late)} of the requests take {low} to {high}",
            next_step="Send each answer in one piece, or set TCP_NODELAY (nginx: `tcp_nodelay on`).",
        )


NAGLE = Diagnosis("nagle", _delayed_acknowledgements)


REPEATED_S = ((1.0, 1.25), (3.0, 3.25))
LEAST_REPEATED = 0.0005
"""Share of requests in a peak. It is small: a load that keeps its connections makes few attempts, and each lost one
takes a second."""


DROPPED = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")


def _repeated_attempts(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    """Yield attempts to connect that were lost, and repeated after 1 s and after 2 s more.

    Linux repeats a SYN after 1 s (TCP_TIMEOUT_INIT, RFC 6298), then after twice that time: answers come at 1 s and at
    3 s.
    """
    peaks = [peak for peak in REPEATED_S if cell.latency.is_peak(*peak, least=LEAST_REPEATED)]
    lost, others = (sum(mean(c.per_second(name, host_wide=True)) or 0.0 for name in DROPPED) for c in (cell, other))
    if peaks and stands_out(lost, others, 0.0):
        shares = " and ".join(f"{units.share(cell.latency.share(*peak))} take {peak[0]:g} s" for peak in peaks)
        yield Symptom(
            service=cell.entry,
            text="loses attempts to connect, which clients repeat after a second",
            evidence=f"of the requests, {shares}; {units.rate(lost)} attempts a second were dropped",
            next_step="Raise the listen backlog of the server and net.core.somaxconn.",
        )


SYN_RETRANSMITS = Diagnosis("syn-retransmits", _repeated_attempts)
