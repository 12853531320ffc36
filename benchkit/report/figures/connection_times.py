"""Parts of the mean response time where it includes connecting (ab), and percentiles, beside the published ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, LogLocator, MultipleLocator, NullFormatter, NullLocator

from benchkit import units
from benchkit.models.base import level_texts
from benchkit.models.claims import published_of
from benchkit.report.figures.figure import ReportFigure, name_extremes, provenance
from benchkit.report.layout import label_rows, new_figure, rows_height, write_beside
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import hover, styled, tick
from benchkit.report.theme import INK, MUTED, SERIES, SURFACE, Tone
from benchkit.stats.cell_pairs import cells_with_levels

TITLE = "Mean response time by part, and percentiles"

_CONNECT, _PROCESSING, _FIRST_BYTE = "connect_mean_s", "processing_mean_s", "first_byte_mean_s"
_POINTS = ("latency_p50_s", "latency_p90_s", "latency_p99_s", "latency_max_s")
_PARTS: Mapping[str, Tone] = {"connecting": SERIES[1], "waiting": SERIES[0], "receiving": SERIES[4]}
"""Parts of a response time in their order, with their colours."""

_BAR = 0.66
_PUBLISHED_OPACITY = 0.45
_MAX_NAMED = 6


@dataclass(frozen=True)
class _Row:
    """Mean times of a cell by part, and its percentiles, in seconds: measured (medians over trials), or published."""

    name: str
    parts: Mapping[str, float]
    points: Sequence[float]
    is_published: bool

    @property
    def mean_s(self) -> float:
        """The mean response time."""
        return sum(self.parts.values())

    def shares(self) -> Iterator[tuple[str, float, float]]:
        """Yield each part with the shares of the mean at which it begins and ends."""
        low = 0.0
        for part in _PARTS:
            high = low + self.parts[part] / self.mean_s
            yield part, low, high
            low = high


def is_available(run: StoredRun) -> bool:
    """Return True if any measured trial divides its response time into connecting and the rest."""
    return bool(_rows(run))


def alt(run: StoredRun) -> str:
    """Describe the share of connecting in each row; of many rows the highest and the lowest."""
    ranked = sorted(((row.parts["connecting"] / row.mean_s, row) for row in _rows(run)), key=lambda each: -each[0])
    shown, which = name_extremes(ranked, _MAX_NAMED, "rows")
    connecting = "; ".join(f"{row.name} {units.share(share)} of {units.seconds(row.mean_s)}" for share, row in shown)
    return f"Stacked bars of the mean response time by part, with percentiles; connecting{which}: {connecting}."


def caption(run: StoredRun) -> str:
    """Explain parts, points and published rows."""
    has_published = any(row.is_published for row in _rows(run))
    return (
        "A bar is the mean response time of a cell, by part: opening the connection, waiting for the first byte of the "
        "response, receiving the rest; beside it the mean itself. Points are percentiles 50, 90 and 99 and the maximum. "
        "Both are medians over the included trials."
        + (" Pale bars and hollow points are what the study published." if has_published else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw two panels with a row for each cell, followed by one for its published figures."""
    rows = _rows(run)
    has_published = any(row.is_published for row in rows)
    figure = new_figure(
        rows_height(len(rows)),
        title=TITLE,
        subtitle=["points: p50, p90, p99, maximum" + (" \N{MIDDLE DOT} pale, hollow: published" * has_published)],
        source=provenance(run),
        legend=[(Patch(facecolor=tone.light), part) for part, tone in _PARTS.items()],
    )
    bars, points = figure.subplots(1, 2)
    label_rows(bars, {y: row.name for y, row in enumerate(rows)}, len(rows))
    points.set_ylim(bars.get_ylim())
    points.set_yticks([])
    _draw_parts(bars, rows)
    for y, row in enumerate(rows):
        write_beside(bars, y, units.seconds(row.mean_s), len(rows))
    bars.set_xlim(0, 1)
    bars.xaxis.set_major_locator(MultipleLocator(0.25))
    bars.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    bars.set_xlabel("share of the mean")
    _draw_points(points, rows)
    return figure


FIGURE = ReportFigure(
    name="connection-times",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="The first part of a bar is the kernel's time for opening connections, which no server can shorten.",
    draw=draw,
)


@cached_per_run
def _rows(run: StoredRun) -> list[_Row]:
    """Return the rows of the cells that have all parts, in the order of the plan, each before its published one."""
    medians = {name: run.values(name).medians for name in (_CONNECT, _PROCESSING, _FIRST_BYTE, *_POINTS)}
    records = {cell.cell_id: cell for cell in run.manifest.cells}
    rows = []
    for view in run.cells:
        measured = _row(view.label, {name: of[view.cell_id] for name, of in medians.items() if view.cell_id in of})
        if measured is None:
            continue
        rows.append(measured)
        for entry in published_of(run.manifest.scenario):
            published = _row("published", entry.figures, is_published=True)
            if published and cells_with_levels(level_texts(entry.cell), [records[view.cell_id]]):
                rows.append(published)
    return rows


def _row(name: str, values: Mapping[str, float], *, is_published: bool = False) -> _Row | None:
    """Return a row; None without all parts, or without any time."""
    if not {_CONNECT, _PROCESSING, _FIRST_BYTE} <= values.keys() or values[_CONNECT] + values[_PROCESSING] <= 0:
        return None
    waiting = min(values[_FIRST_BYTE], values[_PROCESSING])
    parts = {"connecting": values[_CONNECT], "waiting": waiting, "receiving": values[_PROCESSING] - waiting}
    return _Row(name, parts, [values[each] for each in _POINTS if values.get(each)], is_published)


def _draw_parts(axes: Axes, rows: Sequence[_Row]) -> None:
    """Draw a collection for each part: its pieces of all bars."""
    half = _BAR / 2
    for place, (part, tone) in enumerate(_PARTS.items()):
        pieces, colours, texts = [], [], []
        for y, row in enumerate(rows):
            _, low, high = list(row.shares())[place]
            pieces.append([(low, y - half), (low, y + half), (high, y + half), (high, y - half)])
            colours.append(mpl.colors.to_rgba(tone.light, _PUBLISHED_OPACITY if row.is_published else 1.0))
            texts.append(f"{row.name}: {part} {units.seconds(row.parts[part])}")
        drawn = PolyCollection(pieces, facecolors=colours, edgecolors=SURFACE.light, linewidths=0.6)
        hover(drawn, *texts)
        axes.add_collection(drawn)


def _draw_points(axes: Axes, rows: Sequence[_Row]) -> None:
    """Draw the percentiles of each row on a logarithmic scale, joined by a line."""
    for y, row in enumerate(rows):
        axes.plot(
            row.points,
            [y] * len(row.points),
            color=MUTED.light,
            linewidth=0.8,
            marker="o",
            markersize=4,
            markerfacecolor=SURFACE.light if row.is_published else INK.light,
            markeredgecolor=INK.light,
        )
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(numticks=5))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(units.seconds(value))))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("response time")
