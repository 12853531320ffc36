"""Hosts around the measured window: CPU, the server's own count of requests, and the network, trial by trial."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.report.cell_labels import CellView
from benchkit.report.clean_text import clean
from benchkit.report.counter_rates import rates, series
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.panel_grid import some
from benchkit.report.stored_run import StoredRun, numbers, once
from benchkit.report.style import drawable, styled, tick
from benchkit.report.tables import Column, Entry, Table
from benchkit.report.theme import GRID
from benchkit.report.trial_marks import DOTTED, any_void, draw_lines

TITLE = "Hosts around the measured window"
MOST_CELLS = 12

_CPU = "cpu_s_total"
"""Of services and generators: what a whole host does is also what else runs on the machine of a lab."""

_KEYS = ("trial_id", "t_s", "value")

_ROW_IN, _HEADING_IN, _AXIS_IN, _LEFT_IN, _GAP_IN = 0.95, 0.26, 0.42, 0.62, 0.62


@dataclass(frozen=True)
class _Measure:
    """A column of the figure: a rate, by what its lines are told apart, and how its axis reads."""

    heading: str
    metrics: Sequence[str]
    by: str
    text: Callable[[float | None], str]


_MEASURES = (
    _Measure("CPUs busy, by service", (_CPU,), "service", lambda value: f"{value:g}"),
    _Measure("requests/s, by its own count", ("requests_total",), "service", units.rate),
    _Measure("sent, by host", ("net_sent_bytes_total",), "host", units.bytes_per_s),
)


def available(run: StoredRun) -> bool:
    """Whether any host was watched."""
    return bool((run.telemetry["metric"] == _CPU).any())


def alt(run: StoredRun) -> str:
    """What is drawn, in words, with the highest CPU use of each service."""
    by = ["trial_id", "service"]
    busy = rates(series(_samples(run, _shown(run)), [_CPU], by), by)
    most = busy.groupby("service")["value"].max()
    said = "; ".join(f"{service} at most {value:.2f} CPUs" for service, value in most.items())
    return f"Time series of CPU use, requests served and bytes sent around the measured window of each trial: {said}."


def caption(run: StoredRun) -> str:
    """What lines, shade and gaps mean."""
    more = len(_supported(run)) - len(_shown(run))
    return (
        "One line a trial; second 0 is the start of the measured window, the shaded part is measured, what lies before "
        "it is the warm-up. A line is broken where a host gave no samples. Requests are the server's own count, "
        "probes and warm-up included."
        + (" Dotted lines are of trials that do not count." if any_void(run.measured, run.void("rps")) else "")
        + (f" {units.counted(more, 'cell')} more are left out; the table has all." if more > 0 else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: a line of panels for each cell."""
    shown = _shown(run)
    samples = _samples(run, shown)
    columns = [_rates(samples, measure) for measure in _MEASURES]
    names = _names(columns)
    frame = framed(
        height_in=(_ROW_IN + _HEADING_IN) * len(shown) + _AXIS_IN,
        title=TITLE,
        subtitle=[
            " \N{MIDDLE DOT} ".join(measure.heading for measure in _MEASURES),
            "one line a trial" + (f" \N{MIDDLE DOT} {DOTTED}" if any_void(run.measured, run.void("rps")) else ""),
        ],
        foot=provenance(run),
        legend=dict(enumerate(names)),
    )
    width_in = (WIDTH_IN - 2 * EDGE_IN) / len(_MEASURES)
    for column, (measure, values) in enumerate(zip(_MEASURES, columns, strict=True)):
        first: Axes | None = None
        for line, view in enumerate(shown):
            down_in = (_ROW_IN + _HEADING_IN) * line + _HEADING_IN
            left_in = EDGE_IN + width_in * column + _LEFT_IN
            axes = frame.axes(left_in, down_in, width_in - _GAP_IN - EDGE_IN, _ROW_IN, like=first)
            _draw_trials(axes, run, view, values[[*_KEYS, measure.by]], names)
            if column == 0:
                axes.set_title(drawable(view.label))
            axes.tick_params(labelbottom=line == len(shown) - 1)
            if line == len(shown) - 1:
                axes.set_xlabel("s from the start of the window")
            first = first or axes
        if first is not None:
            _dress(first, values, measure)
    return frame.figure


@once
def table(run: StoredRun) -> Table:
    """What each cell came to within the window: a row for each service, or host, and rate."""
    shown, rows = _shown(run), []
    samples = _samples(run, shown)
    windows = dict(zip(run.measured["trial_id"], numbers(run.measured["duration_s"]), strict=True))
    for measure in _MEASURES:
        values = _rates(samples, measure)
        inside = values[(values["t_s"] > 0) & (values["t_s"] <= numbers(values["trial_id"].map(windows)))]
        means = inside.groupby([measure.by, "trial_id"])["value"].mean().dropna()
        for view in shown:
            trials = list(run.of_cell(view.cell_id)["trial_id"])
            for name in dict.fromkeys(means.index.get_level_values(0)):
                own = means[name].reindex(trials).dropna()
                counting = own[[trial_id not in run.void("rps") for trial_id in own.index]]
                if len(own):
                    rows.append(_row(view, str(name), measure, own, counting))
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
    name="host-activity", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data=None, table=table
)


def _row(view: CellView, name: str, measure: _Measure, own: pd.Series, counting: pd.Series) -> tuple[Entry, ...]:
    """Over the trials that count, and where none does over all of them, which is said."""
    void = "" if len(counting) else ", void"
    used = counting if len(counting) else own
    figures = (float(used.median()), float(used.min()), float(used.max()))
    return (
        Entry(view.label),
        Entry(clean(name)),
        Entry(measure.heading.partition(",")[0]),
        *(Entry(measure.text(round(value, 3)) + void, value) for value in figures),
        Entry(units.count(len(used)), float(len(used))),
    )


def _rates(samples: pd.DataFrame, measure: _Measure) -> pd.DataFrame:
    """The rates of a measure, a line for each trial and service or host."""
    by = ["trial_id", measure.by]
    return rates(series(samples[samples[measure.by].notna()], measure.metrics, by), by)


def _supported(run: StoredRun) -> list[CellView]:
    there = set(run.measured["cell_id"])
    return [view for view in run.cells if view.cell_id in there]


def _shown(run: StoredRun) -> list[CellView]:
    return some(_supported(run), MOST_CELLS)


def _samples(run: StoredRun, shown: Sequence[CellView]) -> pd.DataFrame:
    """The telemetry of the measured trials of these cells."""
    return pd.concat([run.telemetry_of(view.cell_id) for view in shown])


def _names(columns: Sequence[pd.DataFrame]) -> list[str]:
    """What lines are of, services and generators first."""
    found = [
        str(name)
        for measure, values in zip(_MEASURES, columns, strict=True)
        for name in sorted(values[measure.by].unique())
    ]
    return list(dict.fromkeys(found))


def _draw_trials(axes: Axes, run: StoredRun, view: CellView, values: pd.DataFrame, names: Sequence[str]) -> None:
    """The lines of a cell's trials; the column of `values` after `_KEYS` says what each is of."""
    trials, void, by = run.of_cell(view.cell_id), run.void("rps"), values.columns[-1]
    windows = numbers(trials["duration_s"]).dropna()
    if len(windows):
        axes.axvspan(0, float(windows.median()), color=GRID.light, alpha=0.55, linewidth=0, zorder=0)
    mine = values[values["trial_id"].isin(list(trials["trial_id"]))]
    for name, rows in mine.groupby(by, sort=True):
        hue = names.index(str(name))
        lines = {
            str(trial_id): np.column_stack([line["t_s"].to_numpy(dtype=float), line["value"].to_numpy(dtype=float)])
            for trial_id, line in rows.groupby("trial_id", sort=True)
        }
        draw_lines(axes, hue, list(lines.values()), [trial_id in void for trial_id in lines])


def _dress(axes: Axes, values: pd.DataFrame, measure: _Measure) -> None:
    """Both scales, for the panels of a column: they are shared."""
    highest = float(np.nanmax(values["value"])) if values["value"].notna().any() else 1.0
    axes.set_ylim(0, highest * 1.1 or 1.0)
    if len(values):
        axes.set_xlim(float(values["t_s"].min()), float(values["t_s"].max()))
    axes.yaxis.set_major_locator(MaxNLocator(nbins=3, min_n_ticks=2))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(measure.text(value))))
    axes.xaxis.set_major_locator(MaxNLocator(nbins=5, integer=True))
