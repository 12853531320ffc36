"""Summary of a run, cell by cell: means, ranges and ratios to the baseline, with the names that reports give them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.comparison.answer import times_with_interval
from benchkit.comparison.cell_labels import CellView
from benchkit.comparison.cell_results import CellCapacity, cell_capacities
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.texts import NOT_USABLE
from benchkit.models.design import controlled
from benchkit.models.metrics import RPS, metric_named
from benchkit.report.stored_run import StoredRun, cached_per_run, numbers
from benchkit.safe_text import clean
from benchkit.stats.samples import geometric_mean

ERRORS = ("errors_connect", "errors_read", "errors_write", "errors_timeout")


@dataclass(frozen=True)
class CellSummary:
    """The measured trials of one cell; the trial is the sample.

    `rps` are the rates of the included trials; if all are excluded, the rates of all, and `is_usable` is false. `ratio`
    is relative to the cell's own baseline, over the blocks that have both cells; None without a baseline.
    """

    cell: CellView
    trials: int
    rps: tuple[float, ...]
    exclusions: tuple[str, ...]
    """Reason of each excluded trial."""
    ratio: Ratio | None
    errors: int | None
    non_2xx: int | None
    headline: tuple[str, str] | None = None
    """Mean and range of the primary metric, if that is not the rate."""
    capacity: CellCapacity | None = None
    """Its capacity, if each trial searched for it."""

    @property
    def is_usable(self) -> bool:
        """True if any trial is included; otherwise the rates are shown and not ranked."""
        return len(self.exclusions) < self.trials

    @property
    def mean_rps(self) -> float | None:
        """Geometric mean of the trials' rates."""
        return geometric_mean(self.rps) if self.rps else None


@cached_per_run
def summarise(run: StoredRun) -> tuple[CellSummary, ...]:
    """Return the summaries of the cells of a run, in the order of the plan."""
    ratios, measured = _ratios(run), run.measured
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
            errors=_count(totals["errors"].get(cell, math.nan)),
            non_2xx=_count(totals["non_2xx"].get(cell, math.nan)),
            headline=_headline(run, cell),
            capacity=capacities.get(cell),
        )
        for view in run.cells
        for cell in [view.cell_id]
    )


def errors(trials: pd.DataFrame) -> pd.Series[float]:
    """Return the failed requests of each trial, over the kinds that its tool counts; NaN if it counts none."""
    kinds = pd.DataFrame({kind: numbers(trials[kind]) for kind in ERRORS})
    return kinds.sum(axis="columns", min_count=1)


def describe_cell(cell: CellSummary, labels: Mapping[str, str], blocks: int) -> tuple[str, str]:
    """Return the result of a cell as its leading figure and the sentence below it; `labels` name the cells."""
    if cell.cell.unsupported is not None:
        return "not measured", f"not supported on these hosts: {cell.cell.unsupported}"
    if cell.mean_rps is None:
        return "no result", "no trial of it ended with a rate"
    if cell.capacity is not None:
        return cell.capacity.figure, "; ".join(_describe_capacity(cell, cell.capacity, labels))
    shown = _range(cell.rps) if cell.headline is None else f", {cell.headline[1]}"
    parts = [f"mean of {units.counted(len(cell.rps), 'trial')}{shown}", *_describe_exclusions(cell)]
    if cell.ratio is not None:
        parts.insert(0, _describe_ratio(cell.ratio, labels[cell.ratio.baseline]))
    if cell.trials < blocks:
        parts.append(f"{cell.trials} of {blocks} trials ended")
    parts += _describe_failures(cell)
    if cell.ratio is not None:
        parts += map(clean, cell.ratio.notes)
    rate = units.requests_per_s(cell.mean_rps)
    if cell.headline is None:
        return rate, "; ".join(parts)
    return f"{cell.headline[0]} at {rate}", "; ".join(parts)


def _describe_capacity(cell: CellSummary, capacity: CellCapacity, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield what a capacity is, its interval, its ratio, and how the trials at it ended."""
    if cell.ratio is not None:
        yield _describe_ratio(cell.ratio, labels[cell.ratio.baseline])
    objective = f" with {capacity.objective}" if capacity.objective else ""
    yield f"highest rate{objective}{capacity.interval}, of {units.counted(capacity.searches, 'search', 'searches')}"
    if capacity.exclusion:
        yield f"excluded from comparisons ({capacity.exclusion})"
    yield f"trials at that rate: mean of {units.requests_per_s(cell.mean_rps or 0.0)}"
    yield from _describe_failures(cell)
    yield from map(clean, cell.ratio.notes if cell.ratio is not None else ())


def _ratios(run: StoredRun) -> dict[str, Ratio]:
    return {
        ratio.cell_id: ratio
        for comparison in run.comparisons
        if comparison.metrics == (run.data.primary_metric,)
        for ratio in comparison.ratios
        if ratio.ratio is not None and not ratio.is_unusable and not ratio.control
    }


def _headline(run: StoredRun, cell_id: str) -> tuple[str, str] | None:
    metric = metric_named(run.data.primary_metric)
    values = run.values(metric.name).included_or_all(cell_id)
    if not values or metric.name == RPS:
        return None
    mean, low, high = (metric.format(each) for each in (geometric_mean(values), min(values), max(values)))
    return f"{mean} {metric.title}", f"{low} to {high}"


def _describe_ratio(ratio: Ratio, baseline: str) -> str:
    """Return the ratio with its interval: `0.55× of go (95 % CI 0.54 to 0.57)`."""
    times, _, interval = times_with_interval(ratio).partition(" ")
    return f"{times} of {baseline} {interval or '(no interval)'}"


def _count(total: float) -> int | None:
    return None if math.isnan(total) else int(total)


def _range(rps: Sequence[float]) -> str:
    return f", {units.rate(min(rps))} to {units.rate(max(rps))}" if len(rps) > 1 else ""


def _describe_exclusions(cell: CellSummary) -> list[str]:
    if not cell.exclusions:
        return []
    reasons = ", ".join(dict.fromkeys(cell.exclusions))
    if not cell.is_usable:
        return [f"all of them excluded from comparisons ({reasons})"]
    return [f"{units.counted(len(cell.exclusions), 'trial')} excluded ({reasons})"]


def _describe_failures(cell: CellSummary) -> list[str]:
    """Return the failures, without which the rate of a cell whose requests fail would mislead."""
    failed = []
    if cell.errors:
        failed.append(units.counted(cell.errors, "failed request"))
    if cell.non_2xx:
        failed.append(units.counted(cell.non_2xx, "response") + " with another status than 2xx")
    return failed


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
