"""Requests per second by cell: a bar at the median, every trial as a point, and the interval of the cell."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from benchkit import units
from benchkit.analysis.inference import MIN_BLOCKS, t_quantile, t_statistics
from benchkit.analysis.samples import take_samples
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.row_layout import cut, head, room_for
from benchkit.report.stored_run import StoredRun, numbers, once
from benchkit.report.style import colour, drawable, hover, styled
from benchkit.report.summary import CellSummary, summarise
from benchkit.report.theme import INK, MUTED, SERIES
from benchkit.report.trial_marks import HOLLOW, Mark, any_void, draw_marks

TITLE = "Requests per second by cell"

_BAR = 0.64
_ROW_IN, _SMALLEST_ROW_IN, _TALL_IN, _AXIS_IN = 0.40, 0.15, 8.0, 0.50
_MOST_LABEL_IN = 2.6
_WRITTEN = 60
"""Up to so many rows the medians are written beside the bars."""
_NAMED = 8
_APART = 0.6
"""Rows between one heading and the next where cells have no names of their own."""
_MOST = 1.5
"""Times the highest rate: an interval that reaches beyond is cut, lest it dwarfs all bars."""
_LARGEST = 700.0
"""Where the exponential comes near the end of what a double holds."""


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


def available(run: StoredRun) -> bool:
    """Whether any measured trial has a rate."""
    return bool(numbers(run.measured["rps"]).notna().any())


def alt(run: StoredRun) -> str:
    """The medians in words; of many cells the highest and the lowest."""
    known = [cell for cell in summarise(run).cells if cell.median_rps is not None]
    counting = [cell for cell in known if cell.believed] or known
    ranked = sorted(((cell.median_rps, cell.cell.label) for cell in counting), reverse=True)
    shown = ranked if len(ranked) <= _NAMED else [ranked[0], ranked[-1]]
    figures = "; ".join(f"{label} {units.rate(rps)}" for rps, label in shown)
    which = "" if shown is ranked else f" of {len(ranked)} cells, the highest and the lowest"
    return f"Bar chart of the median requests per second{which}: {figures}."


def caption(run: StoredRun) -> str:
    """What bar, points and lines are."""
    trials = len(run.measured)
    if intervals(run):
        lines = (
            f" The line across a bar is the {1 - run.data.alpha:.0%} interval of the cell's rate (Student's t on its logarithms; "
            "a block is the sample)."
        )
    elif run.data.design == "sequential":
        lines = " There are no intervals: in a sequential design whatever drifted is mostly not in them."
    else:
        lines = f" There are no intervals: they need {MIN_BLOCKS} blocks that count."
    return (
        f"Bars end at the median over the trials of a cell that count; each of the {units.counted(trials, 'point')} is one "
        f"trial, in the order of the blocks from top to bottom.{lines} Blocks share what their hosts were like, so that "
        "two cells may differ though their intervals overlap: the figure of ratios tells."
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure, a row per cell; cells without a figure say why."""
    cells = summarise(run).cells
    keyed = _keyed(cells)
    rows = list(_rows(cells, keyed=bool(keyed)))
    lines = max(row.y for row in rows) + 1
    row_in = max(_SMALLEST_ROW_IN, min(_ROW_IN, _TALL_IN / lines))
    size = 9.0 if row_in >= _ROW_IN / 2 else 6.0
    height_in = row_in * (lines + 0.2)
    ranges = intervals(run)
    said = [
        "bar: median of the trials",
        "point: one trial",
        *([f"line: {1 - run.data.alpha:.0%} interval"] if ranges else []),
        *([HOLLOW] if any_void(run.measured, run.void("rps")) else []),
    ]
    frame = framed(
        height_in=height_in + _AXIS_IN,
        title=TITLE,
        subtitle=[" \N{MIDDLE DOT} ".join(said)],
        foot=provenance(run),
        legend=keyed,
    )
    beside = [row for row in rows if row.cell is not None or keyed]
    labels_in = min(_MOST_LABEL_IN, max(room_for(drawable(row.text), size, row.weight) for row in beside)) + 2 * EDGE_IN
    axes = frame.axes(labels_in, 0, WIDTH_IN - labels_in - 2 * EDGE_IN, height_in)
    _draw_medians(axes, rows)
    _draw_trials(axes, run, rows, size)
    _draw_intervals(axes, rows, ranges, run.data.alpha)
    for row in rows:
        if row.cell is not None and (len(rows) <= _WRITTEN or row.cell.median_rps is None):
            _write_result(axes, row.y, row.cell, size, beyond=ranges.get(row.cell.cell.cell_id, (0.0, 0.0))[1])
    highest = float(numbers(run.measured["rps"]).max()) or 1.0
    axes.set_xlim(0, 1.14 * min(max([highest, *(high for _, high in ranges.values())]), _MOST * highest))
    axes.set_ylim(lines - 0.4, -0.6)
    _dress(axes, rows, size, labels_in - EDGE_IN, over=not keyed)
    return frame.figure


FIGURE = ReportFigure(name="rps", title=TITLE, available=available, alt=alt, caption=caption, draw=draw)


@once
def intervals(run: StoredRun) -> dict[str, tuple[float, float]]:
    """The interval of the rate of each cell, over the blocks in which it counts; none of cells with too few of them.

    Student's t on the logarithms about their mean, as for ratios, at the level at which the run was to be judged. None
    in a sequential design, whose blocks are no samples of what the host was like.
    """
    if run.data.design == "sequential":
        return {}
    samples, found = take_samples(run.trials, "rps", run.data.exclusions), {}
    for view in run.cells:
        logs = samples.of(view.cell_id)
        logs = logs[~np.isnan(logs)]
        if len(logs) >= MIN_BLOCKS:
            (mean,), (error,) = t_statistics(logs[None, :])
            reach = t_quantile(1 - run.data.alpha, len(logs) - 1) * error
            found[view.cell_id] = math.exp(mean - reach), math.exp(min(mean + reach, _LARGEST))
    return found


def _keyed(cells: Sequence[CellSummary]) -> dict[int, str]:
    """What colours are called, where cells under one heading are told apart by them: of many, while they all differ.

    Else empty: every cell stands under its name.
    """
    hues = {cell.cell.hue: cell.cell.hue_label for cell in cells}
    many = len(cells) > _WRITTEN and any(cell.cell.panel for cell in cells)
    return hues if many and len(hues) <= len(SERIES) else {}


def _rows(cells: Sequence[CellSummary], *, keyed: bool) -> Iterator[_Row]:
    """Cells under the heading of their panel, from the top; `keyed`: beside it, without names of their own."""
    y = 0.0
    panels: dict[str, list[CellSummary]] = {}
    for cell in cells:
        panels.setdefault(cell.cell.panel, []).append(cell)
    for panel, members in panels.items():
        if keyed:
            yield _Row(y + (len(members) - 1) / 2, panel, None)
        elif panel:
            yield _Row(y, panel, None)
            y += 1
        for cell in members:
            name = cell.cell.hue_label if panel else cell.cell.label
            yield _Row(y, "" if keyed else name, cell)
            y += 1
        y += _APART if keyed else 0


def _draw_medians(axes: Axes, rows: Sequence[_Row]) -> None:
    """Bars from zero to the median, its end marked; collections, because a run may have hundreds of cells.

    Of a cell all of whose trials are void there is a shade alone: nothing ends there that counts.
    """
    drawn = [(row.y, row.cell, row.cell.median_rps) for row in rows if row.cell and row.cell.median_rps is not None]
    tones = [colour(cell.cell.hue) for _, cell, _ in drawn]
    half = _BAR / 2
    bars = PolyCollection(
        [[(0, y - half), (0, y + half), (rps, y + half), (rps, y - half)] for y, _, rps in drawn],
        facecolors=[
            mpl.colors.to_rgba(tone, 0.28 if cell.believed else 0.08)
            for tone, (_, cell, _) in zip(tones, drawn, strict=True)
        ],
    )
    believed = [(y, rps, tone) for tone, (y, cell, rps) in zip(tones, drawn, strict=True) if cell.believed]
    ends = LineCollection(
        [[(rps, y - half), (rps, y + half)] for y, rps, _ in believed],
        colors=[tone for _, _, tone in believed],
        linewidths=2,
    )
    hover(bars, *(f"{cell.cell.label}: median {units.requests_per_s(rps)}" for _, cell, rps in drawn))
    axes.add_collection(bars)
    axes.add_collection(ends)


def _draw_trials(axes: Axes, run: StoredRun, rows: Sequence[_Row], size: float) -> None:
    """Each trial as a point, over the height of its bar; one collection for each marker, and one for those that are void."""
    void, trials = run.void("rps"), run.figures("rps")
    marks: dict[int, list[Mark]] = {}
    for row in rows:
        if row.cell is None:
            continue
        own = trials.get(row.cell.cell.cell_id, [])
        for (trial_id, block, rps), y in zip(own, _spread(row.y, len(own)), strict=True):
            text = f"{row.cell.cell.label}, block {block}: {units.requests_per_s(rps)}"
            marks.setdefault(row.cell.cell.hue, []).append(Mark(rps, y, text, void.get(trial_id)))
    for hue in sorted(marks):
        draw_marks(axes, hue, marks[hue], area=2 * size, rim=0.06 * size)


def _draw_intervals(axes: Axes, rows: Sequence[_Row], ranges: Mapping[str, tuple[float, float]], level: float) -> None:
    """A line across each bar, from end to end of the interval of its cell."""
    drawn = [(row, *ranges[row.cell.cell.cell_id]) for row in rows if row.cell and row.cell.cell.cell_id in ranges]
    if not drawn:
        return
    lines = LineCollection(
        [[(low, row.y), (high, row.y)] for row, low, high in drawn], colors=INK.light, linewidths=1.4, zorder=4
    )
    hover(
        lines,
        *(
            f"{row.cell.cell.label}: {1 - level:.0%} interval {units.rate(low)} to {units.requests_per_s(high)}"
            for row, low, high in drawn
            if row.cell
        ),
    )
    axes.add_collection(lines)


def _write_result(axes: Axes, y: float, cell: CellSummary, size: float, beyond: float) -> None:
    """The median beside what is drawn of the cell, or why nothing is; that of a cell whose trials are all void is marked."""
    if cell.median_rps is not None:
        text = units.rate(cell.median_rps) if cell.believed else f"{units.rate(cell.median_rps)}, void"
        place, tone = max(*cell.rps, beyond), INK if cell.believed else MUTED
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


def _dress(axes: Axes, rows: Sequence[_Row], size: float, room_in: float, *, over: bool) -> None:
    """The texts of rows beside them, as far as there is room; headings that have a row of their own: `over` all of it."""
    axes.set_yticks([])
    for row in (row for row in rows if row.text):  # ticks would do, at five times the cost: each is three artists
        if over and row.cell is None:
            head(axes, row.y, drawable(row.text), size)
            continue
        axes.annotate(
            cut(drawable(row.text), room_in, size, row.weight),
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
