"""Figures of ratios: cells relative to their baseline, with the claims about them, and load tools to each other."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.agreement import Agreement, ToolFigures, agreement_trials, title_and_format
from benchkit.comparison.ratios import Ratio
from benchkit.models.base import cell_id
from benchkit.models.metrics import metric_named
from benchkit.report.figure import ReportFigure, name_extremes
from benchkit.report.layout import row_text_size
from benchkit.report.metric_values import numbers
from benchkit.report.panels import (
    FigureRow,
    Panel,
    Scale,
    draw_bars,
    draw_intervals,
    draw_marks,
    draw_points,
    draw_reference,
    draw_rows,
    notes,
)
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import MarkStyle, style
from benchkit.report.summary import cell_names, ratio_with_interval
from benchkit.report.theme import INK
from benchkit.safe_text import clean
from benchkit.stats.cell_pairs import scenario_baseline

MAX_RATIOS = 40
"""Ratios that are drawn at most: those farthest from 1. The table has all."""
_MAX_NAMED = 6
_REACH = 4.0
"""Factor beyond the marks that the axis of ratios shows at most, so that a wide interval does not dwarf them."""
_PUBLISHED = MarkStyle("D", INK.light, hollow=True)


@dataclass(frozen=True)
class _RatioRow:
    """A row of the figure: a ratio, or a heading; `is_settled` if a difference is shown or a claim is decided.

    A claim also has the expected range (None: no limit on that side) and the published ratio.
    """

    text: str
    ratio: Ratio | None = None
    is_settled: bool = False
    hue: int | None = None
    expected: tuple[float | None, float | None] | None = None
    published: float | None = None


def _has_intervals(run: StoredRun) -> bool:
    return any(row.ratio is not None and row.ratio.low is not None for row in _ratio_rows(run))


def _ratios_alt(run: StoredRun) -> str:
    ratios = [
        (row.text, row.ratio) for row in _ratio_rows(run) if row.ratio is not None and row.ratio.ratio is not None
    ]
    ranked = sorted(ratios, key=lambda each: each[1].ratio or 0, reverse=True)
    shown, which = name_extremes(ranked, _MAX_NAMED)
    return (
        f"Forest plot of ratios with their intervals{which}: "
        f"{'; '.join(f'{text} {ratio_with_interval(ratio)}' for text, ratio in shown)}."
    )


def _ratios_caption(run: StoredRun) -> str:
    has_claims = any(row.expected for row in _ratio_rows(run))
    level = next(row.ratio.confidence for row in _ratio_rows(run) if row.ratio)
    count = len(_primary_ratios(run))
    return (
        f"A mark is the ratio over blocks, its line the {level:.0%} interval. A filled mark shows a difference or decides a "
        "claim; a hollow one does not. Controls are cells relative to themselves."
        + (" For a claim, the band is the expected range and the diamond the published ratio." if has_claims else "")
        + (
            f" The {MAX_RATIOS} ratios farthest from 1 are drawn; the table has all {count}."
            if count > MAX_RATIOS
            else ""
        )
    )


@style()
def _draw_ratios(run: StoredRun) -> Figure:
    ratio_rows = _ratio_rows(run)
    rows = [
        FigureRow(y, row.text, is_heading=True)
        if row.ratio is None
        else FigureRow(y, row.text, ratio_with_interval(row.ratio))
        for y, row in enumerate(ratio_rows)
    ]
    ratios, published = _ratio_marks(ratio_rows), _published_marks(ratio_rows)
    intervals = ratios.dropna(subset=["low", "high"])
    scale = _ratio_scale("ratio, logarithmic", [*ratios["x"], *published["x"]], [*intervals["low"], *intervals["high"]])
    size = row_text_size(len(rows))

    def draw(axes: Axes) -> None:
        draw_bars(axes, _expected_ranges(ratio_rows, scale), height=0.8)
        draw_reference(axes, 1, along="x", style="-")
        draw_intervals(axes, intervals)
        draw_points(axes, ratios, area=4.5 * size, rim=0.06 * size)
        draw_marks(axes, published, _PUBLISHED, area=3 * size)

    declaration = RATIOS.declaration(run, _relation(run))
    return draw_rows(declaration, rows, [Panel(draw, scale)])


RATIOS = ReportFigure(
    name="ratios",
    title="Ratios to the baseline, with their intervals",
    is_available=_has_intervals,
    alt=_ratios_alt,
    caption=_ratios_caption,
    see="A cell whose line does not touch 1 differs from the baseline: left of 1 its value is smaller, right of 1 larger.",
    draw=_draw_ratios,
    data="ratios",
)


def _primary_ratios(run: StoredRun) -> list[Ratio]:
    primary = (run.data.primary_metric,)
    return [ratio for comparison in run.comparisons if comparison.metrics == primary for ratio in comparison.ratios]


def _distance(ratio: Ratio) -> float:
    """Return the distance of a ratio from 1, on a logarithmic scale."""
    return abs(math.log(ratio.ratio or 1))


@cached_per_run
def _ratio_rows(run: StoredRun) -> list[_RatioRow]:
    """Return the ratios of the primary metric farthest from 1, then the ratios of each claim under its sentence."""
    names, hues = cell_names(run), {view.cell_id: view.hue for view in run.cells}
    ratios = _primary_ratios(run)
    least = min(map(_distance, sorted(ratios, key=_distance)[-MAX_RATIOS:]), default=0.0)
    rows = [
        _RatioRow(names[ratio.cell_id], ratio, ratio.outcome in {"higher", "lower"}, hues.get(ratio.cell_id))
        for ratio in ratios
        if _distance(ratio) >= least
    ]
    for claim in run.claims:
        if claim.ratios:
            metric = "" if claim.metric == run.data.primary_metric else f" ({metric_named(claim.metric).title})"
            rows.append(_RatioRow(f"Claim: {' '.join(claim.text.split())}{metric}"))
        for ratio in claim.ratios:
            which = f": {names[ratio.cell_id]}" if len(claim.ratios) > 1 else ""
            is_settled = claim.state in {"holds", "refuted"}
            rows.append(_RatioRow(claim.state + which, ratio, is_settled, None, claim.expected, claim.published))
    return rows


def _relation(run: StoredRun) -> str:
    names, title = cell_names(run), metric_named(run.data.primary_metric).title
    ratios = [row.ratio for row in _ratio_rows(run) if row.ratio and row.hue is not None]
    bases = list(dict.fromkeys(names[ratio.baseline] for ratio in ratios))
    if len(bases) == 1:
        return f"{title} relative to {bases[0]}"
    levels = scenario_baseline(run.manifest.scenario, run.manifest.cells)
    return f"{title} relative to the cell that differs in {cell_id(levels)} alone"


def _ratio_marks(rows: Sequence[_RatioRow]) -> pd.DataFrame:
    """Return the known ratios as points with intervals; hollow where no difference is shown and no claim is decided."""
    marks = [
        (
            y,
            row.ratio.ratio,
            row.ratio.low,
            row.ratio.high,
            row.hue,
            not row.is_settled,
            f"{row.text}: {ratio_with_interval(row.ratio)}, {units.counted(row.ratio.blocks, 'block')}",
        )
        for y, row in enumerate(rows)
        if row.ratio is not None and row.ratio.ratio is not None
    ]
    return pd.DataFrame(marks, columns=["y", "x", "low", "high", "hue", "hollow", "text"])


def _published_marks(rows: Sequence[_RatioRow]) -> pd.DataFrame:
    marks = [
        (y, row.published, f"{row.text}: published {row.published:g}") for y, row in enumerate(rows) if row.published
    ]
    return pd.DataFrame(marks, columns=["y", "x", "text"])


def _expected_ranges(rows: Sequence[_RatioRow], scale: Scale) -> pd.DataFrame:
    """Return the expected ranges of claims as pale bars, up to the ends of the axis where they have no limit."""
    ranges = [
        (y, max(row.expected[0] or 0, scale.low or 0), min(row.expected[1] or math.inf, scale.high or math.inf))
        for y, row in enumerate(rows)
        if row.expected is not None
    ]
    bars = pd.DataFrame(ranges, columns=["y", "low", "high"]).assign(opacity=0.12)
    return bars[bars["low"] < bars["high"]]


def _ratio_scale(label: str, marks: Iterable[float], ends: Sequence[float] = ()) -> Scale:
    """Return the scale over 1 and all marks, and over the ends of intervals unless those dwarf the marks."""
    marks = [1.0, *marks]
    least, most = min(marks), max(marks)
    low = max(min([least, *ends]), least / _REACH) / 1.04
    high = min(max([most, *ends]), most * _REACH) * 1.04
    return Scale("{:g}".format, label, low, high, kind="log", ticks=6)


MAX_TOOL_ROWS = 80
"""Rows that are drawn at most: the metrics in which tools differ most. The tables have all."""
_MEDIAN = 0.36
"""Half the height of the line at a tool's median, in rows."""


@dataclass(frozen=True)
class _ToolRow:
    """A tool and its median, relative to the median of all tools; `trials` are its points: x, hue, text, exclusion."""

    tool: str
    median_text: str
    median: float
    trials: pd.DataFrame


def _tools_alt(run: StoredRun) -> str:
    ranked = sorted(run.agreements, key=lambda each: -each.between)[:_MAX_NAMED]
    differences = "; ".join(
        f"{_agreement_name(each)} differs by a factor of {units.ratio(each.between)}, {_conclusion(each)}"
        for each in ranked
    )
    which = "" if len(run.agreements) <= _MAX_NAMED else f" Of {len(run.agreements)} metrics the largest are named."
    return f"Dot plot of every trial of each load tool relative to the median of all tools: {differences}.{which}"


def _tools_caption(run: StoredRun) -> str:
    more = len(run.agreements) - len(_drawn_agreements(run.agreements))
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


@style()
def _draw_tools(run: StoredRun) -> Figure:
    tool_rows = list(_tool_rows(run))
    tools = {y: row for y, row in enumerate(tool_rows) if isinstance(row, _ToolRow)}
    rows = [
        FigureRow(y, row.tool, row.median_text) if isinstance(row, _ToolRow) else FigureRow(y, row, is_heading=True)
        for y, row in enumerate(tool_rows)
    ]
    points = pd.concat([row.trials.assign(y=y) for y, row in tools.items()])
    medians = pd.DataFrame(
        [(row.median, y - _MEDIAN, y + _MEDIAN, f"{row.tool}: median {row.median_text}") for y, row in tools.items()],
        columns=["x", "low", "high", "text"],
    )
    size = row_text_size(len(rows))

    def draw(axes: Axes) -> None:
        draw_reference(axes, 1, along="x", style="-")
        for _, of_row in points.groupby("y"):  # each with hover texts of its own
            draw_points(axes, of_row, area=2 * size, rim=0.06 * size)
        draw_intervals(axes, medians, along="y")

    declaration = TOOLS.declaration(
        run,
        notes("point: one trial", "line: median of the tool", "1: median of the tools"),
    )
    scale = _ratio_scale("relative to the median of the tools, logarithmic", points["x"])
    return draw_rows(declaration, rows, [Panel(draw, scale)])


TOOLS = ReportFigure(
    name="tool-agreement",
    title="Results of each load tool",
    is_available=lambda run: bool(run.agreements),
    alt=_tools_alt,
    caption=_tools_caption,
    see="Lines of the tools that lie apart are load tools that measure the same server differently.",
    draw=_draw_tools,
    data="tool-agreement",
)


def _drawn_agreements(agreements: Sequence[Agreement]) -> list[Agreement]:
    """Return the metrics that are drawn, in their order: all, or those with the largest differences."""
    rows = 0
    chosen: list[Agreement] = []
    for each in sorted(agreements, key=lambda each: -each.between):
        rows += 1 + len(each.tools)
        if rows > MAX_TOOL_ROWS and chosen:
            break
        chosen.append(each)
    return [each for each in agreements if each in chosen]


def _tool_rows(run: StoredRun) -> Iterator[_ToolRow | str]:
    names = {tool.tool for each in run.agreements for tool in each.tools}
    planned = dict.fromkeys(str(level) for cell in run.manifest.cells for level in cell.levels.values())
    hues = {name: hue for hue, name in enumerate(name for name in planned if name in names)}
    for each in _drawn_agreements(run.agreements):
        yield f"{_agreement_name(each)}: {_conclusion(each)}"
        centre = median(tool.median for tool in each.tools)
        to_text = title_and_format(each.metric)[1]
        for tool in sorted(each.tools, key=lambda tool: hues[tool.tool]):
            points = _tool_points(run, each, tool, centre).assign(hue=hues[tool.tool])
            yield _ToolRow(clean(tool.tool), to_text(tool.median), tool.median / centre, points)


def _agreement_name(agreement: Agreement) -> str:
    """Return the metric, and the cell if there are several."""
    levels = ", ".join(f"{name} {level}" for name, level in agreement.levels.items())
    return clean(", ".join(filter(None, (title_and_format(agreement.metric)[0], levels))))


def _conclusion(agreement: Agreement) -> str:
    if agreement.beyond_noise is None:
        return f"too few blocks to estimate noise ({agreement.blocks})"
    p_value = f"p = {agreement.p:.2g}"
    return f"beyond noise, {p_value}" if agreement.beyond_noise else f"no disagreement beyond noise shown, {p_value}"


def _tool_points(run: StoredRun, agreement: Agreement, tool: ToolFigures, centre: float) -> pd.DataFrame:
    """Return the trials of a tool relative to the median of all tools: x, text, exclusion."""
    trials = agreement_trials(agreement, run.measured)
    trials = trials[(trials["tool"] == tool.tool) & (numbers(trials[agreement.metric]) > 0)]
    values = numbers(trials[agreement.metric])
    to_text = title_and_format(agreement.metric)[1]
    return pd.DataFrame(
        {
            "x": values / centre,
            "exclusion": trials["trial_id"].map(run.values(agreement.metric).exclusions),
            "text": [
                f"{tool.tool}, block {block}: {to_text(value)}, {units.ratio(value / centre)} of the median of the tools"
                for block, value in zip(trials["block"], values, strict=True)
            ],
        }
    )
