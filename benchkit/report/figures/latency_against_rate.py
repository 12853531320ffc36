"""Latency against the target rate: three percentiles with bands over blocks, the objective, the capacity, the knee."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from benchkit import units
from benchkit.comparison.cell_labels import level_name
from benchkit.comparison.rate_curves import CURVES, RateCurves, RatePoint, rate_curves_of, rate_factor
from benchkit.errors import InputError
from benchkit.models.metrics import P99, PERCENTILES
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure, panel_grid, panel_height, sample_evenly
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import colour, dashes, styled
from benchkit.report.tables import Column, Entry, Table, number
from benchkit.report.theme import GRID, MUTED
from benchkit.report.trial_marks import HOLLOW, Mark, draw_marks
from benchkit.units import ABSENT

TITLE = "Latency against rate"
HUES = {metric: hue for hue, metric in enumerate(CURVES)}


def is_available(run: StoredRun) -> bool:
    """Return True if a factor sets the target rate, and any latency was measured."""
    return any(any(curves.points.values()) for curves in _curves(run))


def alt(run: StoredRun) -> str:
    """Describe the p99 at both ends of each curve, and its knee."""
    ends = []
    for curves in _curves(run):
        points = curves.points[P99]
        if points:
            knee = "" if curves.knee is None else f", knee at {units.requests_per_s(curves.knee)}"
            ends.append(
                f"{_name(curves)} {units.seconds(points[0].value)} at {units.requests_per_s(points[0].rate)}, "
                f"{units.seconds(points[-1].value)} at {units.requests_per_s(points[-1].rate)}{knee}"
            )
    return f"Line charts of p50, p99 and p99.9 latency against the target rate; p99: {'; '.join(ends)}."


def caption(run: StoredRun) -> str:
    """Explain lines, bands and marks."""
    found = _curves(run)
    parts = [
        f"Lines join the geometric means over the blocks of a cell; shaded: their {1 - run.data.alpha:.0%} interval.",
        "Each point is one trial.",
    ]
    if any(curves.capacity for curves in found):
        parts.append(
            "The grey column is the interval of the capacity under the objective, found before the first block; at rates "
            "above it a queue may grow for as long as the window is, so that latencies there are of this window alone."
        )
    if any(_limits(curves) for curves in found):
        parts.append("Dashed: limits of the objective, each in the colour of its percentile.")
    if any(curves.knee is not None for curves in found):
        parts.append("Dotted: the knee of the p99, the rate farthest below the line between its ends (Kneedle).")
    return " ".join(parts) + more_in_table(len(found) - len(sample_evenly(found)), "panel")


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for each combination of the other factors."""
    shown = {_name(curves): curves for curves in sample_evenly(_curves(run))}
    has_exclusions = any(run.values(metric).has_exclusions for metric in CURVES)
    figure = new_figure(
        panel_height(len(shown)),
        title=TITLE,
        subtitle=[
            "line: mean over blocks \N{MIDDLE DOT} point: one trial"
            + (f" \N{MIDDLE DOT} {HOLLOW}" if has_exclusions else "")
        ],
        source=provenance(run),
        legend=line_legend({HUES[metric]: PERCENTILES[metric].label for metric in CURVES}),
    )
    panels = panel_grid(figure, list(shown), x_label="requests per second, target", y_label="latency")
    for name, axes in panels.items():
        _draw_panel(axes, run, shown[name])
    axes = next(iter(panels.values()))
    axes.set_yscale("log")
    axes.set_xlim(left=0)
    axes.yaxis.set_major_locator(LogLocator(numticks=8))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: units.seconds(value)))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.xaxis.set_major_locator(MaxNLocator(nbins=4, min_n_ticks=2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
    return figure


def table(run: StoredRun) -> Table:
    """Return every point with its interval, and the knee of each curve."""
    rows = []
    for curves in _curves(run):
        for metric, points in curves.points.items():
            rows += [_row(curves, metric, point) for point in points]
    return Table(
        name="figure-latency-against-rate",
        caption="Latency against rate",
        columns=(
            Column("Cells", "name"),
            Column("Percentile"),
            Column("Level", "number"),
            Column("Target rate", "number"),
            Column("Latency", "number"),
            Column("From", "number", "Interval"),
            Column("To", "number", "Interval"),
            Column("Blocks", "number"),
            Column("Notes", "prose"),
        ),
        rows=tuple(rows),
    )


FIGURE = ReportFigure(
    name="latency-against-rate",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="Left of the knee a server answers a little more load nearly as fast; right of it every request waits for others.",
    draw=draw,
    data=None,
    table=table,
)


@cached_per_run
def _curves(run: StoredRun) -> tuple[RateCurves, ...]:
    if rate_factor(run.manifest.scenario) is None:
        return ()
    try:
        return rate_curves_of(run.data)
    except InputError:  # the hosts supported one rate alone
        return ()


def _name(curves: RateCurves) -> str:
    return ", ".join(level_name(name, level) for name, level in curves.levels.items()) or "all trials"


def _limits(curves: RateCurves) -> dict[str, float]:
    """Return the limits of the objective that are about drawn percentiles."""
    limits = {} if curves.objective is None else curves.objective.latencies
    return {metric: limit for metric, limit in limits.items() if metric in HUES}


def _draw_panel(axes: Axes, run: StoredRun, curves: RateCurves) -> None:
    if curves.capacity is not None:
        found = curves.capacity
        axes.axvspan(found.low, found.high or found.rps, color=GRID.light, linewidth=0, zorder=0)
    if curves.knee is not None:
        axes.axvline(curves.knee, color=MUTED.light, linestyle=":", linewidth=1.0, zorder=1)
    for metric, limit in _limits(curves).items():
        axes.axhline(limit, color=colour(HUES[metric]), linestyle="--", linewidth=0.8, zorder=1)
    for metric, points in curves.points.items():
        hue, rates = HUES[metric], [point.rate for point in points]
        if banded := [(point.rate, point.low, point.high) for point in points if point.low is not None]:
            x, low, high = zip(*banded, strict=True)
            axes.fill_between(x, low, high, color=colour(hue), alpha=0.16, linewidth=0)
        if points:
            axes.plot(rates, [point.value for point in points], color=colour(hue), linestyle=dashes(hue))
        draw_marks(axes, hue, _marks(run, curves, metric))


def _marks(run: StoredRun, curves: RateCurves, metric: str) -> list[Mark]:
    """Return a mark for each trial that has the percentile."""
    label, marks = PERCENTILES[metric].label, []
    rates = dict(zip(run.measured["trial_id"], run.measured["rate_requested"], strict=True))
    for _, cell_id in curves.cells:
        for each in run.values(metric).of_cell(cell_id):
            rate = rates[each.trial_id]
            if rate is not None and rate > 0 and each.value > 0:
                text = f"block {each.block}: {label} {units.seconds(each.value)} at {units.requests_per_s(float(rate))}"
                marks.append(Mark(float(rate), each.value, text, each.exclusion))
    return marks


def _row(curves: RateCurves, metric: str, point: RatePoint) -> tuple[Entry, ...]:
    is_knee = metric == P99 and point.rate == curves.knee
    bounds = (Entry(ABSENT) if end is None else number(end, units.seconds) for end in (point.low, point.high))
    return (
        Entry(_name(curves)),
        Entry(PERCENTILES[metric].label),
        number(point.level, lambda level: f"{level:g}"),
        number(point.rate, units.rate),
        number(point.value, units.seconds),
        *bounds,
        number(float(point.blocks), units.count),
        Entry("knee" if is_knee else ""),
    )
