"""Summary of a run by cell: rates and ratios to the baseline, with the names of cells in reports."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from benchkit.comparison.cell_labels import CellView
from benchkit.comparison.cell_results import CellCapacity, cell_capacities
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.texts import NOT_USABLE
from benchkit.models.design import controlled
from benchkit.models.metrics import RPS
from benchkit.report.stored_run import StoredRun, cached_per_run, numbers
from benchkit.stats.samples import geometric_mean

ERRORS = ("errors_connect", "errors_read", "errors_write", "errors_timeout")


@dataclass(frozen=True)
class CellSummary:
    """The measured trials of one cell.

    `rps` are the rates of the included trials; if all are excluded, the rates of all, and `is_usable` is false. `ratio`
    is relative to the cell's baseline, over the blocks that have both; None without a baseline.
    """

    cell: CellView
    trials: int
    rps: tuple[float, ...]
    exclusions: tuple[str, ...]
    """Reason of each excluded trial."""
    ratio: Ratio | None
    errors: float
    """Failed requests of all trials; NaN: the tool counts none."""
    non_2xx: float
    capacity: CellCapacity | None = None
    """Its capacity, if each trial searched for it."""

    @property
    def is_usable(self) -> bool:
        """True if any trial is included; otherwise the rates are shown but not ranked."""
        return len(self.exclusions) < self.trials

    @property
    def mean_rps(self) -> float | None:
        """Geometric mean of the trials' rates."""
        return geometric_mean(self.rps) if self.rps else None


@cached_per_run
def summarise(run: StoredRun) -> tuple[CellSummary, ...]:
    """Return the summaries of the cells of a run, in the order of the plan."""
    measured = run.measured
    ratios = {
        ratio.cell_id: ratio
        for comparison in run.comparisons
        if comparison.metrics == (run.data.primary_metric,)
        for ratio in comparison.ratios
        if ratio.ratio is not None and not ratio.is_unusable and not ratio.control
    }
    capacities = {capacity.cell_id: capacity for capacity in cell_capacities(run.data)}
    failures = pd.DataFrame({"errors": errors(measured), "non_2xx": numbers(measured["non_2xx"])})
    totals = failures.groupby(measured["cell_id"]).sum(min_count=1)
    rates, excluded = run.values(RPS), run.values(RPS).exclusions
    return tuple(
        CellSummary(
            cell=view,
            trials=len(run.trials_of(cell)),
            rps=tuple(rates.included_or_all(cell)),
            exclusions=tuple(excluded[trial] for trial in run.trials_of(cell)["trial_id"] if trial in excluded),
            ratio=ratios.get(cell),
            errors=float(totals["errors"].get(cell, math.nan)),
            non_2xx=float(totals["non_2xx"].get(cell, math.nan)),
            capacity=capacities.get(cell),
        )
        for view in run.cells
        for cell in [view.cell_id]
    )


def errors(trials: pd.DataFrame) -> pd.Series[float]:
    """Return the failed requests of each trial, over the kinds that its tool counts; NaN if it counts none."""
    kinds = pd.DataFrame({kind: numbers(trials[kind]) for kind in ERRORS})
    return kinds.sum(axis="columns", min_count=1)


def cell_names(run: StoredRun) -> dict[str, str]:
    """Return the labels of all cells by their ids, controls included."""
    controls = {cell.cell_id: base for cell in run.manifest.cells if (base := controlled(cell.cell_id)) is not None}
    return run.labels | {cell_id: f"{run.labels[base]} (control)" for cell_id, base in controls.items()}


def ratio_with_interval(ratio: Ratio) -> str:
    """Return the ratio with its interval as text: `0.554 [0.537, 0.571]`."""
    if ratio.ratio is None:
        return "no ratio"
    if ratio.low is None or ratio.high is None:
        return f"{ratio.ratio:.3g}, {NOT_USABLE if ratio.is_unusable else 'no interval'}"
    return f"{ratio.ratio:.3g} [{ratio.low:.3g}, {ratio.high:.3g}]"
