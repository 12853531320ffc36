"""Samples for statistics: one logarithm for each cell and block, with the excluded trials and their reasons.

The trial is the sample (never a request within it). A trial that a verdict excludes for a metric is not a sample of
that metric.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from benchkit import units
from benchkit.errors import InputError, suggestion
from benchkit.models.base import Frozen
from benchkit.models.design import CONTROL
from benchkit.models.metrics import LATENCIES, RPS
from benchkit.models.thresholds import SEND_LAG
from benchkit.store.row_builders import INTERRUPTED

if TYPE_CHECKING:
    import pandas as pd

Reals = npt.NDArray[np.float64]
Places = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]

SEARCH_KINDS = ("calibrate", "probe")
"""Kinds of trials that search for the rates of a run; ratios never use them."""

STEPS = 10
"""Multiple of a tool's resolution below which a latency, or a mean of truncated latencies, is mostly rounding."""

OUTSIDE = ("foreign_share", "stolen_share", "withheld_share")
"""Columns of `trials` with the shares of CPU time that other programs, hypervisor and quotas took."""
NEIGHBOURS = "neighbour_share"
"""Column with the share that servers without load took."""
LAG, LAG_OF = "send_lag_p99_s", "latency_p99_s"
"""Columns of the time by which a load tool sent its requests late, and of the latencies that include this time."""
MAX_SHARE = 0.99
"""Largest share that is used: a share of 1 leaves no CPU time, and 0 has no logarithm."""

INTERRUPTED_BLOCK = "block interrupted, repeated"


@dataclass(frozen=True)
class Exclusion:
    """A trial that is excluded for some metrics, or for all of them (`None`), with the reason."""

    trial_id: str
    reason: str
    metrics: frozenset[str] | None = None
    checks: frozenset[str] = frozenset()
    """Checks whose findings exclude it."""

    def covers(self, metric: str) -> bool:
        """Return True if the trial is excluded for this metric."""
        return self.metrics is None or metric in self.metrics

    def is_due_to(self, checks: frozenset[str]) -> bool:
        """Return True if only findings of these checks exclude it."""
        return bool(self.checks) and self.checks <= checks


def excluded_ids(exclusions: Iterable[Exclusion], metric: str) -> set[str]:
    """Return the ids of the trials that are excluded for a metric."""
    return {each.trial_id for each in exclusions if each.covers(metric)}


def usable_rows(rows: pd.DataFrame, excluded: Collection[str]) -> tuple[pd.DataFrame, bool]:
    """Return the rows of trials that are not excluded, and False; if none remain, all rows and True."""
    usable = rows[~rows["trial_id"].isin(list(excluded))]
    return (rows, True) if usable.empty and not rows.empty else (usable, False)


class ExcludedTrial(Frozen):
    """A finished trial that ratios of a metric do not use, with the reason."""

    trial_id: str
    cell_id: str
    block: int
    reason: str


@dataclass(frozen=True, eq=False)
class CpuLeft:
    """Logarithms of the share of CPU time that remained for the cells of a run, of shape (cells, blocks)."""

    outside: Reals
    """Share after other programs, hypervisor and quotas; 0 in a block with a cell for which it is unknown."""
    neighbours: Reals
    """Share after servers without load, times the cells in the block: see `benchkit.comparison.ratios.Bias`."""


@dataclass(frozen=True, eq=False)
class Samples:
    """One metric of a run.

    `logs[c, b]` is the natural logarithm of the metric of cell `cells[c]` in block `blocks[b]`; NaN without a usable
    trial. `excluded` holds the excluded trials, by cell. Times below `rounded_below` are mostly rounding by the load
    tool; it is 0 if the tool's resolution is not known.
    """

    metric: str
    cells: tuple[str, ...]
    blocks: tuple[int, ...]
    logs: Reals
    excluded: Mapping[str, tuple[ExcludedTrial, ...]]
    rounded_below: float = 0.0
    left: CpuLeft | None = None
    """CPU time that remained after disturbances; None if it is unknown."""
    lag: Reals | None = None
    """Logarithms by which latencies may be longer because the load tool sent late, of shape (cells, blocks).

    They follow from the share of its lag in the latency, both at p99, and are 0 up to `SEND_LAG`. None: unknown."""
    one_answer: Reals | None = None
    """Share of one answer in the answers that a rate counts, of shape (cells, blocks); None: not a rate, or unknown."""

    def of(self, cell_id: str) -> Reals:
        """Return the logarithms of a cell, one per block; all NaN for a cell without trials."""
        if cell_id not in self.cells:
            return np.full(len(self.blocks), math.nan)
        row: Reals = self.logs[self.cells.index(cell_id)]
        return row

    def known(self, cell_id: str, baseline: str | None = None) -> Reals:
        """Return the logarithms of a cell, or its log-ratios to a baseline, in the blocks that have them."""
        logs = self.of(cell_id) if baseline is None else self.of(cell_id) - self.of(baseline)
        known: Reals = logs[~np.isnan(logs)]
        return known

    def excluded_of(self, *cells: str) -> tuple[ExcludedTrial, ...]:
        """Return the excluded trials of these cells."""
        return tuple(trial for cell_id in dict.fromkeys(cells) for trial in self.excluded.get(cell_id, ()))


def geometric_mean(values: Iterable[float]) -> float:
    """Return the geometric mean, which tables and sentences state for a cell because ratios divide these means.

    It is 0 if a value is 0. Raises ValueError without values.
    """
    known = np.fromiter(values, dtype=np.float64)
    if not len(known):
        raise ValueError("an empty sample has no mean")
    return float(np.exp(np.log(known).mean())) if known.min() > 0 else 0.0


def log_left(shares: Reals) -> Reals:
    """Return the logarithm of the share of CPU time that remains after these shares."""
    return np.asarray(np.log1p(-np.clip(shares, 0, MAX_SHARE)))


def numeric_columns(trials: pd.DataFrame) -> list[str]:
    """Return the numeric columns of `trials` that are metrics."""
    not_metrics = {"block", "position", "probe_status"}
    return [
        str(name)
        for name in trials.select_dtypes("number").columns
        if name not in not_metrics and not str(name).startswith("factor_")
    ]


def is_comparable(trials: pd.DataFrame) -> pd.Series[bool]:
    """Return a mask of the trials that ratios may use: measured trials, and those of control cells."""
    of_control_cell = trials["cell_id"].str.endswith(CONTROL)
    return (trials["kind"] == "measure") | ((trials["kind"] == "control") & of_control_cell)


def take_samples(trials: pd.DataFrame, metric: str, exclusions: Iterable[Exclusion] = ()) -> Samples:
    """Return the samples of a metric, cells and blocks in ascending order.

    `trials` has rows of one run as `benchkit.load("trials")` gives them. Raises InputError for a metric that is no
    numeric column.
    """
    if metric not in trials or not numeric_columns(trials[[metric]]):
        raise InputError(f"no metric {metric!r}", why=suggestion(metric, numeric_columns(trials)))
    rows = trials[is_comparable(trials)]
    cells, cell_of = np.unique(rows["cell_id"].to_numpy(dtype=str), return_inverse=True)
    blocks, block_of = np.unique(rows["block"].to_numpy(dtype=np.int64), return_inverse=True)
    values = rows[metric].to_numpy(dtype=np.float64, na_value=np.nan)
    reasons = {each.trial_id: each.reason for each in exclusions if each.covers(metric)}
    trial_ids = rows["trial_id"].to_numpy(dtype=str)
    is_excluded = np.isin(trial_ids, list(reasons)) if reasons else np.zeros(len(trial_ids), dtype=bool)
    usable = np.isfinite(values) & (values > 0) & ~is_excluded

    logs = np.full((len(cells), len(blocks)), math.nan)
    logs[cell_of[usable], block_of[usable]] = np.log(values[usable])

    excluded: defaultdict[str, list[ExcludedTrial]] = defaultdict(list)
    interrupted = trials[trials["kind"] == INTERRUPTED]
    for trial_id, cell_id, block in zip(
        interrupted["trial_id"], interrupted["cell_id"], interrupted["block"], strict=True
    ):
        excluded[str(cell_id)].append(
            ExcludedTrial(trial_id=trial_id, cell_id=cell_id, block=int(block), reason=INTERRUPTED_BLOCK)
        )
    for row in np.flatnonzero(~usable):
        cell_id, block = str(cells[cell_of[row]]), int(blocks[block_of[row]])
        trial_id = str(trial_ids[row])
        reason = reasons.get(trial_id) or _exclusion_reason(metric, float(values[row]))
        excluded[cell_id].append(ExcludedTrial(trial_id=trial_id, cell_id=cell_id, block=block, reason=reason))
    return Samples(
        metric=metric,
        cells=tuple(map(str, cells)),
        blocks=tuple(map(int, blocks)),
        logs=logs,
        excluded={cell_id: tuple(trials) for cell_id, trials in excluded.items()},
        rounded_below=_rounded_below(rows),
        left=_cpu_left(rows, (cell_of, block_of), logs.shape),
        lag=_lag(rows, (cell_of, block_of), logs.shape) if metric in LATENCIES else None,
        one_answer=_one_answer(rows, (cell_of, block_of), logs.shape) if metric == RPS else None,
    )


def _cpu_left(trials: pd.DataFrame, places: Places, shape: tuple[int, ...]) -> CpuLeft:
    """Return the CPU time that remained in these trials; `places` are their indexes in (cells, blocks) of this shape.

    The shares of an external server are unknown, and are then used for no trial of its block.
    """

    def of(*columns: str) -> Reals:
        total = np.zeros(shape)
        for column in columns:
            if column in trials:
                logs = np.zeros(shape)
                logs[places] = log_left(trials[column].to_numpy(dtype=np.float64, na_value=np.nan))
                total += np.where(np.isnan(logs).any(axis=0), 0.0, logs)
        return total

    has_cell = np.zeros(shape, dtype=bool)
    has_cell[places] = True
    return CpuLeft(of(*OUTSIDE), of(NEIGHBOURS) * has_cell.sum(axis=0))


def _lag(trials: pd.DataFrame, places: Places, shape: tuple[int, ...]) -> Reals | None:
    if LAG not in trials or LAG_OF not in trials:
        return None
    lags, latencies = (trials[column].to_numpy(dtype=np.float64, na_value=np.nan) for column in (LAG, LAG_OF))
    shares = np.divide(lags, latencies, out=np.zeros(len(trials)), where=latencies > 0)
    longer = np.zeros(shape)
    longer[places] = np.where(shares > SEND_LAG, -log_left(shares), 0.0)
    return longer


def _one_answer(trials: pd.DataFrame, places: Places, shape: tuple[int, ...]) -> Reals | None:
    if "requests" not in trials:
        return None
    shares = np.zeros(shape)
    shares[places] = 1 / np.maximum(trials["requests"].to_numpy(dtype=np.float64, na_value=np.inf), 1.0)
    return shares


def _rounded_below(trials: pd.DataFrame) -> float:
    if "latency_resolution_s" not in trials:
        return 0.0
    steps = trials["latency_resolution_s"].to_numpy(dtype=np.float64, na_value=0.0)
    return STEPS * float(steps.max(initial=0.0))


INVALID = "invalid: "
"""Start of the reason of a trial that findings exclude; the names of their checks follow."""


def describe_reasons(excluded: Sequence[ExcludedTrial]) -> str:
    """Return the reasons for exclusions, each once with its number of trials.

    If trials are invalid by different checks, each check is named once.
    """
    counts = Counter(trial.reason for trial in excluded)
    invalid = {reason: times for reason, times in counts.items() if reason.startswith(INVALID)}
    if len(invalid) > 1:
        checks: Counter[str] = Counter()
        for reason, times in invalid.items():
            checks.update(dict.fromkeys(reason.removeprefix(INVALID).split(", "), times))
        listed = ", ".join(f"{check} ({units.counted(times, 'trial')})" for check, times in checks.most_common())
        counts = Counter({INVALID + listed: 1, **{each: n for each, n in counts.items() if each not in invalid}})
    return "; ".join(reason if times == 1 else f"{reason} ({times} trials)" for reason, times in counts.items())


def describe_exclusions(excluded: Sequence[ExcludedTrial]) -> str:
    """Return how many trials are excluded and why; empty if none is."""
    return f"{units.counted(len(excluded), 'trial')} excluded: {describe_reasons(excluded)}" if excluded else ""


def _exclusion_reason(metric: str, value: float) -> str:
    return f"the tool reports no {metric}" if math.isnan(value) else f"{metric} is {value:g}, which has no ratio"
