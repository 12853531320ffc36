"""Diagnosis softirq: one core handles the network's soft interrupts for all others."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence

LEAST = 0.5
"""Share of a core that soft interrupts use."""
TIMES = 4.0
"""Ratio of that core to the mean of the others."""


def _find(cell: CellEvidence, _other: CellEvidence) -> Iterator[Symptom]:
    rows = cell.increases[(cell.increases["metric"] == "cpu_softirq_s_total") & cell.increases["host"].isin(cell.hosts)]
    for host, of_host in rows.groupby("host"):
        cores = of_host.groupby("instance")["rate"].mean().sort_values(ascending=False)
        if len(cores) > 1 and cores.iloc[0] >= LEAST and cores.iloc[0] >= TIMES * cores.iloc[1:].mean():
            yield Symptom(
                text=f"leaves all soft interrupts to core {cores.index[0]} of {host}",
                evidence=f"they use {units.share(cores.iloc[0])} of it, and {units.share(cores.iloc[1:].mean())} of the others",
                next_step="Distribute received packets: receive queues of the interface, or RPS (rps_cpus).",
            )


DIAGNOSIS = Diagnosis("softirq", _find)
