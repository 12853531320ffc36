"""Figures of latency: its percentiles, and its course over time."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cell_labels import CellView, panels_of
from benchkit.comparison.notes import latency_note
from benchkit.models.capacity import goal_of
from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import P50, P99, PERCENTILES
from benchkit.report.figure import ReportFigure, limits_by_hue, more_in_table
from benchkit.report.layout import line_legend, sample_evenly
from benchkit.report.metric_values import known, numbers
from benchkit.report.panels import (
    DOTTED,
    Panel,
    Scale,
    draw_lines,
    draw_panels,
    draw_points,
    draw_reference,
    notes,
    shade,
)
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.tables import Entry, Table, named, number, table

Reals = npt.NDArray[np.float64]

_MAX_NAMED = 8

LOWEST_NINES, STEP_NINES = 0.05, 0.05
"""Start of the curves (p10.9) and distance of their points, in nines: 1 is p90, 2 is p99."""
BEYOND = 10
"""Requests that must lie above a percentile for it to be drawn: fewer are anecdotes."""
_NARROWEST = 4.0
"""Factor that the axis of percentiles spans at least, so that equal cells look equal and a tick or two is in it."""

# Percentiles have the axis of HdrHistogram's plots. The distance from the left is the logarithm of 1 / (1 - p): each
# further nine takes the same room. One curve a trial, because percentiles of trials are never averaged.


def stored_percentiles(trials: pd.DataFrame) -> tuple[PercentileMetric, ...]:
    """Return the percentiles that at least one of the trials has."""
    return tuple(percentile for percentile in PERCENTILES.values() if numbers(trials[percentile.name]).notna().any())


def histogram_curves(buckets: pd.DataFrame, trials: Collection[str]) -> dict[str, tuple[Reals, Reals]]:
    """Return latency against the number of nines, for each of the trials that has a histogram: (nines, seconds).

    `buckets` are rows of `latency`, of which the raw series is used. A curve ends where `BEYOND` requests lie above;
    trials are never averaged.
    """
    raw = buckets[(buckets["series"] == "raw") & buckets["trial_id"].isin(list(trials))]
    curves: dict[str, tuple[Reals, Reals]] = {}
    for trial_id, rows in raw.sort_values("low_s", kind="stable").groupby("trial_id", sort=False):
        below = np.cumsum(rows["count"].to_numpy(dtype=np.float64))
        highest = np.log10(below[-1] / BEYOND)
        nines = np.arange(LOWEST_NINES, highest, STEP_NINES)
        if len(nines):
            at = np.searchsorted(below, below[-1] * (1 - 10**-nines) - 1e-9)
            curves[str(trial_id)] = nines, rows["high_s"].to_numpy(dtype=np.float64)[at]
    return curves


def _has_percentiles(run: StoredRun) -> bool:
    """Return True if any measured trial has a percentile above 0, which a logarithmic axis needs."""
    return any(_positive(run, percentile) for percentile in stored_percentiles(run.measured))


def _percentiles_alt(run: StoredRun) -> str:
    """Describe the range of the highest percentile with included trials, cell by cell; of many cells the first ones."""
    stored = stored_percentiles(run.measured)
    highest = ([percentile for percentile in stored if run.values(percentile.name).medians] or list(stored))[-1]
    ranges = []
    for view in _cells_with_percentiles(run)[:_MAX_NAMED]:
        values = run.values(highest.name).included(view.cell_id)
        if values:
            ranges.append(f"{view.label} {units.seconds(min(values))} to {units.seconds(max(values))}")
        else:
            ranges.append(f"{view.label} without an included trial")
    return (
        f"Line chart of latency percentiles, one curve per trial, {latency_note(run.measured)}. "
        f"{highest.label} over the included trials: {'; '.join(ranges)}."
    )


def _percentiles_caption(run: StoredRun) -> str:
    panels = panels_of(_cells_with_percentiles(run))
    return (
        f"Latency ({latency_note(run.measured)}), one curve per trial: percentiles of several trials cannot be averaged. "
        "Lines follow the histograms if the tool has them, up to the percentile above which ten requests lie. Marks are the "
        "stored percentiles, as in the table. On the axis, each further nine takes the same room."
        + (
            " Hollow marks and dotted curves are excluded: a verdict invalidates them, or requests were too few."
            if _excludes_percentiles(run)
            else ""
        )
        + (" Times below the tool's resolution are unknown and not drawn." if _has_gaps(run) else "")
        + more_in_table(len(panels) - len(sample_evenly(panels)), "panel")
    )


@style()
def _draw_percentiles(run: StoredRun) -> Figure:
    """Draw one panel, or one for each combination of the factors that colour does not show."""
    cells, percentiles = _cells_with_percentiles(run), stored_percentiles(run.measured)
    panels = sample_evenly(panels_of(cells))
    marks = _percentile_marks(run, [view for view in cells if view.panel in panels])
    curves = _percentile_curves(run, marks)
    drawn = np.concatenate([marks["y"], curves["y"][curves["y"] > 0], *(_positive(run, each) for each in percentiles)])
    low, high = float(drawn.min()) / 1.25, float(drawn.max()) * 1.25
    widen = max(1.0, math.sqrt(_NARROWEST / (high / low)))
    names = {_nines(percentile): percentile.label for percentile in percentiles}

    def draw_panel(axes: Axes, panel: str) -> None:
        draw_lines(axes, curves[curves["panel"] == panel])
        draw_points(axes, marks[marks["panel"] == panel])

    declaration = PERCENTILE_CURVES.declaration(
        run,
        notes("one curve per trial", f"hollow, {DOTTED}" if _excludes_percentiles(run) else None),
        latency_note(run.measured),
        legend=line_legend({view.hue: view.hue_label for view in cells}),
    )
    scale = Scale(units.seconds, "latency", low / widen, high * widen, kind="log")
    return draw_panels(
        declaration,
        [Panel(partial(draw_panel, panel=panel), scale, panel) for panel in panels],
        Scale(lambda nines: names.get(nines, ""), places=list(names)),
    )


PERCENTILE_CURVES = ReportFigure(
    name="latency",
    title="Latency percentiles by cell",
    is_available=_has_percentiles,
    alt=_percentiles_alt,
    caption=_percentiles_caption,
    see="A curve that stays low to the right has a short tail; curves of the same colour that spread are trials that disagree.",
    draw=_draw_percentiles,
)


def _cells_with_percentiles(run: StoredRun) -> list[CellView]:
    stored = stored_percentiles(run.measured)
    return run.cells_in({cell for percentile in stored for cell in run.values(percentile.name).by_cell})


def _has_gaps(run: StoredRun) -> bool:
    """Return True if a trial lacks a percentile below one that it has."""
    columns = [numbers(run.measured[p.name]).notna() for p in stored_percentiles(run.measured)]
    return any((higher & ~lower).any() for lower, higher in itertools.pairwise(columns))


def _excludes_percentiles(run: StoredRun) -> bool:
    return any(run.values(percentile.name).has_exclusions for percentile in stored_percentiles(run.measured))


def _positive(run: StoredRun, percentile: PercentileMetric) -> list[float]:
    return [value for value in known(run.measured[percentile.name]) if value > 0]


def _nines(percentile: PercentileMetric) -> float:
    """Return the number of nines: 1 for p90, 2 for p99; p50 has 0.3."""
    return -math.log10(1 - percentile.share)


def _percentile_marks(run: StoredRun, cells: Sequence[CellView]) -> pd.DataFrame:
    parts = []
    for view, percentile in itertools.product(cells, stored_percentiles(run.measured)):
        trials = run.values(percentile.name).by_cell.get(view.cell_id)
        if trials is not None:
            texts = [
                f"{view.label}, block {block}: {percentile.label} {units.seconds(value)}"
                for block, value in zip(trials["block"], trials["value"], strict=True)
            ]
            parts.append(
                trials.assign(x=_nines(percentile), y=trials["value"], hue=view.hue, panel=view.panel, text=texts)
            )
    marks = pd.concat(parts)
    return marks[marks["y"] > 0]


def _percentile_curves(run: StoredRun, marks: pd.DataFrame) -> pd.DataFrame:
    """Return the curve of each trial: its histogram, else a line through its marks; excluded if all its marks are."""
    histograms = histogram_curves(run.table("latency"), set(marks["trial_id"]))
    parts = []
    for trial_id, of_trial in marks.groupby("trial_id", sort=False):
        x, y = histograms.get(str(trial_id), (of_trial["x"], of_trial["y"]))
        first = of_trial.iloc[0]
        exclusion = first["exclusion"] if of_trial["exclusion"].notna().all() else None
        curve = pd.DataFrame({"x": np.asarray(x), "y": np.asarray(y)})
        parts.append(curve.assign(trial_id=trial_id, hue=first["hue"], panel=first["panel"], exclusion=exclusion))
    return pd.concat(parts)


MIN_SECONDS = 3
"""Smallest number of seconds of a trial that is drawn over time."""

_TIME_HUES = {P50: 0, P99: 1}


def _has_series(run: StoredRun) -> bool:
    return not _series(run).empty


def _over_time_alt(run: StoredRun) -> str:
    series = _series(run)
    worst = series.iloc[int(series[P99].astype(float).argmax())]
    return (
        f"Time series of p50 and p99 latency in each second of {units.counted(series['trial_id'].nunique(), 'trial')}. "
        f"The worst is {run.labels[str(worst['cell_id'])]} in second {int(worst['t_s'])} of block {int(worst['block'])}, with "
        f"a p99 of {units.seconds(float(worst[P99]))}."
    )


def _over_time_caption(run: StoredRun) -> str:
    cells = _cells_with_series(run)
    return (
        "Every line is a trial: the median and the 99th percentile of the requests that ended in each second, as the load "
        "tool saw them."
        + (" Grey: the seconds in which the target rate has its shape." if _shape(run) else "")
        + (" Dashed: limits of the objective." if _objective_limits(run) else "")
        + (" Dotted lines are of excluded trials." if run.values(P99).has_exclusions else "")
        + more_in_table(len(cells) - len(sample_evenly(cells)), "cell")
    )


@style()
def _draw_over_time(run: StoredRun) -> Figure:
    cells, series = sample_evenly(_cells_with_series(run)), _series(run)
    shown = series[series["cell_id"].isin(cells)]
    exclusion = shown["trial_id"].map(run.values(P99).exclusions)
    lines = pd.concat(
        shown.assign(x=shown["t_s"], y=numbers(shown[metric]), hue=hue, exclusion=exclusion)
        for metric, hue in _TIME_HUES.items()
    )

    def draw_cell(axes: Axes, cell_id: str) -> None:
        if (shape := _shape(run)) is not None:
            shade(axes, *shape)
        for hue, limit_s in _objective_limits(run).items():
            draw_reference(axes, limit_s, hue=hue)
        draw_lines(axes, lines[lines["cell_id"] == cell_id])

    declaration = OVER_TIME.declaration(
        run,
        notes("line: one trial", DOTTED if run.values(P99).has_exclusions else None),
        legend=line_legend({hue: PERCENTILES[metric].label for metric, hue in _TIME_HUES.items()}),
    )
    low, high = float(lines["y"].min()) / 1.3, float(lines["y"].max()) * 1.3
    scale = Scale(units.seconds, "latency", low, high, kind="log")
    return draw_panels(
        declaration,
        [Panel(partial(draw_cell, cell_id=cell_id), scale, run.labels[cell_id]) for cell_id in cells],
        Scale(units.count, "s from the first request", 0, float(lines["x"].max()), whole=True),
    )


def _over_time_table(run: StoredRun) -> Table:
    rows = []
    for (block, cell_id, _), seconds in _series(run).groupby(["block", "cell_id", "trial_id"], sort=True):
        p99 = numbers(seconds[P99])
        rows.append(
            {
                "Block": Entry(str(block), float(seconds["block"].iloc[0]), "number"),
                "Cell": named(run.labels[str(cell_id)]),
                "Seconds": number(len(seconds), units.count),
                "Median p99": number(p99.median(), units.seconds),
                "Worst p99": number(p99.max(), units.seconds),
                "Most in flight": number(numbers(seconds["in_flight"]).max(), units.count),
            }
        )
    return table("figure-latency-over-time", "Seconds of each trial", rows)


OVER_TIME = ReportFigure(
    name="latency-over-time",
    title="Latency over time",
    is_available=_has_series,
    alt=_over_time_alt,
    caption=_over_time_caption,
    see="A second far above the others is a stall; lines that rise to the end show a queue that grows.",
    draw=_draw_over_time,
    data=None,
    table=_over_time_table,
)


@cached_per_run
def _series(run: StoredRun) -> pd.DataFrame:
    """Return the seconds of measured trials that have latencies, with their cell and block, in order of time."""
    series = run.table("series").merge(run.measured[["trial_id", "cell_id", "block"]], on="trial_id")
    with_latencies = series[(pd.to_numeric(series[P50]) > 0) & (pd.to_numeric(series[P99]) > 0)]
    lengths = with_latencies.groupby("trial_id")["t_s"].transform("size")
    return with_latencies[lengths >= MIN_SECONDS].sort_values(["block", "trial_id", "t_s"], ignore_index=True)


def _cells_with_series(run: StoredRun) -> list[str]:
    return [view.cell_id for view in run.cells_in(set(_series(run)["cell_id"]))]


def _shape(run: StoredRun) -> tuple[int, int] | None:
    """Return start and end of the shape of the target rate that all cells have; None without one."""
    shape = run.manifest.scenario.get("load", {}).get("shape") or {}
    start_s, length_s = shape.get("start_s"), shape.get("length_s")
    return (start_s, start_s + length_s) if isinstance(start_s, int) and isinstance(length_s, int) else None


def _objective_limits(run: StoredRun) -> dict[int, float]:
    goal = goal_of(run.manifest.scenario)
    return limits_by_hue(None if goal is None else goal.slo, _TIME_HUES)
