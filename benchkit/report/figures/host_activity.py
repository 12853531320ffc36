"""Activity of hosts over time: CPU, requests by the server's own count, and the network, trial by trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.report.counter_rates import counter_sums, rates
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure, sample_evenly
from benchkit.report.metric_values import numbers
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import drawable, styled, tick
from benchkit.report.tables import Column, Entry, Table
from benchkit.report.trial_marks import DOTTED, draw_time_series, shade_window
from benchkit.safe_text import clean

TITLE = "Hosts before, during and after the measured window"

_CPU = "cpu_s_total"
"""CPU of services and generators; the total of a host in a lab would include all else that runs on the machine."""

_ROW_IN, _AXIS_IN = 1.25, 0.35


@dataclass(frozen=True)
class _Measure:
    """A column of the figure: a rate, what its lines are of, and the text of its values."""

    heading: str
    metrics: Sequence[str]
    by: str
    text: Callable[[float | None], str]


_MEASURES = (
    _Measure("CPUs busy, by service", (_CPU,), "service", lambda value: f"{value:g}"),
    _Measure("requests/s, by its own count", ("requests_total",), "service", units.rate),
    _Measure("sent, by host", ("net_sent_bytes_total",), "host", units.bytes_per_s),
)


def is_available(run: StoredRun) -> bool:
    """Return True if any host was watched."""
    return bool((run.telemetry["metric"] == _CPU).any())


def alt(run: StoredRun) -> str:
    """Describe the figure, with the highest CPU use of each service."""
    highest = _rates(_samples(run, _drawn(run)), _MEASURES[0]).groupby("name")["value"].max()
    services = "; ".join(f"{service} at most {value:.2f} CPUs" for service, value in highest.items())
    return (
        "Time series of CPU use, requests served and bytes sent before, during and after the measured window of each "
        f"trial: {services}."
    )


def caption(run: StoredRun) -> str:
    """Explain lines, shade and gaps."""
    return (
        "One line per trial; second 0 is the start of the measured window, which is shaded; the warm-up lies before it. A "
        "line is interrupted where a host sent no samples. Requests are the server's own count, probes and warm-up "
        "included."
        + (" Dotted lines are of excluded trials." if run.values("rps").has_exclusions else "")
        + more_in_table(len(_watched(run)) - len(_drawn(run)), "cell")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a row of panels for each cell."""
    cells = _drawn(run)
    samples = _samples(run, cells)
    columns = [_rates(samples, measure) for measure in _MEASURES]
    names = [str(name) for values in columns for name in sorted(values["name"].unique())]
    hues = {name: hue for hue, name in enumerate(dict.fromkeys(names))}
    figure = new_figure(
        _ROW_IN * len(cells) + _AXIS_IN,
        title=TITLE,
        subtitle=[
            " \N{MIDDLE DOT} ".join(measure.heading for measure in _MEASURES),
            "one line per trial" + (f" \N{MIDDLE DOT} {DOTTED}" if run.values("rps").has_exclusions else ""),
        ],
        source=provenance(run),
        legend=line_legend({hue: name for name, hue in hues.items()}),
    )
    panels = figure.subplots(len(cells), len(_MEASURES), sharex="col", sharey="col", squeeze=False)
    for column, (measure, values) in enumerate(zip(_MEASURES, columns, strict=True)):
        for row, view in enumerate(cells):
            _draw_trials(panels[row, column], run, view, values, hues)
        _set_axes(panels[0, column], values, measure)
    for row, view in enumerate(cells):
        panels[row, 0].set_title(drawable(view.label))
    for axes in panels[-1]:
        axes.set_xlabel("s from the start of the window")
    return figure


def table(run: StoredRun) -> Table:
    """Return the rates of each cell within the window: a row for each service, or host, and rate."""
    cells, rows = _drawn(run), []
    samples = _samples(run, cells)
    windows = dict(zip(run.measured["trial_id"], numbers(run.measured["duration_s"]), strict=True))
    for measure in _MEASURES:
        values = _rates(samples, measure)
        inside = values[(values["t_s"] > 0) & (values["t_s"] <= numbers(values["trial_id"].map(windows)))]
        means = inside.groupby(["name", "trial_id"])["value"].mean().dropna()
        for view in cells:
            trials = list(run.trials_of(view.cell_id)["trial_id"])
            for name in dict.fromkeys(means.index.get_level_values(0)):
                of_cell = means[name].reindex(trials).dropna()
                included = of_cell.drop(list(run.values("rps").exclusions), errors="ignore")
                if len(of_cell):
                    rows.append(_row(view, str(name), measure, of_cell, included))
    return Table(
        name="figure-host-activity",
        caption="Hosts within the measured window: the mean of each trial, over trials",
        columns=(
            Column("Cell", "name"),
            Column("Service or host"),
            Column("Figure"),
            Column("Median", "number"),
            Column("Lowest", "number"),
            Column("Highest", "number"),
            Column("Trials", "number"),
        ),
        rows=tuple(rows),
    )


FIGURE = ReportFigure(
    name="host-activity",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="Lines that stay level in the shaded window are a steady load; dips and steps there disturb a result.",
    draw=draw,
    data=None,
    table=table,
)


def _row(view: CellView, name: str, measure: _Measure, of_cell: pd.Series, included: pd.Series) -> tuple[Entry, ...]:
    """Return the row over the included trials, or over all trials, marked invalid, if none is included."""
    suffix = "" if len(included) else ", invalid"
    used = included if len(included) else of_cell
    values = (float(used.median()), float(used.min()), float(used.max()))
    return (
        Entry(view.label),
        Entry(clean(name)),
        Entry(measure.heading.partition(",")[0]),
        *(Entry(measure.text(round(value, 3)) + suffix, value) for value in values),
        Entry(units.count(len(used)), float(len(used))),
    )


def _rates(samples: pd.DataFrame, measure: _Measure) -> pd.DataFrame:
    """Return the rates of a measure by trial and name: the host, or the service with its host if it has several."""
    rows = samples[samples["metric"].isin(list(measure.metrics)) & samples[measure.by].notna()]
    names = rows[measure.by].astype(str)
    if measure.by == "service":
        is_single = rows.groupby("service")["host"].transform("nunique") == 1
        names = names.where(is_single, names + " on " + rows["host"].astype(str))
    by = ["trial_id", "name"]
    return rates(counter_sums(rows.assign(name=names), measure.metrics, by), by)


def _watched(run: StoredRun) -> list[CellView]:
    """Return the cells with measured trials."""
    measured = set(run.measured["cell_id"])
    return [view for view in run.cells if view.cell_id in measured]


def _drawn(run: StoredRun) -> list[CellView]:
    return sample_evenly(_watched(run))


def _samples(run: StoredRun, cells: Sequence[CellView]) -> pd.DataFrame:
    """Return the telemetry of the measured trials of these cells."""
    return pd.concat([run.telemetry_of(view.cell_id) for view in cells])


def _draw_trials(axes: Axes, run: StoredRun, view: CellView, values: pd.DataFrame, hues: dict[str, int]) -> None:
    """Draw the lines of a cell's trials; the columns of `values` are trial_id, name, t_s and value."""
    trials = run.trials_of(view.cell_id)
    shade_window(axes, numbers(trials["duration_s"]))
    of_cell = values[values["trial_id"].isin(list(trials["trial_id"]))]
    for name, rows in of_cell.groupby("name", sort=True):
        draw_time_series(axes, hues[str(name)], rows, run.values("rps").exclusions)


def _set_axes(axes: Axes, values: pd.DataFrame, measure: _Measure) -> None:
    """Set both scales, which the panels of a column share."""
    highest = float(np.nanmax(values["value"])) if values["value"].notna().any() else 1.0
    axes.set_ylim(0, highest * 1.1 or 1.0)
    if len(values):
        axes.set_xlim(float(values["t_s"].min()), float(values["t_s"].max()))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, min_n_ticks=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(measure.text(value))))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
