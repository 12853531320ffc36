"""Sliced blocks: the balance of a disturbance between their cells.

The cells of a block share all of its seconds. A disturbance that takes CPU time from all of them alike does not change
their ratio. Any other can change it by up to the ratio of the CPU times left to them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchkit import units
from benchkit.judge.check import ALL, Finding
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import TrialRecord
from benchkit.stats.samples import Reals, is_comparable, log_left


class Balance(NamedTuple):
    """A trial of a sliced block under a disturbance, compared with the other cells of the block."""

    trial_id: str
    value: float
    """Value of the column that measures the disturbance."""
    log_ratio: float
    """Logarithm of the CPU time that it left to the trial, over the median of the others; 0 for a trial alone."""
    is_complete: bool
    """True if the block has all cells, as those blocks have that it is compared with."""

    @property
    def inequality(self) -> float:
        """Distance of the trial from the others: the log-ratio without its sign."""
        return abs(self.log_ratio)

    def finding(self, seen: str, limit: str, advice: str, thresholds: Thresholds) -> Finding:
        """Return the finding about CPU time that was taken from its cell; `seen` says by whom and how much."""
        return Finding(
            severity="suspect",
            metrics=ALL,
            seen=f"{seen}, and left {units.share(math.expm1(self.inequality))} more or less than in the slices of the "
            "block's other cells",
            threshold=f"limit: {limit}, {units.share(thresholds.unequal)} more or less",
            means="Ratios of this block include that difference, which random order turns into noise; each rate is lower "
            "than it could be.",
            advice=advice,
        )


def sliced_trials(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of sliced blocks that ratios may use."""
    return trials[is_comparable(trials) & trials["slices"].notna()]


def balances(trials: pd.DataFrame, column: str, log: Callable[[Reals], Reals]) -> Iterator[Balance]:
    """Yield the balance of a column within sliced blocks; `log` maps its values to logarithms of the CPU time left."""
    sliced = sliced_trials(trials)
    values: Reals = sliced[column].to_numpy(dtype=np.float64, na_value=np.nan)
    logs = log(values)
    trial_ids, cells = sliced["trial_id"].to_list(), sliced["cell_id"].nunique()
    for rows in sliced.groupby("block").indices.values():
        known = [row for row in rows if not np.isnan(logs[row])]
        for row in known:
            others = [other for other in known if other != row]
            log_ratio = float(logs[row] - np.median(logs[others])) if others else 0.0
            yield Balance(str(trial_ids[row]), float(values[row]), log_ratio, len(known) == cells)


def relative_to_block(trials: pd.DataFrame, column: str) -> Reals:
    """Return the values of a column; in sliced blocks relative to the median of the block's other cells."""
    relative = {each.trial_id: math.exp(each.log_ratio) for each in balances(trials, column, np.log)}
    values: Reals = trials[column].to_numpy(dtype=np.float64, na_value=np.nan)
    known = zip(trials["trial_id"].to_list(), values, strict=True)
    return np.array([relative.get(str(trial_id), value) for trial_id, value in known], dtype=np.float64)


def neighbour_share(record: TrialRecord) -> float | None:
    """Return the share of the CPU time of its servers' CPUs that the block's other servers used in its slices.

    None for a trial in one piece, and where that time or those CPUs are unknown.
    """
    slices = record.slices
    used_s = [each.neighbour_cpu_s for each in slices if each.neighbour_cpu_s is not None]
    cpus = {(service.host, cpu) for service in record.services for cpu in service.cpus}
    if not slices or not cpus or len(used_s) < len(slices):
        return None
    return sum(used_s) / sum(each.duration_s for each in slices) / len(cpus)


def neighbour_inequality(shares: Iterable[float]) -> float:
    """Return the largest difference between the cells of a block in the logarithm of the CPU time left to them."""
    logs = log_left(np.fromiter(shares, dtype=np.float64))
    return float(np.ptp(logs)) if len(logs) else 0.0
