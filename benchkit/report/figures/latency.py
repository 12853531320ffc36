"""The figure of latency: its percentiles by cell, one curve per trial.

The axis is that of HdrHistogram's plots: the distance from the left is the logarithm of 1 / (1 - p). So each nine takes
the same room. Percentiles of trials are never averaged.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.comparison.notes import latency_note
from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import PERCENTILES
from benchkit.report.chart import Chart, Panel, Scale, and_more, line_legend, notes, sample_evenly
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import DOTTED, lines, points
from benchkit.report.stored_run import StoredRun, numbers

Reals = npt.NDArray[np.float64]

LOWEST_NINES, STEP_NINES = 0.05, 0.05
"""Start of the curves (p10.9) and distance of their points, in nines: 1 is p90, 2 is p99."""
BEYOND = 10
"""Fewest requests above a percentile that is drawn."""
_NARROWEST = 4.0
"""Smallest ratio of the ends of the axis of latencies, so that equal cells look equal and the axis has ticks."""


def _chart(run: StoredRun) -> Chart | None:
    percentiles = [each for each in PERCENTILES.values() if numbers(run.measured[each.name]).notna().any()]
    cells = run.cells_in({cell for each in percentiles for cell in run.values(each.name).by_cell})
    panels = list(dict.fromkeys(view.panel for view in cells))
    drawn = sample_evenly(panels)
    marks = _marks(run, [view for view in cells if view.panel in drawn], percentiles)
    if marks.empty:
        return None
    curves = _curves(run, marks)
    heights = np.concatenate([marks["y"], curves["y"][curves["y"] > 0]])
    low, high = float(heights.min()) / 1.25, float(heights.max()) * 1.25
    widen = max(1.0, math.sqrt(_NARROWEST / (high / low)))
    scale = Scale(units.seconds, "latency", low / widen, high * widen, kind="log")
    names = {_nines(each): each.label for each in percentiles}
    return Chart(
        caption="A curve that stays low to the right has a short tail, and curves of one colour that spread are trials that "
        "disagree" + and_more(len(panels) - len(drawn), "panel") + ".",
        panels=[
            Panel([lines(curves[curves["panel"] == panel]), points(marks[marks["panel"] == panel])], scale, panel)
            for panel in drawn
        ],
        x=Scale(lambda nines: names.get(nines, ""), places=list(names)),
        subtitle=[
            notes("one curve per trial", f"hollow, {DOTTED}" if marks["exclusion"].notna().any() else None),
            latency_note(run.measured),
        ],
        legend=line_legend({view.hue: view.hue_label for view in cells}),
    )


LATENCY = ReportFigure("latency", "Latency percentiles by cell", _chart)


def histogram_curves(buckets: pd.DataFrame, trials: Collection[str]) -> dict[str, tuple[Reals, Reals]]:
    """Return latency over the number of nines, (nines, seconds), for each of the trials that has a histogram.

    `buckets` are rows of `latency`, of which the raw series is used. A curve ends where `BEYOND` requests lie above.
    """
    raw = buckets[(buckets["series"] == "raw") & buckets["trial_id"].isin(list(trials))]
    curves: dict[str, tuple[Reals, Reals]] = {}
    for trial_id, rows in raw.sort_values("low_s", kind="stable").groupby("trial_id", sort=False):
        below = np.cumsum(rows["count"].to_numpy(dtype=np.float64))
        nines = np.arange(LOWEST_NINES, np.log10(below[-1] / BEYOND), STEP_NINES)
        if len(nines):
            at = np.searchsorted(below, below[-1] * (1 - 10**-nines) - 1e-9)
            curves[str(trial_id)] = nines, rows["high_s"].to_numpy(dtype=np.float64)[at]
    return curves


def _nines(percentile: PercentileMetric) -> float:
    """Return the number of nines: 1 for p90, 2 for p99; p50 has 0.3."""
    return -math.log10(1 - percentile.share)


def _marks(run: StoredRun, cells: Sequence[CellView], percentiles: Sequence[PercentileMetric]) -> pd.DataFrame:
    """Return the stored percentiles of each trial that are above 0, which a logarithmic axis needs."""
    parts = []
    for view, percentile in itertools.product(cells, percentiles):
        trials = run.values(percentile.name).by_cell.get(view.cell_id)
        if trials is not None:
            parts.append(trials.assign(x=_nines(percentile), y=trials["value"], hue=view.hue, panel=view.panel))
    marks = pd.concat(parts) if parts else pd.DataFrame(columns=["y"])
    return marks[marks["y"] > 0]


def _curves(run: StoredRun, marks: pd.DataFrame) -> pd.DataFrame:
    """Return the curve of each trial: its histogram, else a line through its marks. It is excluded if all marks are."""
    histograms = histogram_curves(run.table("latency"), set(marks["trial_id"]))
    parts = []
    for trial_id, of_trial in marks.groupby("trial_id", sort=False):
        x, y = histograms.get(str(trial_id), (of_trial["x"], of_trial["y"]))
        first = of_trial.iloc[0]
        exclusion = first["exclusion"] if of_trial["exclusion"].notna().all() else None
        curve = pd.DataFrame({"x": np.asarray(x), "y": np.asarray(y)})
        parts.append(curve.assign(trial_id=trial_id, hue=first["hue"], panel=first["panel"], exclusion=exclusion))
    return pd.concat(parts)
