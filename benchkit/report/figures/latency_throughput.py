"""Latency against throughput: every trial where both of its figures put it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

from benchkit import units
from benchkit.analysis.latency_notes import latency_note
from benchkit.models.columns import PercentileMetric
from benchkit.models.metrics import PERCENTILES
from benchkit.report.cell_labels import CellView
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.panel_grid import grid, left_out
from benchkit.report.stored_run import StoredRun, among, numbers
from benchkit.report.style import styled, tick
from benchkit.report.trial_marks import HOLLOW, Mark, any_void, draw_marks

TITLE = "Latency against throughput"

_NAMED = 8
_WANTED = "p99"


def available(run: StoredRun) -> bool:
    """Whether any measured trial has a rate and a percentile that can stand on a log axis."""
    return bool(_drawn(run, _percentile(run)).any())


def alt(run: StoredRun) -> str:
    """Where the cells lie, as medians, in words."""
    percentile = _percentile(run)
    void, said = _void(run, percentile), []
    for view in _shown(run)[:_NAMED]:
        trials = _with_both(run, view, percentile)
        trials = trials[~among(trials["trial_id"], void)]
        if trials.empty:
            said.append(f"{view.label} no trial that counts")
            continue
        rps, latency = numbers(trials["rps"]).median(), numbers(trials[percentile.name]).median()
        said.append(f"{view.label} {units.rate(rps)} requests/s at {units.seconds(latency)}")
    return f"Scatter chart of {percentile.label} latency against requests per second; medians: {'; '.join(said)}."


def caption(run: StoredRun) -> str:
    """How to read it."""
    more = left_out(_panels(_shown(run)))
    return (
        f"Each point is one trial: its rate and its {_percentile(run).label} latency ({latency_note(run.measured)}). Right and "
        "low is better; at a given number of connections a closed loop ties the two together."
        + (f" {units.counted(more, 'panel')} more are left out; the table has all." if more else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: one panel, or one for each combination of the factors that colour does not stand for."""
    shown, percentile = _shown(run), _percentile(run)
    void = _void(run, percentile)
    drawn = grid(
        _panels(shown),
        title=TITLE,
        subtitle=[
            "one point per trial" + (f" \N{MIDDLE DOT} {HOLLOW}" if any_void(run.measured, void) else ""),
            latency_note(run.measured),
        ],
        foot=provenance(run),
        legend={view.hue: view.hue_label for view in shown},
        x_label="requests per second",
        y_label=f"{percentile.label} latency",
    )
    for view in shown:
        if view.panel in drawn.panels:
            trials = _with_both(run, view, percentile)
            columns = trials["trial_id"], trials["block"], numbers(trials["rps"]), numbers(trials[percentile.name])
            marks = [
                Mark(
                    x,
                    y,
                    f"{view.label}, block {block}: {units.requests_per_s(x)}, {percentile.label} {units.seconds(y)}",
                    void.get(str(trial_id)),
                )
                for trial_id, block, x, y in zip(*columns, strict=True)
            ]
            draw_marks(drawn.panels[view.panel], view.hue, marks, area=20)
    measured = run.measured[_drawn(run, percentile)]
    latencies = numbers(measured[percentile.name])
    axes = drawn.first
    axes.set_xlim(0, float(numbers(measured["rps"]).max()) * 1.08)
    axes.set_yscale("log")
    axes.set_ylim(float(latencies.min()) / 1.6, float(latencies.max()) * 1.6)
    axes.yaxis.set_major_locator(LogLocator(subs=_subs(latencies.max() / latencies.min()), numticks=12))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(units.seconds(value))))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
    return drawn.figure


FIGURE = ReportFigure(name="throughput", title=TITLE, available=available, alt=alt, caption=caption, draw=draw)


def _subs(span: float) -> tuple[float, ...]:
    return (1.0, 2.0, 5.0) if math.log10(max(span, 1.0)) < 2 else (1.0,)  # noqa: PLR2004 - what fits


def _percentile(run: StoredRun) -> PercentileMetric:
    """p99 where any trial has it, else the highest that there is."""
    measured = run.measured
    there = [each for each in PERCENTILES.values() if _there(measured[each.name]).any()] or list(PERCENTILES.values())
    return next((each for each in there if each.name == _WANTED), there[-1])


def _there(column: pd.Series) -> pd.Series[bool]:
    """Where a column has a number above 0."""
    return numbers(column) > 0


def _drawn(run: StoredRun, percentile: PercentileMetric) -> pd.Series[bool]:
    """Which of the measured trials have both figures."""
    return _there(run.measured["rps"]) & _there(run.measured[percentile.name])


def _with_both(run: StoredRun, view: CellView, percentile: PercentileMetric) -> pd.DataFrame:
    """The trials of a cell that have both figures."""
    trials = run.of_cell(view.cell_id)
    return trials[_there(trials["rps"]) & _there(trials[percentile.name])]


def _void(run: StoredRun, percentile: PercentileMetric) -> Mapping[str, str]:
    """Why trials do not count in one of both figures."""
    return {**run.void(percentile.name), **run.void("rps")}


def _shown(run: StoredRun) -> list[CellView]:
    drawn = set(run.measured["cell_id"][_drawn(run, _percentile(run))])
    return [view for view in run.cells if view.cell_id in drawn]


def _panels(shown: list[CellView]) -> list[str]:
    return list(dict.fromkeys(view.panel for view in shown))
