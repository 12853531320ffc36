"""From trials to samples: one logarithm for each cell and block, with whatever is left out said.

The trial is the sample (never a request within it). Where a block has a cell more than once, as ABBA has, the mean of
the logarithms stands for it. A trial that a verdict excludes for a metric never gets here.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit import units
from benchkit.errors import InputError
from benchkit.models.base import Frozen
from benchkit.models.design import CONTROL
from benchkit.results.rows import INTERRUPTED

Reals = npt.NDArray[np.float64]

INTERRUPTED_BLOCK = "its block was cut by a pause and run again"


@dataclass(frozen=True)
class Exclusion:
    """A trial that does not count, and why: for the metrics named, or (`None`) for all of them."""

    trial_id: str
    reason: str
    metrics: frozenset[str] | None = None

    def covers(self, metric: str) -> bool:
        """Whether the trial is out for this metric."""
        return self.metrics is None or metric in self.metrics


class ExcludedTrial(Frozen):
    """A trial that ended and is in no ratio of the metric, and why."""

    trial_id: str
    cell_id: str
    block: int
    reason: str


@dataclass(frozen=True, eq=False)
class Samples:
    """One metric of a run.

    `logs[c, b]` is the natural logarithm of the metric of cell `cells[c]` in block `blocks[b]`; NaN where that block has
    no trial of the cell that counts. `left_out` holds the trials that do not count, by cell.
    """

    metric: str
    cells: tuple[str, ...]
    blocks: tuple[int, ...]
    logs: Reals
    left_out: Mapping[str, tuple[ExcludedTrial, ...]]

    def of(self, cell_id: str) -> Reals:
        """The logarithms of a cell, a block each; all NaN for a cell that has no trial."""
        if cell_id not in self.cells:
            return np.full(len(self.blocks), math.nan)
        row: Reals = self.logs[self.cells.index(cell_id)]
        return row


def numeric_columns(trials: pd.DataFrame) -> list[str]:
    """The columns that can be compared."""
    apart = {"block", "position", "probe_status"}
    return [
        str(name)
        for name, kind in trials.dtypes.items()
        if pd.api.types.is_numeric_dtype(kind)
        and not pd.api.types.is_bool_dtype(kind)
        and name not in apart
        and not str(name).startswith("factor_")
    ]


def is_comparable(trials: pd.DataFrame) -> pd.Series[bool]:
    """The trials that ratios may rest on: measured ones, cells' second names among them.

    Profiled trials are a pass of their own, and so are those that only stand beside them.
    """
    second = trials["cell_id"].str.endswith(CONTROL)
    return (trials["kind"] == "measure") | ((trials["kind"] == "control") & second)


def take_samples(trials: pd.DataFrame, metric: str, exclusions: Iterable[Exclusion] = ()) -> Samples:
    """The samples of a metric, cells and blocks in ascending order.

    `trials` has rows of one run as `benchkit.load("trials")` gives them. Raises InputError for a metric that is no
    numeric column.
    """
    if metric not in (names := numeric_columns(trials)):
        raise InputError(f"no metric {metric!r}", why=f"there are: {', '.join(names)}")
    rows = trials[is_comparable(trials)]
    cells, cell_of = np.unique(rows["cell_id"].to_numpy(dtype=str), return_inverse=True)
    blocks, block_of = np.unique(rows["block"].to_numpy(dtype=np.int64), return_inverse=True)
    values = pd.to_numeric(rows[metric]).to_numpy(dtype=np.float64, na_value=np.nan)
    out = {excluded.trial_id: excluded.reason for excluded in exclusions if excluded.covers(metric)}
    ids = rows["trial_id"].to_numpy(dtype=str)
    excluded = np.isin(ids, list(out)) if out else np.zeros(len(ids), dtype=bool)
    usable = np.isfinite(values) & (values > 0) & ~excluded

    place = cell_of * len(blocks) + block_of
    size = len(cells) * len(blocks)
    there = np.bincount(place[usable], minlength=size).reshape(len(cells), len(blocks))
    planned = np.bincount(place, minlength=size).reshape(len(cells), len(blocks))
    sums = np.bincount(place[usable], weights=np.log(values[usable]), minlength=size).reshape(there.shape)
    # ABBA cancels drift only with all of its trials: a block that lost one of a cell's has no sample of that cell.
    whole = (there > 0) & (there == planned.max(axis=1, initial=0, keepdims=True))
    logs = np.full(there.shape, math.nan)
    np.divide(sums, there, out=logs, where=whole)

    left_out: defaultdict[str, list[ExcludedTrial]] = defaultdict(list)
    cut = trials[trials["kind"] == INTERRUPTED]
    for trial_id, cell_id, block in zip(cut["trial_id"], cut["cell_id"], cut["block"], strict=True):
        left_out[str(cell_id)].append(
            ExcludedTrial(trial_id=trial_id, cell_id=cell_id, block=int(block), reason=INTERRUPTED_BLOCK)
        )
    for row in np.flatnonzero(~usable | ~whole[cell_of, block_of]):
        cell_id, block = str(cells[cell_of[row]]), int(blocks[block_of[row]])
        reason = out.get(str(ids[row])) or _reason(metric, float(values[row]))
        left_out[cell_id].append(ExcludedTrial(trial_id=str(ids[row]), cell_id=cell_id, block=block, reason=reason))
    return Samples(
        metric=metric,
        cells=tuple(map(str, cells)),
        blocks=tuple(map(int, blocks)),
        logs=logs,
        left_out={cell_id: tuple(trials) for cell_id, trials in left_out.items()},
    )


def describe_reasons(left_out: Sequence[ExcludedTrial]) -> str:
    """Why trials are left out, each reason once, with how often it applies."""
    counted: dict[str, int] = {}
    for trial in left_out:
        counted[trial.reason] = counted.get(trial.reason, 0) + 1
    return "; ".join(reason if times == 1 else f"{reason} ({times} trials)" for reason, times in counted.items())


def describe_exclusions(left_out: Sequence[ExcludedTrial]) -> str:
    """How many trials are left out, and why; empty where none is."""
    return f"{units.counted(len(left_out), 'trial')} left out: {describe_reasons(left_out)}" if left_out else ""


def _reason(metric: str, value: float) -> str:
    if math.isnan(value):
        return f"the tool states no {metric}"
    if not (math.isfinite(value) and value > 0):
        return f"{metric} is {value:g}, of which there is no ratio"
    return "another trial of the cell in this block does not count"
