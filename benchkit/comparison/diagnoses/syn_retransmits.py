"""Diagnosis syn-retransmits: attempts to connect were lost, and repeated after 1 s and after 2 s more.

Linux repeats a SYN after 1 s (TCP_TIMEOUT_INIT, RFC 6298), then after twice that time: answers come at 1 s and at 3 s.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, mean, stands_out

PEAKS_S = ((1.0, 1.25), (3.0, 3.25))
LEAST = 0.0005
"""Share of requests in a peak. It is small: a load that keeps its connections makes few attempts, and each lost one
takes a second."""


COUNTERS = ("listen_overflows_total", "listen_drops_total", "req_queue_full_drops_total")


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    peaks = [peak for peak in PEAKS_S if cell.latency.is_peak(*peak, least=LEAST)]
    lost, others = (sum(mean(c.per_second(name, host_wide=True)) or 0.0 for name in COUNTERS) for c in (cell, other))
    if peaks and stands_out(lost, others, 0.0):
        shares = " and ".join(f"{units.share(cell.latency.share(*peak))} take {peak[0]:g} s" for peak in peaks)
        yield Symptom(
            service=cell.entry,
            text="loses attempts to connect, which clients repeat after a second",
            evidence=f"of the requests, {shares}; {units.rate(lost)} attempts a second were dropped",
            next_step="Raise the listen backlog of the server and net.core.somaxconn.",
        )


DIAGNOSIS = Diagnosis("syn-retransmits", _find)
