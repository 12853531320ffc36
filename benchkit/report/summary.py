"""What came out, cell by cell: medians and ranges over trials, and the ratio to the partner that comparisons take."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import pandas as pd

from benchkit import units
from benchkit.analysis.ratio import Ratio
from benchkit.report.cell_labels import CellView
from benchkit.report.clean_text import clean
from benchkit.report.stored_run import StoredRun, numbers, once

ERRORS = ("errors_connect", "errors_read", "errors_write", "errors_timeout")


@dataclass(frozen=True)
class CellSummary:
    """The measured trials of one cell; the trial is the sample.

    `rps` are the rates of the trials that count; where verdicts void all of them, those of all, and `believed` is false.
    `ratio` is that of the comparison: to the cell's own partner, over the blocks that have both; `None` where it has no
    partner, or no block has both.
    """

    cell: CellView
    trials: int
    rps: tuple[float, ...]
    void: tuple[str, ...]
    """Why trials do not count, a reason each."""
    ratio: Ratio | None
    errors: int | None
    non_2xx: int | None

    @property
    def believed(self) -> bool:
        """Whether the rates count: those of a cell all of whose trials are void are shown, and not ranked."""
        return len(self.void) < self.trials

    @property
    def median_rps(self) -> float | None:
        """The median of the trials' rates."""
        return median(self.rps) if self.rps else None


@dataclass(frozen=True)
class Summary:
    """All cells of a run, and what they are called."""

    cells: tuple[CellSummary, ...]

    @property
    def labels(self) -> Mapping[str, str]:
        """Their names, by their ids."""
        return {cell.cell.cell_id: cell.cell.label for cell in self.cells}


@once
def summarise(run: StoredRun) -> Summary:
    """The summary of a run, its cells in the order of the plan."""
    views = run.cells
    measured, void = run.measured, run.void("rps")
    trials: dict[str, list[_Figures]] = {view.cell_id: [] for view in views}
    columns = numbers(measured["rps"]), errors(measured), numbers(measured["non_2xx"])
    for cell_id, trial_id, rps, failed, other in zip(measured["cell_id"], measured["trial_id"], *columns, strict=True):
        trials[cell_id].append(_Figures(_known(rps), _known(failed), _known(other), void.get(str(trial_id))))
    ratios = _ratios(run)
    return Summary(tuple(_cell(view, trials[view.cell_id], ratios.get(view.cell_id)) for view in views))


def errors(trials: pd.DataFrame) -> pd.Series[float]:
    """Failed requests of each trial, over the kinds that its tool counts; NaN where it counts none."""
    kinds = pd.DataFrame({kind: numbers(trials[kind]) for kind in ERRORS})
    return kinds.sum(axis="columns", min_count=1)


def sentence(cell: CellSummary, labels: Mapping[str, str], blocks: int) -> tuple[str, str]:
    """What came out for a cell, as the figure that leads and what is to be said of it; `labels` name the cells."""
    if cell.cell.unsupported is not None:
        return "not measured", f"these hosts cannot carry it: {cell.cell.unsupported}"
    if cell.median_rps is None:
        return "no result", "no trial of it ended with a rate"
    said = [f"median of {units.counted(len(cell.rps), 'trial')}" + _range(cell.rps), *_void(cell)]
    if cell.ratio is not None:
        said.insert(0, _over(cell.ratio, labels[cell.ratio.baseline]))
    if cell.trials < blocks:
        said.append(f"{cell.trials} of {blocks} trials ended")
    said += _failures(cell)
    if cell.ratio is not None:
        said += map(clean, cell.ratio.remarks)
    return units.requests_per_s(cell.median_rps), "; ".join(said)


class _Figures(NamedTuple):
    """What the summary takes from a trial."""

    rps: float | None
    errors: float | None
    non_2xx: float | None
    void: str | None
    """Why its rate does not count; None: it does."""


def _ratios(run: StoredRun) -> dict[str, Ratio]:
    """The ratio of the rate of each cell that has one; controls are no cells of their own."""
    return {
        ratio.cell_id: ratio
        for comparison in run.comparisons
        if comparison.metrics == ("rps",)
        for ratio in comparison.ratios
        if ratio.ratio is not None and not ratio.control
    }


def _cell(view: CellView, trials: Sequence[_Figures], ratio: Ratio | None) -> CellSummary:
    return CellSummary(
        cell=view,
        trials=len(trials),
        rps=_rates([trial for trial in trials if trial.void is None]) or _rates(trials),
        void=tuple(trial.void for trial in trials if trial.void is not None),
        ratio=ratio,
        errors=_total(trial.errors for trial in trials),
        non_2xx=_total(trial.non_2xx for trial in trials),
    )


def _over(ratio: Ratio, partner: str) -> str:
    """The ratio with its interval, over the cell that it is taken to."""
    interval = ""
    if ratio.low is not None and ratio.high is not None:
        interval = f" [{units.ratio(ratio.low)}, {units.ratio(ratio.high)}]"
    said = f"{units.ratio(ratio.ratio or 0.0)}{interval} \N{MULTIPLICATION SIGN} {partner}"
    return said if interval else f"{said} (no interval)"


def _known(figure: float) -> float | None:
    return None if math.isnan(figure) else figure


def _rates(trials: Sequence[_Figures]) -> tuple[float, ...]:
    return tuple(trial.rps for trial in trials if trial.rps is not None)


def _total(counts: Iterable[float | None]) -> int | None:
    there = [count for count in counts if count is not None]
    return int(sum(there)) if there else None


def _range(rps: Sequence[float]) -> str:
    return f", {units.rate(min(rps))} to {units.rate(max(rps))}" if len(rps) > 1 else ""


def _void(cell: CellSummary) -> list[str]:
    """What verdicts leave out of the figure, or say of all of it."""
    if not cell.void:
        return []
    why = ", ".join(dict.fromkeys(cell.void))
    if not cell.believed:
        return [f"none of them counts ({why})"]
    return [f"{units.counted(len(cell.void), 'trial')} left out ({why})"]


def _failures(cell: CellSummary) -> list[str]:
    """Rates made of failed requests are no rates of answers: what failed stands beside them."""
    failed = []
    if cell.errors:
        failed.append(units.counted(cell.errors, "failed request"))
    if cell.non_2xx:
        failed.append(units.counted(cell.non_2xx, "answer") + " with another status than 2xx")
    return failed
