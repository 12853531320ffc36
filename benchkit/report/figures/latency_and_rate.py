"""Figures of latency against the target rate, and against the throughput."""

from __future__ import annotations

from functools import partial
from statistics import median

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cell_labels import CellView, level_name, panels_of
from benchkit.comparison.notes import latency_note
from benchkit.comparison.rate_curves import CURVES, RateCurves, RatePoint, rate_curves_of, rate_factor
from benchkit.errors import InputError
from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import P99, PERCENTILES
from benchkit.report.figure import ReportFigure, limits_by_hue, more_in_table
from benchkit.report.layout import line_legend, sample_evenly
from benchkit.report.metric_values import known, numbers
from benchkit.report.panels import (
    HOLLOW,
    Panel,
    Scale,
    draw_averages,
    draw_panels,
    draw_points,
    draw_reference,
    notes,
    shade,
)
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.tables import Entry, Table, named, number, table

_MAX_NAMED = 8
_RATE_HUES = {metric: hue for hue, metric in enumerate(CURVES)}


def _has_rate_curves(run: StoredRun) -> bool:
    return any(any(curves.points.values()) for curves in _rate_curves(run))


def _against_rate_alt(run: StoredRun) -> str:
    ends = []
    for curves in _rate_curves(run):
        points = curves.points[P99]
        if points:
            ends.append(
                f"{_curves_name(curves)} {units.seconds(points[0].value)} at {units.requests_per_s(points[0].rate)}, "
                f"{units.seconds(points[-1].value)} at {units.requests_per_s(points[-1].rate)}"
            )
    return f"Line charts of p50, p99 and p99.9 latency against the target rate; p99: {'; '.join(ends)}."


def _against_rate_caption(run: StoredRun) -> str:
    found = _rate_curves(run)
    parts = [
        f"Lines join the geometric means over the blocks of a cell; shaded: their {1 - run.data.alpha:.0%} interval.",
        "Each point is one trial.",
    ]
    if any(curves.capacity for curves in found):
        parts.append(
            "The grey column is the interval of the capacity under the objective, found before the first block. At rates "
            "above it a queue may grow until the window ends, so that latencies depend on the length of the window."
        )
    if any(limits_by_hue(curves.objective, _RATE_HUES) for curves in found):
        parts.append("Dashed: limits of the objective, each in the colour of its percentile.")
    return " ".join(parts) + more_in_table(len(found) - len(sample_evenly(found)), "panel")


@style()
def _draw_against_rate(run: StoredRun) -> Figure:
    def draw_curves(axes: Axes, curves: RateCurves) -> None:
        if curves.capacity is not None:
            shade(axes, curves.capacity.low, curves.capacity.high or curves.capacity.rps)
        for hue, limit_s in limits_by_hue(curves.objective, _RATE_HUES).items():
            draw_reference(axes, limit_s, hue=hue)
        averages = [
            (point.rate, point.value, point.low, point.high, _RATE_HUES[metric])
            for metric, points in curves.points.items()
            for point in points
        ]
        draw_averages(axes, pd.DataFrame(averages, columns=["x", "y", "low", "high", "hue"]))
        draw_points(axes, _rate_points(run, curves))

    declaration = AGAINST_RATE.declaration(
        run,
        notes(
            "line: mean over blocks",
            "point: one trial",
            HOLLOW if any(run.values(metric).has_exclusions for metric in CURVES) else None,
        ),
        legend=line_legend({hue: PERCENTILES[metric].label for metric, hue in _RATE_HUES.items()}),
    )
    scale = Scale(units.seconds, "latency", kind="log")
    return draw_panels(
        declaration,
        [
            Panel(partial(draw_curves, curves=curves), scale, _curves_name(curves))
            for curves in sample_evenly(_rate_curves(run))
        ],
        Scale(units.rate, "requests per second, target", low=0, ticks=4),
    )


def _against_rate_table(run: StoredRun) -> Table:
    rows = [
        _rate_row(curves, metric, point)
        for curves in _rate_curves(run)
        for metric, points in curves.points.items()
        for point in points
    ]
    groups = {"From": "Interval", "To": "Interval"}
    return table("figure-latency-against-rate", "Latency against rate", rows, groups=groups)


AGAINST_RATE = ReportFigure(
    name="latency-against-rate",
    title="Latency against rate",
    is_available=_has_rate_curves,
    alt=_against_rate_alt,
    caption=_against_rate_caption,
    see="Where the line bends upwards, every request begins to wait for others.",
    draw=_draw_against_rate,
    data=None,
    table=_against_rate_table,
)


@cached_per_run
def _rate_curves(run: StoredRun) -> tuple[RateCurves, ...]:
    if rate_factor(run.manifest.scenario) is None:
        return ()
    try:
        return rate_curves_of(run.data)
    except InputError:  # the hosts supported one rate alone
        return ()


def _curves_name(curves: RateCurves) -> str:
    return ", ".join(level_name(name, level) for name, level in curves.levels.items()) or "all trials"


def _rate_points(run: StoredRun, curves: RateCurves) -> pd.DataFrame:
    rates = dict(zip(run.measured["trial_id"], numbers(run.measured["rate_requested"]), strict=True))
    cells = {cell_id for _, cell_id in curves.cells}
    parts = []
    for metric, hue in _RATE_HUES.items():
        trials = run.values(metric).trials
        trials = trials[trials["cell_id"].isin(cells)]
        trials = trials.assign(x=numbers(trials["trial_id"].map(rates)), y=trials["value"], hue=hue)
        trials = trials[(trials["x"] > 0) & (trials["y"] > 0)]
        label = PERCENTILES[metric].label
        texts = [
            f"block {block}: {label} {units.seconds(latency)} at {units.requests_per_s(rate)}"
            for block, latency, rate in zip(trials["block"], trials["y"], trials["x"], strict=True)
        ]
        parts.append(trials.assign(text=texts))
    return pd.concat(parts)


def _rate_row(curves: RateCurves, metric: str, point: RatePoint) -> dict[str, Entry]:
    return {
        "Cells": named(_curves_name(curves)),
        "Percentile": Entry(PERCENTILES[metric].label),
        "Level": number(point.level, "{:g}".format),
        "Target rate": number(point.rate, units.rate),
        "Latency": number(point.value, units.seconds),
        "From": number(point.low, units.seconds),
        "To": number(point.high, units.seconds),
        "Blocks": number(point.blocks, units.count),
    }


def _has_throughput(run: StoredRun) -> bool:
    return not _throughput_points(run).empty


def _throughput_alt(run: StoredRun) -> str:
    points, medians = _throughput_points(run), []
    for view in _cells_with_both(run)[:_MAX_NAMED]:
        included = points[(points["cell_id"] == view.cell_id) & points["exclusion"].isna()]
        if included.empty:
            medians.append(f"{view.label} without an included trial")
            continue
        rps, latency_s = median(included["x"]), median(included["y"])
        medians.append(f"{view.label} {units.rate(rps)} requests/s at {units.seconds(latency_s)}")
    return (
        f"Scatter chart of {_percentile(run).label} latency against requests per second; medians: {'; '.join(medians)}."
    )


def _throughput_caption(run: StoredRun) -> str:
    panels = panels_of(_cells_with_both(run))
    return (
        f"Each point is one trial: its rate and its {_percentile(run).label} latency ({latency_note(run.measured)}). Right "
        "and low is better; at a given number of connections a closed loop makes one depend on the other."
        + more_in_table(len(panels) - len(sample_evenly(panels)), "panel")
    )


@style()
def _draw_throughput(run: StoredRun) -> Figure:
    """Draw one panel, or one for each combination of the factors that colour does not show."""
    cells, percentile, points = _cells_with_both(run), _percentile(run), _throughput_points(run)
    views = {view.cell_id: view for view in cells}
    marks = points.assign(
        hue=[views[cell_id].hue for cell_id in points["cell_id"]],
        panel=[views[cell_id].panel for cell_id in points["cell_id"]],
        text=[
            f"{views[cell_id].label}, block {block}: {units.requests_per_s(rps)}, {percentile.label} {units.seconds(latency)}"
            for cell_id, block, rps, latency in zip(
                points["cell_id"], points["block"], points["x"], points["y"], strict=True
            )
        ],
    )

    def draw_panel(axes: Axes, panel: str) -> None:
        draw_points(axes, marks[marks["panel"] == panel], area=20)

    declaration = THROUGHPUT.declaration(
        run,
        notes("one point per trial", HOLLOW if points["exclusion"].notna().any() else None),
        latency_note(run.measured),
        legend=line_legend({view.hue: view.hue_label for view in cells}),
    )
    low, high = float(points["y"].min()) / 1.6, float(points["y"].max()) * 1.6
    scale = Scale(units.seconds, f"{percentile.label} latency", low, high, kind="log")
    return draw_panels(
        declaration,
        [Panel(partial(draw_panel, panel=panel), scale, panel) for panel in sample_evenly(panels_of(cells))],
        Scale(units.rate, "requests per second", 0, float(points["x"].max()) * 1.08, ticks=4),
    )


THROUGHPUT = ReportFigure(
    name="throughput",
    title="Latency against throughput",
    is_available=_has_throughput,
    alt=_throughput_alt,
    caption=_throughput_caption,
    see="The cells at the lower right are the best: more requests at a lower latency.",
    draw=_draw_throughput,
)


def _percentile(run: StoredRun) -> PercentileMetric:
    """Return p99 if any trial has it, else the highest that any has."""
    stored = [name for name in PERCENTILES if any(value > 0 for value in known(run.measured[name]))]
    return PERCENTILES[P99 if P99 in stored else (stored or list(PERCENTILES))[-1]]


@cached_per_run
def _throughput_points(run: StoredRun) -> pd.DataFrame:
    """Return the trials that have both values above 0: x is the rate, y the latency; excluded if either is."""
    rates, latencies = run.values("rps").trials, run.values(_percentile(run).name).trials
    both = rates.merge(latencies[["trial_id", "value", "exclusion"]], on="trial_id", suffixes=("", "_latency"))
    both = both[(both["value"] > 0) & (both["value_latency"] > 0)]
    exclusion = both["exclusion"].where(both["exclusion"].notna(), both["exclusion_latency"])
    return both.assign(x=both["value"], y=both["value_latency"], exclusion=exclusion)


def _cells_with_both(run: StoredRun) -> list[CellView]:
    return run.cells_in(set(_throughput_points(run)["cell_id"]))
