"""Diagnosis nagle: answers in several pieces wait for the client's delayed acknowledgement.

Linux delays an acknowledgement by 40 ms at least (TCP_DELACK_MIN, HZ/25, include/net/tcp.h). Nagle's algorithm
(RFC 896) holds the second small piece of an answer until the first is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, stands_out

PEAK_S = (0.038, 0.050)
"""Latencies of a request that waited for one delayed acknowledgement."""


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    late, others = (each.latency.share(*PEAK_S) for each in (cell, other))
    if cell.keeps_connections and cell.latency.is_peak(*PEAK_S) and stands_out(late, others, 0.0):
        low, high = (units.seconds(end) for end in PEAK_S)
        yield Symptom(
            text="waits for delayed acknowledgements (Nagle's algorithm)",
            evidence=f"{units.share(late)} of the requests take {low} to {high}",
            next_step="Send each answer in one piece, or set TCP_NODELAY (nginx: `tcp_nodelay on`).",
        )


DIAGNOSIS = Diagnosis("nagle", _find)
