"""The figure of what dstat and expvarmon show: disk, network, paging, switches and memory of the server over time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.report.figure import ReportFigure, more_in_table
from benchkit.report.figures.telemetry import WINDOW_SECONDS, counter_sums, rates, scale_over
from benchkit.report.layout import line_legend
from benchkit.report.metric_values import numbers
from benchkit.report.panels import Panel, Scale, draw_averages, draw_panels, notes, shade_window
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.tables import Table, named, number, table

_MOST_CELLS = 4
_ROW_IN = 1.5
_MAX_NAMED = 4


@dataclass(frozen=True)
class _Picture:
    """A panel: the sum of metrics over the hosts of servers, as a rate or as it is, and the text of its values."""

    heading: str
    metrics: tuple[str, ...]
    text: Callable[[float], str]
    is_rate: bool = False


_PICTURES = (
    _Picture("disk", ("disk_read_bytes_total", "disk_written_bytes_total"), units.bytes_per_s, is_rate=True),
    _Picture("network", ("net_received_bytes_total", "net_sent_bytes_total"), units.bytes_per_s, is_rate=True),
    _Picture("paging", ("swap_read_bytes_total", "swap_written_bytes_total"), units.bytes_per_s, is_rate=True),
    _Picture("page faults/s from disk", ("major_page_faults_total",), units.rate, is_rate=True),
    _Picture("context switches/s", ("context_switches_total",), units.rate, is_rate=True),
    _Picture("memory used", ("memory_used_bytes",), units.size),
    _Picture("resident memory", ("rss_bytes",), units.size),
    _Picture("live heap", ("heap_bytes",), units.size),
    _Picture("allocated", ("allocated_bytes_total",), units.bytes_per_s, is_rate=True),
    _Picture("collections/s", ("gc_total",), units.rate, is_rate=True),
    _Picture("GC pauses, s/s", ("gc_pause_s_total",), units.rate, is_rate=True),
    _Picture("goroutines", ("goroutines",), units.count),
)


@cached_per_run
def _series(run: StoredRun) -> dict[str, pd.DataFrame]:
    """Return each picture that the run has samples of: columns cell_id, second, value, the mean over usable trials.

    Where no trial of a cell is usable, it is the mean over all of its trials.
    """
    server_hosts = _server_hosts(run)
    found: dict[str, pd.DataFrame] = {}
    for picture in _PICTURES if _cells(run) else ():
        of_cells = [_of_cell(run, picture, view.cell_id, server_hosts) for view in _cells(run)]
        series = pd.concat(of_cells)
        if len(series):
            found[picture.heading] = series
    return found


def _of_cell(run: StoredRun, picture: _Picture, cell_id: str, hosts: frozenset[str]) -> pd.DataFrame:
    samples = run.telemetry_of(cell_id)
    usable = ~samples["trial_id"].isin(list(run.values("rps").exclusions))
    samples = samples[usable] if usable.any() else samples
    is_generator = samples["service"].astype("string").str.startswith("generator").fillna(value=False)
    rows = samples[samples["host"].isin(list(hosts)) & ~is_generator]
    by = ["trial_id", "host", "service"]
    values = counter_sums(rows, picture.metrics, by)
    if picture.is_rate:
        values = rates(values, by)
    values = values.assign(second=values["t_s"].astype("float64").round())
    of_services = values.groupby(["trial_id", "second", "host", "service"], dropna=False)["value"].mean()
    of_trials = of_services.groupby(["trial_id", "second"]).sum(min_count=1)
    means = of_trials.groupby("second").mean().rename("value").reset_index()
    return means.assign(cell_id=cell_id)


@cached_per_run
def _server_hosts(run: StoredRun) -> frozenset[str]:
    services = run.telemetry[["host", "service"]].dropna().drop_duplicates().astype(str)
    return frozenset(services.loc[~services["service"].str.startswith("generator"), "host"])


@cached_per_run
def _cells(run: StoredRun) -> list[CellView]:
    """Return the drawn cells: they differ only in the baseline's factors, at the last level of all other factors.

    If only one cell has these levels, all cells are candidates. Of many, `_MOST_CELLS` are spread evenly.
    """
    levels = {cell.cell_id: cell.levels for cell in run.manifest.cells}
    baseline = run.manifest.scenario.get("baseline") or {}
    measured = run.measured_cells
    if not measured:
        return []
    last = {name: level for name, level in levels[measured[-1].cell_id].items() if name not in baseline}
    alike = [view for view in measured if last.items() <= levels[view.cell_id].items()]
    measured = alike if len(alike) > 1 else measured
    places = np.linspace(0, len(measured) - 1, min(_MOST_CELLS, len(measured)))
    return [measured[round(place)] for place in places]


def _alt(run: StoredRun) -> str:
    names = ", ".join(_series(run))
    highest = [
        f"{view.label}: {'; '.join(f'{name} at most {text}' for name, text in _highest(run, view))}"
        for view in _cells(run)[:_MAX_NAMED]
    ]
    return f"Time series of the hosts of servers: {names}. {'. '.join(highest)}."


def _highest(run: StoredRun, view: CellView) -> list[tuple[str, str]]:
    found = []
    for picture in _PICTURES:
        series = _series(run).get(picture.heading)
        if series is not None and len(of_cell := series.loc[series["cell_id"] == view.cell_id, "value"].dropna()):
            found.append((picture.heading, picture.text(float(of_cell.max()))))
    return found


def _caption(run: StoredRun) -> str:
    return (
        "The figures that dstat and expvarmon show of a server. A line is a cell: the mean over its usable trials in each "
        "second, over all hosts of its servers. Second 0 is the start of the measured window, which is shaded. Disk and "
        "network are both directions together. The runtime reports the heap and its collections."
        + more_in_table(len(run.measured_cells) - len(_cells(run)), "cell")
    )


@style()
def _draw(run: StoredRun) -> Figure:
    series, cells = _series(run), _cells(run)
    hues = {view.cell_id: hue for hue, view in enumerate(cells)}

    def draw_picture(axes: Axes, lines: pd.DataFrame) -> None:
        shade_window(axes, numbers(run.measured["duration_s"]))
        draw_averages(axes, lines.assign(x=lines["second"], y=lines["value"], hue=lines["cell_id"].map(hues)))

    declaration = AS_WATCHED.declaration(
        run,
        notes("hosts of servers", "one line per cell", "mean over usable trials"),
        legend=line_legend({hue: view.label for hue, view in enumerate(cells)}),
    )
    panels = [
        Panel(partial(draw_picture, lines=lines), scale_over(picture.text, lines["value"]), picture.heading)
        for picture in _PICTURES
        if (lines := series.get(picture.heading)) is not None
    ]
    return draw_panels(declaration, panels, Scale(units.count, WINDOW_SECONDS, whole=True), height_in=_ROW_IN)


def _table(run: StoredRun) -> Table:
    """Return the median and the highest second of each picture within the window, for the drawn cells."""
    rows = []
    for view in _cells(run):
        window = numbers(run.trials_of(view.cell_id)["duration_s"]).max()
        for picture in _PICTURES:
            series = _series(run).get(picture.heading)
            if series is None:
                continue
            inside = series[(series["cell_id"] == view.cell_id) & series["second"].between(1, window)]["value"].dropna()
            if len(inside):
                rows.append(
                    {
                        "Cell": named(view.label),
                        "Figure": named(picture.heading),
                        "Median": number(inside.median(), picture.text),
                        "Highest": number(inside.max(), picture.text),
                    }
                )
    return table("figure-as-watched", "Hosts of servers within the measured window, by second", rows)


AS_WATCHED = ReportFigure(
    name="as-watched",
    title="The server as dstat and expvarmon show it",
    is_available=lambda run: bool(_series(run)),
    alt=_alt,
    caption=_caption,
    see="Levels that move within the shaded window, such as a heap or paging, are states that have not settled.",
    draw=_draw,
    data=None,
    table=_table,
)
