"""Balance of a disturbance between the cells of a sliced block, which share all of its seconds.

What takes CPU time from every cell of a block alike leaves their ratio as it is. The CPU time that it left to one cell
over what it left to the others is the change of the ratio that it can have caused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import pandas as pd

from benchkit.stats.samples import Reals, is_comparable


class Balance(NamedTuple):
    """A trial of a sliced block under a disturbance, compared with the other cells of the block."""

    trial_id: str
    value: float
    """Value of the column that measures the disturbance."""
    log_ratio: float
    """Logarithm of the CPU time that it left to the trial, over the median of the others; 0 for a trial alone."""
    others: frozenset[str]
    """The cells that it is compared with: not those of every block, where cells are in groups or trials failed."""

    @property
    def inequality(self) -> float:
        """Absolute log-ratio."""
        return abs(self.log_ratio)


def sliced_trials(trials: pd.DataFrame) -> pd.DataFrame:
    """Return the trials of sliced blocks that ratios may use."""
    return trials[is_comparable(trials) & trials["slices"].notna()]


def log_speed(times: Reals) -> Reals:
    """Return the logarithm of the speed of a core on which a fixed piece of work took these times."""
    return np.asarray(-np.log(times))


def balances(trials: pd.DataFrame, column: str, log: Callable[[Reals], Reals]) -> Iterator[Balance]:
    """Yield the balance of a column within sliced blocks; `log` gives the logarithm of what each value left."""
    sliced = sliced_trials(trials)
    values: Reals = sliced[column].to_numpy(dtype=np.float64, na_value=np.nan)
    logs = log(values)
    trial_ids, cell_ids = sliced["trial_id"].to_list(), sliced["cell_id"].to_list()
    for rows in sliced.groupby("block").indices.values():
        known = [row for row in rows if not np.isnan(logs[row])]
        for row in known:
            others = [other for other in known if other != row]
            log_ratio = float(logs[row] - np.median(logs[others])) if others else 0.0
            yield Balance(str(trial_ids[row]), float(values[row]), log_ratio, frozenset(cell_ids[o] for o in others))


def relative_to_block(trials: pd.DataFrame, column: str) -> Reals:
    """Return the values of a column; in sliced blocks relative to the median of the block's other cells."""
    relative = {each.trial_id: math.exp(each.log_ratio) for each in balances(trials, column, np.log)}
    values: Reals = trials[column].to_numpy(dtype=np.float64, na_value=np.nan)
    known = zip(trials["trial_id"].to_list(), values, strict=True)
    return np.array([relative.get(str(trial_id), value) for trial_id, value in known], dtype=np.float64)
