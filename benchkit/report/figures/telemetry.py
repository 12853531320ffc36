"""Figures of telemetry: the activity of hosts over time, and accept queues against their limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cell_labels import CellView
from benchkit.report.figure import ReportFigure, more_in_table
from benchkit.report.layout import line_legend, sample_evenly, write_corner
from benchkit.report.metric_values import numbers
from benchkit.report.panels import DOTTED, Panel, Scale, draw_lines, draw_panels, draw_reference, notes, shade_window
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.tables import Entry, Table, named, number, table
from benchkit.safe_text import clean

_CPU = "cpu_s_total"
"""CPU of services and generators; the total of a host in a lab would include all else that runs on the machine."""
_ROW_IN = 1.25
WINDOW_SECONDS = "s from the start of the window"
"""Label of the axis of time."""


@dataclass(frozen=True)
class _Activity:
    """A column of the figure: the rate of a counter, by service or by host, and the text of its values."""

    heading: str
    counter: str
    by: str
    text: Callable[[float | None], str]


_ACTIVITIES = (
    _Activity("CPUs busy, by service", _CPU, "service", lambda value: f"{value:g}"),
    _Activity("requests/s, by its own count", "requests_total", "service", units.rate),
    _Activity("sent, by host", "net_sent_bytes_total", "host", units.bytes_per_s),
)


def _activity_alt(run: StoredRun) -> str:
    highest = _activity_rates(run, _ACTIVITIES[0]).groupby("name")["value"].max()
    services = "; ".join(f"{service} at most {value:.2f} CPUs" for service, value in highest.items())
    return (
        "Time series of CPU use, requests served and bytes sent before, during and after the measured window of each "
        f"trial: {services}."
    )


def _activity_caption(run: StoredRun) -> str:
    return (
        "One line per trial; second 0 is the start of the measured window, which is shaded; the warm-up lies before it. A "
        "line is interrupted where a host sent no samples. Requests are the server's own count, probes and warm-up "
        "included."
        + (" Dotted lines are of excluded trials." if run.values("rps").has_exclusions else "")
        + more_in_table(len(run.measured_cells) - len(sample_evenly(run.measured_cells)), "cell")
    )


@style()
def _draw_activity(run: StoredRun) -> Figure:
    """Draw a row of panels for each cell, with a column for each activity."""
    cells = sample_evenly(run.measured_cells)
    columns = [_activity_rates(run, activity) for activity in _ACTIVITIES]
    names = [str(name) for values in columns for name in sorted(values["name"].unique())]
    hues = {name: hue for hue, name in enumerate(dict.fromkeys(names))}

    def draw_cell(axes: Axes, view: CellView, values: pd.DataFrame) -> None:
        trials = run.trials_of(view.cell_id)
        shade_window(axes, numbers(trials["duration_s"]))
        of_cell = values[values["trial_id"].isin(list(trials["trial_id"]))]
        draw_lines(
            axes,
            of_cell.assign(
                x=of_cell["t_s"],
                y=of_cell["value"],
                hue=of_cell["name"].map(hues),
                exclusion=of_cell["trial_id"].map(run.values("rps").exclusions),
            ),
        )

    declaration = HOST_ACTIVITY.declaration(
        run,
        notes(*(activity.heading for activity in _ACTIVITIES)),
        notes("one line per trial", DOTTED if run.values("rps").has_exclusions else None),
        legend=line_legend({hue: name for name, hue in hues.items()}),
    )
    panels = [
        Panel(
            partial(draw_cell, view=view, values=values),
            scale_over(activity.text, values["value"]),
            view.label if activity is _ACTIVITIES[0] else "",
        )
        for view in cells
        for activity, values in zip(_ACTIVITIES, columns, strict=True)
    ]
    times = numbers(pd.concat(columns)["t_s"])
    first, last = _ends(times) if len(times) else (None, None)
    return draw_panels(
        declaration,
        panels,
        Scale(units.count, WINDOW_SECONDS, first, last, whole=True),
        columns=len(_ACTIVITIES),
        height_in=_ROW_IN,
    )


def scale_over(text: Callable[[float], str], values: pd.Series[float]) -> Scale:
    """Return the scale of a low panel, from 0 to all values of a series over time."""
    highest = float(np.nanmax(values)) if values.notna().any() else 1.0
    return Scale(text, low=0, high=1.1 * highest or 1.0, ticks=3)


def host_activity_table(run: StoredRun) -> Table:
    """Return the rates of each cell within the window: a row for each service, or host, and rate."""
    rows = []
    windows = dict(zip(run.measured["trial_id"], numbers(run.measured["duration_s"]), strict=True))
    for activity in _ACTIVITIES:
        values = _activity_rates(run, activity)
        inside = values[(values["t_s"] > 0) & (values["t_s"] <= numbers(values["trial_id"].map(windows)))]
        means = inside.groupby(["name", "trial_id"])["value"].mean().dropna()
        for view in sample_evenly(run.measured_cells):
            trials = list(run.trials_of(view.cell_id)["trial_id"])
            for name in dict.fromkeys(means.index.get_level_values(0)):
                of_cell = means[name].reindex(trials).dropna()
                included = of_cell.drop(list(run.values("rps").exclusions), errors="ignore")
                if len(of_cell):
                    rows.append(_activity_row(view, str(name), activity, of_cell, included))
    caption = "Hosts within the measured window: the mean of each trial, over trials"
    return table("figure-host-activity", caption, rows)


HOST_ACTIVITY = ReportFigure(
    name="host-activity",
    title="Hosts before, during and after the measured window",
    is_available=lambda run: bool((run.telemetry["metric"] == _CPU).any()),
    alt=_activity_alt,
    caption=_activity_caption,
    see="Lines that stay level in the shaded window are a steady load; dips and steps there disturb a result.",
    draw=_draw_activity,
    data=None,
    table=host_activity_table,
)


def _activity_row(
    view: CellView, name: str, activity: _Activity, of_cell: pd.Series, included: pd.Series
) -> dict[str, Entry]:
    """Return the row over the included trials, or over all trials, marked invalid, if none is included."""
    suffix = "" if len(included) else ", invalid"
    used = included if len(included) else of_cell

    def shown(value: float) -> str:
        return activity.text(round(value, 3))

    return {
        "Cell": named(view.label),
        "Service or host": Entry(clean(name)),
        "Figure": Entry(activity.heading.partition(",")[0]),
        "Median": number(used.median(), shown, suffix),
        "Lowest": number(used.min(), shown, suffix),
        "Highest": number(used.max(), shown, suffix),
        "Trials": number(len(used), units.count),
    }


def _activity_rates(run: StoredRun, activity: _Activity) -> pd.DataFrame:
    """Return the rates of an activity in the drawn cells: trial_id, name, t_s, value.

    The name is the host, or the service with its host if it has several.
    """
    samples = pd.concat([run.telemetry_of(view.cell_id) for view in sample_evenly(run.measured_cells)])
    rows = samples[(samples["metric"] == activity.counter) & samples[activity.by].notna()]
    names = rows[activity.by].astype(str)
    if activity.by == "service":
        is_single = rows.groupby("service")["host"].transform("nunique") == 1
        names = names.where(is_single, names + " on " + rows["host"].astype(str))
    by = ["trial_id", "name"]
    return rates(counter_sums(rows.assign(name=names), [activity.counter], by), by)


def _ends(values: pd.Series) -> tuple[float, float]:
    return float(values.min()), float(values.max())


_MAX_NAMED = 8
QUEUE, LIMIT = "accept_queue", "accept_queue_limit"
OVERFLOWS = "listen_overflows_total"
"""Connections that the kernel refused because an accept queue was full; it counts each of them as a drop as well."""


def _queues_available(run: StoredRun) -> bool:
    telemetry = run.telemetry
    waited = (telemetry["metric"] == QUEUE) & (telemetry["value"] > 0)
    return bool(waited.any()) or bool((overflows(run) > 0).any())


def _queues_alt(run: StoredRun) -> str:
    deepest = _deepest(run)[QUEUE]
    cells = [
        f"{view.label}: at most {units.count(float(deepest[view.cell_id]))} waiting, {_overflow_text(run, view)}"
        for view in _watched_cells(run)[:_MAX_NAMED]
    ]
    return f"Time series of the depth of accept queues: {'; '.join(cells)}."


def _queues_caption(run: StoredRun) -> str:
    cells = _watched_cells(run)
    return (
        "Connections that wait to be accepted, of the socket with the deepest queue, one line per trial; dashed: the limit of "
        "the queue. Overflows are connections that arrived when the queue was full (ListenOverflows over the measured "
        "window)."
        + (
            " Dotted lines are of excluded trials; the limits and overflows are of all trials."
            if run.values("rps").has_exclusions
            else ""
        )
        + more_in_table(len(cells) - len(sample_evenly(cells)), "cell")
    )


@style()
def _draw_queues(run: StoredRun) -> Figure:
    cells = sample_evenly(_watched_cells(run))
    times = run.telemetry["t_s"][run.telemetry["metric"] == QUEUE]
    limits = _deepest(run)[LIMIT]
    deepest = _deepest(run).loc[[view.cell_id for view in cells]]

    def draw_cell(axes: Axes, view: CellView) -> None:
        samples = run.telemetry_of(view.cell_id)
        shade_window(axes, numbers(run.trials_of(view.cell_id)["duration_s"]))
        depths = samples[samples["metric"] == QUEUE].groupby(["trial_id", "t_s"])["value"].max().reset_index()
        exclusion = depths["trial_id"].map(run.values("rps").exclusions)
        draw_lines(axes, depths.assign(x=depths["t_s"], y=depths["value"], hue=view.hue, exclusion=exclusion))
        if not np.isnan(limits[view.cell_id]):
            draw_reference(axes, float(limits[view.cell_id]))
        write_corner(axes, _overflow_text(run, view))

    declaration = ACCEPT_QUEUES.declaration(
        run,
        "depth of the deepest queue over time, one line per trial",
        notes("dashed: its limit", DOTTED if run.values("rps").has_exclusions else None),
    )
    highest = 1.6 * max(1.0, float(np.nanmax(deepest)))
    scale = Scale(units.count, "connections waiting", 0, highest, kind="symlog")
    return draw_panels(
        declaration,
        [Panel(partial(draw_cell, view=view), scale, view.label) for view in cells],
        Scale(units.count, WINDOW_SECONDS, *_ends(times), whole=True),
    )


def accept_queue_table(run: StoredRun) -> Table:
    """Return the deepest queue, its limit and the overflows of each cell."""
    counts, deepest, rows = overflows(run), _deepest(run), []
    watched, exclusions = set(run.telemetry["trial_id"].unique()), run.values("rps").exclusions
    for view in _watched_cells(run):
        trials = [str(trial_id) for trial_id in run.trials_of(view.cell_id)["trial_id"] if trial_id in watched]
        rows.append(
            {
                "Cell": named(view.label),
                "Deepest queue": number(deepest[QUEUE][view.cell_id], units.count),
                "Limit": number(deepest[LIMIT][view.cell_id], units.count),
                "Overflows": number(round(counts.get(view.cell_id, 0.0)), units.count),
                "Trials": number(len(trials), units.count),
                "Excluded trials": number(sum(trial_id in exclusions for trial_id in trials), units.count),
            }
        )
    return table("figure-accept-queue", "Accept queues, over all trials of a cell", rows)


ACCEPT_QUEUES = ReportFigure(
    name="accept-queue",
    title="Accept queues",
    is_available=_queues_available,
    alt=_queues_alt,
    caption=_queues_caption,
    see="A line that reaches the dashed limit is a server that accepts connections too slowly.",
    draw=_draw_queues,
    data=None,
    table=accept_queue_table,
)


@cached_per_run
def overflows(run: StoredRun) -> pd.Series[float]:
    """Return the overflows of each cell's measured trials over their measured windows, by cell_id."""
    measured = run.measured.set_index("trial_id")
    rows = run.telemetry[run.telemetry["metric"] == OVERFLOWS]
    if rows.empty:
        return pd.Series(dtype="float64")
    window = rows["trial_id"].map(numbers(measured["duration_s"]))
    inside = rows[(rows["t_s"] >= 0) & (rows["t_s"] <= window)]
    counters = inside.groupby(["trial_id", "host"])["value"].agg(["max", "min"])
    increases = (counters["max"] - counters["min"]).reset_index(name="increase")
    totals: pd.Series[float] = increases["increase"].groupby(increases["trial_id"].map(measured["cell_id"])).sum()
    return totals


@cached_per_run
def _watched_cells(run: StoredRun) -> list[CellView]:
    return run.cells_in(_deepest(run)[QUEUE].dropna().index)


@cached_per_run
def _deepest(run: StoredRun) -> pd.DataFrame:
    """Return the highest depth and limit of each cell, by cell_id; NaN if it has none."""
    rows = run.telemetry[run.telemetry["metric"].isin([QUEUE, LIMIT])]
    cells = rows["trial_id"].map(dict(zip(run.measured["trial_id"], run.measured["cell_id"], strict=True)))
    table = rows.assign(cell_id=cells).pivot_table(index="cell_id", columns="metric", values="value", aggfunc="max")
    return table.reindex(columns=[QUEUE, LIMIT])


def _overflow_text(run: StoredRun, view: CellView) -> str:
    return units.counted(round(overflows(run).get(view.cell_id, 0.0)), "overflow")


GAP = 3.0
"""Distance of two samples in usual intervals from which on there is a gap between them, across which no line is
drawn."""


def counter_sums(samples: pd.DataFrame, metrics: Sequence[str], by: Sequence[str]) -> pd.DataFrame:
    """Return the sum of metrics over their instances at each time: columns `by`, t_s, value.

    `samples` are rows of `telemetry`. If an instance (core, interface, process) has no sample at a time, the sum is
    unknown and its row is omitted.
    """
    keys = [*by, "t_s"]
    rows = samples[samples["metric"].isin(list(metrics))]
    if rows.empty:
        return pd.DataFrame(columns=[*keys, "value"])
    summed = rows.groupby(keys, dropna=False)["value"].agg(["sum", "count"]).reset_index()
    instances = summed.groupby(list(by), dropna=False)["count"].transform("max")
    return summed[summed["count"] == instances].rename(columns={"sum": "value"})[[*keys, "value"]]


def rates(counters: pd.DataFrame, by: Sequence[str]) -> pd.DataFrame:
    """Return the increase per second of a counter between two samples, at the later one: columns `by`, t_s, value.

    A gap gives a row without a value, which interrupts a line through the rows. So does a decrease, as after the
    restart of a process.
    """
    rows = counters.sort_values([*by, "t_s"], kind="stable")
    groups = rows.groupby(list(by), dropna=False, sort=False)
    elapsed_s, increase = groups["t_s"].diff(), groups["value"].diff()
    usual_s = elapsed_s.groupby([rows[key] for key in by], dropna=False).transform("median")
    is_known = (elapsed_s > 0) & (elapsed_s <= GAP * usual_s) & (increase >= 0)
    return rows.assign(value=(increase / elapsed_s).where(is_known, np.nan))[elapsed_s.notna()]
