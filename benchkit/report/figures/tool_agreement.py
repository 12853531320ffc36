"""What load tools say of the same cell: the trials of each, over the median of all tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.analysis.agreement import Agreement, ToolFigures, agreement_trials, title_and_format
from benchkit.report.clean_text import clean
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.row_layout import cut, head, lay, ratio_axis, room_for, row_height, text_size, write
from benchkit.report.stored_run import StoredRun, numbers
from benchkit.report.style import colour, drawable, hover, marker, styled
from benchkit.report.theme import INK, SURFACE

TITLE = "What each load tool says"

MOST_ROWS = 80
"""Beyond, the figures in which tools lie farthest apart are drawn; the tables have all."""

_AXIS_IN, _MOST_LABEL_IN, _WRITTEN_IN = 0.5, 1.8, 0.9
_NAMED = 6
_MEDIAN = 0.36
"""Half the height of the line at a tool's median, in rows."""


@dataclass(frozen=True)
class _Point:
    """A trial: its value over the median of all tools, what is said of it, and whether it counts."""

    ratio: float
    said: str
    counts: bool


@dataclass(frozen=True)
class _Row:
    """A line of the figure: a tool's trials and their median, or the heading of those that follow."""

    text: str
    hue: int = 0
    written: str = ""
    median: float | None = None
    points: tuple[_Point, ...] = ()


def available(run: StoredRun) -> bool:
    """Whether any cells differ in their tool alone."""
    return bool(run.agreements)


def alt(run: StoredRun) -> str:
    """What disagrees by how much, in words; of many figures those that are farthest apart."""
    ranked = sorted(run.agreements, key=lambda each: -each.between)[:_NAMED]
    said = "; ".join(
        f"{_name(each)} a factor of {units.ratio(each.between)} apart, {_verdict(each)}" for each in ranked
    )
    which = "" if len(run.agreements) <= _NAMED else f" Of {len(run.agreements)} figures the farthest apart are named."
    return f"Dot plot of every trial of each load tool over the median of all tools: {said}.{which}"


def caption(run: StoredRun) -> str:
    """What points and lines are, and what cannot be read from them."""
    more = len(run.agreements) - len(_drawn(run.agreements))
    return (
        "Each point is a trial over the median of the tools' medians, each line a tool's median; on the right that median. "
        "Whether tools disagree beyond noise is told within blocks, for all figures together (Holm); it does not tell "
        "which tool is right."
        + (
            " Hollow points are trials that do not count."
            if any(run.void(each.metric) for each in run.agreements)
            else ""
        )
        + (
            f" {units.counted(more, 'figure')} in which tools lie closest together are left out; the tables have all."
            if more
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: for each cell and metric a row for each tool."""
    rows = list(_rows(run))
    row_in = row_height(len(rows))
    size = text_size(row_in)
    height_in = row_in * (len(rows) + 0.2)
    frame = framed(
        height_in=height_in + _AXIS_IN,
        title=TITLE,
        subtitle=["point: one trial \N{MIDDLE DOT} line: median of the tool \N{MIDDLE DOT} 1: median over the tools"],
        foot=provenance(run),
    )
    texts = [drawable(row.text) for row in rows]
    widest = max(room_for(text, size) for text, row in zip(texts, rows, strict=True) if row.median is not None)
    labels_in = min(_MOST_LABEL_IN, widest) + 2 * EDGE_IN
    axes = frame.axes(labels_in, 0, WIDTH_IN - labels_in - _WRITTEN_IN - EDGE_IN, height_in)
    ratio_axis(axes, [point.ratio for row in rows for point in row.points])
    for y, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if row.median is None:
            head(axes, y, text, size)
            continue
        write(axes, y, cut(text, labels_in - EDGE_IN, size), size, left=True)
        write(axes, y, row.written, size, left=False)
        _draw_tool(axes, y, row, row.median, size)
    lay(axes, len(rows))
    axes.set_xlabel("over the median of the tools, logarithmic")
    return frame.figure


FIGURE = ReportFigure(
    name="tool-agreement", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="tool-agreement"
)


def _drawn(found: Sequence[Agreement]) -> list[Agreement]:
    """All of them, or as many of those farthest apart as there is room for, in the order in which they stand."""
    rows = 0
    chosen: list[Agreement] = []
    for each in sorted(found, key=lambda each: -each.between):
        rows += 1 + len(each.tools)
        if rows > MOST_ROWS and chosen:
            break
        chosen.append(each)
    return [each for each in found if each in chosen]


def _rows(run: StoredRun) -> Iterator[_Row]:
    names = {tool.tool for each in run.agreements for tool in each.tools}
    planned = dict.fromkeys(str(level) for cell in run.manifest.cells for level in cell.levels.values())
    hues = {name: hue for hue, name in enumerate(name for name in planned if name in names)}
    for each in _drawn(run.agreements):
        yield _Row(f"{_name(each)}: {_verdict(each)}")
        centre = median(tool.median for tool in each.tools)
        shown = title_and_format(each.metric)[1]
        for tool in sorted(each.tools, key=lambda tool: hues[tool.tool]):
            points = tuple(_points(run, each, tool, centre))
            yield _Row(clean(tool.tool), hues[tool.tool], shown(tool.median), tool.median / centre, points)


def _name(agreement: Agreement) -> str:
    """The metric, and the cell where there are several."""
    levels = ", ".join(f"{name} {level}" for name, level in agreement.levels.items())
    return clean(", ".join(filter(None, (title_and_format(agreement.metric)[0], levels))))


def _verdict(agreement: Agreement) -> str:
    if agreement.beyond_noise is None:
        return f"too few blocks to tell noise ({agreement.blocks})"
    chance = f"p = {agreement.p:.2g}"
    return f"beyond noise, {chance}" if agreement.beyond_noise else f"no disagreement beyond noise shown, {chance}"


def _points(run: StoredRun, agreement: Agreement, tool: ToolFigures, centre: float) -> Iterator[_Point]:
    trials = agreement_trials(agreement, run.measured)
    trials = trials[trials["tool"] == tool.tool]
    void, shown = run.void(agreement.metric), title_and_format(agreement.metric)[1]
    values = numbers(trials[agreement.metric])
    for trial_id, block, value in zip(trials["trial_id"], trials["block"], values, strict=True):
        why = void.get(str(trial_id))
        said = f"{tool.tool}, block {block}: {shown(value)}, {units.ratio(value / centre)} of the median over the tools"
        if value > 0:
            yield _Point(value / centre, said if why is None else f"{said} ({why})", why is None)


def _draw_tool(axes: Axes, y: float, row: _Row, middle: float, size: float) -> None:
    """The trials of a tool, those that do not count hollow, and its median."""
    tone = colour(row.hue)
    for counts in (True, False):
        points = [point for point in row.points if point.counts is counts]
        if points:
            marks = axes.scatter(
                [point.ratio for point in points],
                [y] * len(points),
                s=2.4 * size,
                marker=marker(row.hue),
                color=tone if counts else SURFACE.light,
                edgecolors=SURFACE.light if counts else tone,
                linewidths=0.4 if counts else 1.0,
                alpha=0.85,
                zorder=3,
                clip_on=False,
            )
            hover(marks, *(point.said for point in points))
    line = axes.plot([middle, middle], [y - _MEDIAN, y + _MEDIAN], color=INK.light, linewidth=1.6, zorder=4)
    hover(line[0], f"{row.text}: median {row.written}")
