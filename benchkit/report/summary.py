"""What came out, cell by cell, in figures that need no statistics: medians and ranges over trials."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import pandas as pd

from benchkit import units
from benchkit.report.cells import CellView, baseline, cell_views
from benchkit.report.view import RunView, numbers

ERRORS = ("errors_connect", "errors_read", "errors_write", "errors_timeout")


@dataclass(frozen=True)
class CellSummary:
    """The measured trials of one cell; the trial is the sample.

    `rps` are the rates of the trials that count; where verdicts void all of them, those of all, and `believed` is false.
    `ratio` is the median over that of the cell that ratios are taken to; `None` without such a figure, for a cell that is
    not believed, and for that cell itself.
    """

    cell: CellView
    trials: int
    rps: tuple[float, ...]
    void: tuple[str, ...]
    """Why trials do not count, a reason each."""
    ratio: float | None
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
    """All cells of a run, and the cell that ratios are taken to."""

    cells: tuple[CellSummary, ...]
    baseline: CellView


def summarise(run: RunView) -> Summary:
    """The summary of a run, its cells in the order of the plan."""
    views = cell_views(run.manifest)
    base = next(view for view in views if view.cell_id == baseline(run.manifest))
    measured = run.measured
    trials: dict[str, list[_Figures]] = {view.cell_id: [] for view in views}
    columns = numbers(measured["rps"]), errors(measured), numbers(measured["non_2xx"])
    void = {each.trial_id: each.reason for each in run.data.exclusions if each.covers("rps")}
    for cell_id, trial_id, rps, failed, other in zip(measured["cell_id"], measured["trial_id"], *columns, strict=True):
        trials[cell_id].append(_Figures(_known(rps), _known(failed), _known(other), void.get(str(trial_id))))
    counting = _rates([trial for trial in trials[base.cell_id] if trial.void is None])
    against = median(counting) if counting else None
    return Summary(tuple(_cell(view, trials[view.cell_id], base, against) for view in views), base)


def errors(trials: pd.DataFrame) -> pd.Series[float]:
    """Failed requests of each trial, over the kinds that its tool counts; NaN where it counts none."""
    kinds = pd.DataFrame({kind: numbers(trials[kind]) for kind in ERRORS})
    return kinds.sum(axis="columns", min_count=1)


def sentence(cell: CellSummary, base: CellView, blocks: int) -> tuple[str, str]:
    """What came out for a cell, as the figure that leads and what is to be said of it."""
    if cell.cell.unsupported is not None:
        return "not measured", f"these hosts cannot carry it: {cell.cell.unsupported}"
    if cell.median_rps is None:
        return "no result", "no trial of it ended with a rate"
    said = [f"median of {units.counted(len(cell.rps), 'trial')}" + _range(cell.rps), *_void(cell)]
    if cell.ratio is not None:
        said.insert(0, f"{units.ratio(cell.ratio)} \N{MULTIPLICATION SIGN} {base.label}")
    if cell.trials < blocks:
        said.append(f"{cell.trials} of {blocks} trials ended")
    said += _failures(cell)
    return units.requests_per_s(cell.median_rps), "; ".join(said)


class _Figures(NamedTuple):
    """What the summary takes from a trial."""

    rps: float | None
    errors: float | None
    non_2xx: float | None
    void: str | None
    """Why its rate does not count; None: it does."""


def _cell(view: CellView, trials: Sequence[_Figures], base: CellView, against: float | None) -> CellSummary:
    counting = _rates([trial for trial in trials if trial.void is None])
    is_base = view.cell_id == base.cell_id
    return CellSummary(
        cell=view,
        trials=len(trials),
        rps=counting or _rates(trials),
        void=tuple(trial.void for trial in trials if trial.void is not None),
        ratio=median(counting) / against if counting and against and not is_base else None,
        errors=_total(trial.errors for trial in trials),
        non_2xx=_total(trial.non_2xx for trial in trials),
    )


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
