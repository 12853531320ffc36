"""Diagnosis softirq: one core handles the network's soft interrupts for all others."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from benchkit import units
from benchkit.comparison.diagnoses.diagnosis import Diagnosis, Symptom
from benchkit.comparison.diagnoses.evidence import CellEvidence, stands_out

LEAST = 0.5
"""Share of a core that soft interrupts use."""
TIMES = 4.0
"""Ratio of that core to the mean of the others."""


def _shares(cell: CellEvidence) -> pd.Series[float]:
    """Return the share of each core of the servers' hosts that soft interrupts use, the largest first."""
    rows = cell.increases[(cell.increases["metric"] == "cpu_softirq_s_total") & cell.increases["host"].isin(cell.hosts)]
    return rows.groupby(["host", "instance"])["rate"].mean().sort_values(ascending=False)


def _find(cell: CellEvidence, other: CellEvidence) -> Iterator[Symptom]:
    others = next(iter(_shares(other)), 0.0)
    for host, of_host in _shares(cell).groupby("host"):
        cores = of_host.droplevel("host")
        if len(cores) > 1 and stands_out(cores.iloc[0], others, max(LEAST, TIMES * cores.iloc[1:].mean())):
            yield Symptom(
                text=f"leaves all soft interrupts to core {cores.index[0]} of {host}",
                evidence=f"they use {units.share(cores.iloc[0])} of it, and {units.share(cores.iloc[1:].mean())} of the others",
                next_step="Distribute received packets: receive queues of the interface, or packet steering (rps_cpus).",
            )


DIAGNOSIS = Diagnosis("softirq", _find)
