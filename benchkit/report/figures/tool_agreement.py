"""Results of several load tools for the same cell: the trials of each relative to the median of all tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.agreement import Agreement, ToolFigures, agreement_trials, title_and_format
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.layout import (
    label_rows,
    new_figure,
    ratio_axis,
    row_text_size,
    rows_height,
    write_beside,
    write_heading,
)
from benchkit.report.metric_values import numbers
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import hover, styled
from benchkit.report.theme import INK
from benchkit.report.trial_marks import Mark, draw_marks
from benchkit.safe_text import clean

TITLE = "Results of each load tool"

MAX_ROWS = 80
"""Rows that are drawn at most: the metrics in which tools differ most. The tables have all."""

_MAX_NAMED = 6
_MEDIAN = 0.36
"""Half the height of the line at a tool's median, in rows."""


@dataclass(frozen=True)
class _ToolRow:
    """Trials of a tool and their median, relative to the median of all tools."""

    tool: str
    hue: int
    median_text: str
    median: float
    trials: tuple[tuple[float, str, str | None], ...]
    """Ratio, hover text and reason of exclusion (None if it is included) of each trial."""


_Row = _ToolRow | str
"""A tool, or the heading of those that follow."""


def is_available(run: StoredRun) -> bool:
    """Return True if any cells differ in their tool alone."""
    return bool(run.agreements)


def alt(run: StoredRun) -> str:
    """Describe the differences; of many metrics the largest."""
    ranked = sorted(run.agreements, key=lambda each: -each.between)[:_MAX_NAMED]
    differences = "; ".join(
        f"{_name(each)} differs by a factor of {units.ratio(each.between)}, {_conclusion(each)}" for each in ranked
    )
    which = "" if len(run.agreements) <= _MAX_NAMED else f" Of {len(run.agreements)} metrics the largest are named."
    return f"Dot plot of every trial of each load tool relative to the median of all tools: {differences}.{which}"


def caption(run: StoredRun) -> str:
    """Explain points and lines, and what they do not show."""
    more = len(run.agreements) - len(_drawn(run.agreements))
    has_exclusions = any(run.values(each.metric).exclusions for each in run.agreements)
    return (
        "Each point is a trial relative to the median of the tools' medians, each line a tool's median, written on the "
        "right. The test of disagreement beyond noise compares tools within blocks, for all metrics together (Holm); it "
        "does not show which tool is right."
        + (" Hollow points are excluded trials." if has_exclusions else "")
        + (
            f" {units.counted(more, 'metric')} with the smallest differences are not drawn; the tables have all."
            if more
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a row for each tool, for each cell and metric."""
    rows = list(_rows(run))
    figure = new_figure(
        rows_height(len(rows)),
        title=TITLE,
        subtitle=["point: one trial \N{MIDDLE DOT} line: median of the tool \N{MIDDLE DOT} 1: median of the tools"],
        source=provenance(run),
    )
    axes = figure.subplots()
    ratio_axis(axes, [ratio for row in rows if isinstance(row, _ToolRow) for ratio, _, _ in row.trials])
    label_rows(axes, {y: row.tool for y, row in enumerate(rows) if isinstance(row, _ToolRow)}, len(rows))
    for y, row in enumerate(rows):
        if isinstance(row, _ToolRow):
            write_beside(axes, y, row.median_text, len(rows))
            _draw_tool(axes, y, row, row_text_size(len(rows)))
        else:
            write_heading(axes, y, row, len(rows))
    axes.set_xlabel("relative to the median of the tools, logarithmic")
    return figure


FIGURE = ReportFigure(
    name="tool-agreement",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="Lines of the tools that lie apart are load tools that measure the same server differently.",
    draw=draw,
    data="tool-agreement",
)


def _drawn(agreements: Sequence[Agreement]) -> list[Agreement]:
    """Return the metrics that are drawn, in their order: all, or those with the largest differences."""
    rows = 0
    chosen: list[Agreement] = []
    for each in sorted(agreements, key=lambda each: -each.between):
        rows += 1 + len(each.tools)
        if rows > MAX_ROWS and chosen:
            break
        chosen.append(each)
    return [each for each in agreements if each in chosen]


def _rows(run: StoredRun) -> Iterator[_Row]:
    names = {tool.tool for each in run.agreements for tool in each.tools}
    planned = dict.fromkeys(str(level) for cell in run.manifest.cells for level in cell.levels.values())
    hues = {name: hue for hue, name in enumerate(name for name in planned if name in names)}
    for each in _drawn(run.agreements):
        yield f"{_name(each)}: {_conclusion(each)}"
        centre = median(tool.median for tool in each.tools)
        to_text = title_and_format(each.metric)[1]
        for tool in sorted(each.tools, key=lambda tool: hues[tool.tool]):
            trials = tuple(_trials(run, each, tool, centre))
            yield _ToolRow(clean(tool.tool), hues[tool.tool], to_text(tool.median), tool.median / centre, trials)


def _name(agreement: Agreement) -> str:
    """Return the metric, and the cell if there are several."""
    levels = ", ".join(f"{name} {level}" for name, level in agreement.levels.items())
    return clean(", ".join(filter(None, (title_and_format(agreement.metric)[0], levels))))


def _conclusion(agreement: Agreement) -> str:
    if agreement.beyond_noise is None:
        return f"too few blocks to estimate noise ({agreement.blocks})"
    p_value = f"p = {agreement.p:.2g}"
    return f"beyond noise, {p_value}" if agreement.beyond_noise else f"no disagreement beyond noise shown, {p_value}"


def _trials(
    run: StoredRun, agreement: Agreement, tool: ToolFigures, centre: float
) -> Iterator[tuple[float, str, str | None]]:
    trials = agreement_trials(agreement, run.measured)
    trials = trials[trials["tool"] == tool.tool]
    exclusions, to_text = run.values(agreement.metric).exclusions, title_and_format(agreement.metric)[1]
    values = numbers(trials[agreement.metric])
    for trial_id, block, value in zip(trials["trial_id"], trials["block"], values, strict=True):
        ratio = value / centre
        text = f"{tool.tool}, block {block}: {to_text(value)}, {units.ratio(ratio)} of the median of the tools"
        if value > 0:
            yield ratio, text, exclusions.get(str(trial_id))


def _draw_tool(axes: Axes, y: float, row: _ToolRow, size: float) -> None:
    """Draw the trials of a tool and its median."""
    marks = [Mark(ratio, y, text, exclusion) for ratio, text, exclusion in row.trials]
    draw_marks(axes, row.hue, marks, area=2.4 * size, rim=0.4)
    line = axes.plot([row.median, row.median], [y - _MEDIAN, y + _MEDIAN], color=INK.light, linewidth=1.6, zorder=4)
    hover(line[0], f"{row.tool}: median {row.median_text}")
