"""Requests per second by cell: a bar at the median, and every trial as a point."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.style import colour, drawable, hover, marker, styled, width_in
from benchkit.report.summary import CellSummary, summarise
from benchkit.report.theme import INK, MUTED, SURFACE
from benchkit.report.view import RunView, numbers

TITLE = "Requests per second by cell"

_BAR = 0.64
_ROW_IN, _SMALLEST_ROW_IN, _TALL_IN, _AXIS_IN = 0.40, 0.15, 8.0, 0.50
_MOST_LABEL_IN = 2.6
_WRITTEN = 60
"""Up to so many rows the medians are written beside the bars."""
_NAMED = 8


@dataclass(frozen=True)
class _Row:
    """A line of the figure: a cell, or the heading of those that follow."""

    y: float
    text: str
    cell: CellSummary | None

    @property
    def weight(self) -> str:
        """Headings are bold."""
        return "bold" if self.cell is None else "normal"


def available(run: RunView) -> bool:
    """Whether any measured trial has a rate."""
    return bool(numbers(run.measured["rps"]).notna().any())


def alt(run: RunView) -> str:
    """The medians in words; of many cells the highest and the lowest."""
    known = [cell for cell in summarise(run).cells if cell.median_rps is not None]
    counting = [cell for cell in known if cell.believed] or known
    ranked = sorted(((cell.median_rps, cell.cell.label) for cell in counting), reverse=True)
    shown = ranked if len(ranked) <= _NAMED else [ranked[0], ranked[-1]]
    figures = "; ".join(f"{label} {units.rate(rps)}" for rps, label in shown)
    which = "" if shown is ranked else f" of {len(ranked)} cells, the highest and the lowest"
    return f"Bar chart of the median requests per second{which}: {figures}."


def caption(run: RunView) -> str:
    """What bar and points are."""
    trials = len(run.measured)
    return (
        f"Bars end at the median over the trials of a cell; each of the {units.counted(trials, 'point')} is one trial, "
        "in the order of the blocks from top to bottom. Where the points of two cells overlap, the "
        "figure of ratios tells whether they differ."
    )


@styled
def draw(run: RunView) -> Figure:
    """The figure, a row per cell; cells without a figure say why."""
    rows = list(_rows(summarise(run).cells))
    row_in = max(_SMALLEST_ROW_IN, min(_ROW_IN, _TALL_IN / len(rows)))
    size = 9.0 if row_in >= _ROW_IN / 2 else 6.0
    height_in = row_in * (len(rows) + 0.2)
    frame = framed(
        height_in=height_in + _AXIS_IN,
        title=TITLE,
        subtitle=[
            "bar: median of the trials \N{MIDDLE DOT} point: one trial"
            + (" \N{MIDDLE DOT} hollow: it does not count" if _void(run) else "")
        ],
        foot=provenance(run),
    )
    labels_in = min(_MOST_LABEL_IN, max(width_in(drawable(row.text), size, row.weight) for row in rows)) + 2 * EDGE_IN
    axes = frame.axes(labels_in, 0, WIDTH_IN - labels_in - 2 * EDGE_IN, height_in)
    _draw_medians(axes, rows)
    _draw_trials(axes, run, rows, size)
    for row in rows:
        if row.cell is not None and (len(rows) <= _WRITTEN or row.cell.median_rps is None):
            _write_result(axes, row.y, row.cell, size)
    _dress(axes, rows, float(numbers(run.measured["rps"]).max()) or 1.0, size)
    return frame.figure


FIGURE = ReportFigure(name="rps", title=TITLE, available=available, alt=alt, caption=caption, draw=draw)


def _rows(cells: tuple[CellSummary, ...]) -> Iterator[_Row]:
    """Cells under the heading of their panel, from the top."""
    y = 0.0
    for panel in dict.fromkeys(cell.cell.panel for cell in cells):
        if panel:
            yield _Row(y, panel, None)
            y += 1
        for cell in cells:
            if cell.cell.panel == panel:
                yield _Row(y, cell.cell.hue_label if panel else cell.cell.label, cell)
                y += 1


def _draw_medians(axes: Axes, rows: Sequence[_Row]) -> None:
    """Bars from zero to the median, its end marked; collections, because a run may have hundreds of cells."""
    drawn = [(row.y, row.cell, row.cell.median_rps) for row in rows if row.cell and row.cell.median_rps is not None]
    tones = [colour(cell.cell.hue) for _, cell, _ in drawn]
    half = _BAR / 2
    bars = PolyCollection(
        [[(0, y - half), (0, y + half), (rps, y + half), (rps, y - half)] for y, _, rps in drawn],
        facecolors=mpl.colors.to_rgba_array(tones, 0.28),
    )
    ends = LineCollection([[(rps, y - half), (rps, y + half)] for y, _, rps in drawn], colors=tones, linewidths=2)
    hover(bars, *(f"{cell.cell.label}: median {units.requests_per_s(rps)}" for _, cell, rps in drawn))
    axes.add_collection(bars)
    axes.add_collection(ends)


def _draw_trials(axes: Axes, run: RunView, rows: Sequence[_Row], size: float) -> None:
    """Each trial as a point, over the height of its bar; one collection for each marker, and one for those that are void."""
    void = _void(run)
    for hue in sorted({row.cell.cell.hue for row in rows if row.cell}):
        points: dict[bool, list[tuple[float, float, str]]] = {False: [], True: []}
        for row in rows:
            if row.cell is None or row.cell.cell.hue != hue:
                continue
            trials = run.of_cell(row.cell.cell.cell_id).dropna(subset=["rps"])
            places = zip(numbers(trials["rps"]), _spread(row.y, len(trials)), strict=True)
            for (rps, y), trial_id, block in zip(places, trials["trial_id"], trials["block"], strict=True):
                why = void.get(str(trial_id))
                said = f"{row.cell.cell.label}, block {block}: {units.requests_per_s(rps)}"
                points[why is not None].append((rps, y, said if why is None else f"{said} ({why})"))
        for hollow, drawn in points.items():
            if drawn:
                across, down, texts = zip(*drawn, strict=True)
                marks = axes.scatter(
                    across,
                    down,
                    s=2 * size,
                    marker=marker(hue),
                    color=SURFACE.light if hollow else colour(hue),
                    edgecolors=colour(hue) if hollow else SURFACE.light,
                    linewidths=(0.12 if hollow else 0.06) * size,
                    zorder=3,
                    clip_on=False,  # nothing reaches outside; a clip for each mark would triple the file
                )
                hover(marks, *texts)


def _void(run: RunView) -> dict[str, str]:
    """Why the rates of trials do not count, by trial."""
    return {each.trial_id: each.reason for each in run.data.exclusions if each.covers("rps")}


def _write_result(axes: Axes, y: float, cell: CellSummary, size: float) -> None:
    """The median beside what is drawn of the cell, or why nothing is; that of a cell whose trials are all void is marked."""
    if cell.median_rps is not None:
        text = units.rate(cell.median_rps) if cell.believed else f"{units.rate(cell.median_rps)}, void"
        place, tone = max(cell.rps), INK if cell.believed else MUTED
    else:
        why = "not supported on these hosts" if cell.cell.unsupported is not None else "no trial ended with a rate"
        place, text, tone = 0.0, why, MUTED
    offset = (7, 0) if cell.rps else (4, 0)
    axes.annotate(text, (place, y), xytext=offset, textcoords="offset points", va="center", size=size, color=tone.light)


def _spread(y: float, points: int) -> list[float]:
    """Places over the height of a bar, the first block on top."""
    if points == 1:
        return [y]
    return [y + _BAR * 0.76 * (i / (points - 1) - 0.5) for i in range(points)]


def _dress(axes: Axes, rows: list[_Row], highest: float, size: float) -> None:
    axes.set_xlim(0, highest * 1.14)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    for row in rows:  # ticks would do, at five times the cost: each is three artists
        axes.annotate(
            drawable(row.text),
            (0, row.y),
            xytext=(-72 * EDGE_IN, 0),
            textcoords="offset points",
            ha="right",
            va="center",
            size=size,
            color=INK.light,
            weight=row.weight,
        )
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, min_n_ticks=3))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: units.rate(value)))
    axes.set_xlabel("requests per second")
    axes.spines["bottom"].set_visible(False)
