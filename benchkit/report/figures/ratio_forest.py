"""Ratios of cells to their baseline with their intervals, and the claims about them: a forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.ratios import Ratio
from benchkit.models.base import cell_id
from benchkit.models.metrics import metric_named
from benchkit.report.figures.figure import ReportFigure, name_extremes, provenance
from benchkit.report.layout import (
    label_rows,
    new_figure,
    ratio_axis,
    row_text_size,
    rows_height,
    write_beside,
    write_heading,
)
from benchkit.report.ratio_labels import cell_names, ratio_with_interval
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import colour, hover, marker, styled
from benchkit.report.theme import GRID, INK, SURFACE
from benchkit.stats.cell_pairs import scenario_baseline

TITLE = "Ratios to the baseline, with their intervals"

MAX_RATIOS = 40
"""Ratios that are drawn at most: those farthest from 1. The table has all."""
_MAX_NAMED = 6


@dataclass(frozen=True)
class _Row:
    """A row of the figure: a ratio, or a heading; `is_settled` if a difference is shown or a claim is decided.

    A claim also has the expected range (None: no limit on that side) and the published ratio.
    """

    text: str
    ratio: Ratio | None = None
    is_settled: bool = False
    hue: int | None = None
    expected: tuple[float | None, float | None] | None = None
    published: float | None = None


def is_available(run: StoredRun) -> bool:
    """Return True if any ratio has an interval."""
    return any(row.ratio is not None and row.ratio.low is not None for row in _rows(run))


def alt(run: StoredRun) -> str:
    """Describe the ratios; of many the highest and the lowest."""
    ratios = [(row.text, row.ratio) for row in _rows(run) if row.ratio is not None and row.ratio.ratio is not None]
    ranked = sorted(ratios, key=lambda each: each[1].ratio or 0, reverse=True)
    shown, which = name_extremes(ranked, _MAX_NAMED)
    return (
        f"Forest plot of ratios with their intervals{which}: "
        f"{'; '.join(f'{text} {ratio_with_interval(ratio)}' for text, ratio in shown)}."
    )


def caption(run: StoredRun) -> str:
    """Explain marks, lines and bands."""
    has_claims = any(row.expected for row in _rows(run))
    level = next(row.ratio.confidence for row in _rows(run) if row.ratio)
    count = len(_primary_ratios(run))
    return (
        f"A mark is the ratio over blocks, its line the {level:.0%} interval; a mark is filled if a difference is shown or "
        "a claim decided, otherwise hollow. Controls are cells relative to themselves."
        + (" For a claim, the band is the expected range and the diamond the published ratio." if has_claims else "")
        + (
            f" The {MAX_RATIOS} ratios farthest from 1 are drawn; the table has all {count}."
            if count > MAX_RATIOS
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a row for each ratio and each claim."""
    rows = _rows(run)
    size = row_text_size(len(rows))
    figure = new_figure(rows_height(len(rows)), title=TITLE, subtitle=[_subtitle(run)], source=provenance(run))
    axes = figure.subplots()
    _set_scale(axes, rows)
    label_rows(axes, {y: row.text for y, row in enumerate(rows) if row.ratio is not None}, len(rows))
    for y, row in enumerate(rows):
        if row.ratio is None:
            write_heading(axes, y, row.text, len(rows))
            continue
        _draw_claim(axes, y, row, size)
        _draw_ratio(axes, y, row, row.ratio, size)
        write_beside(axes, y, ratio_with_interval(row.ratio), len(rows))
    axes.set_xlabel("ratio, logarithmic")
    return figure


FIGURE = ReportFigure(
    name="ratios",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A cell whose line does not touch 1 differs from the baseline: left of 1 its value is smaller, right of 1 larger.",
    draw=draw,
    data="ratios",
)


def _primary_ratios(run: StoredRun) -> list[Ratio]:
    primary = (run.data.primary_metric,)
    return [ratio for comparison in run.comparisons if comparison.metrics == primary for ratio in comparison.ratios]


def _distance(ratio: Ratio) -> float:
    """Return the distance of a ratio from 1, on a logarithmic scale."""
    return abs(math.log(ratio.ratio or 1))


@cached_per_run
def _rows(run: StoredRun) -> list[_Row]:
    """Return the ratios of the primary metric farthest from 1, then those of claims, each claim under its sentence."""
    names, hues = cell_names(run), {view.cell_id: view.hue for view in run.cells}
    ratios = _primary_ratios(run)
    least = min(map(_distance, sorted(ratios, key=_distance)[-MAX_RATIOS:]), default=0.0)
    rows = [
        _Row(names[ratio.cell_id], ratio, ratio.outcome in {"higher", "lower"}, hues.get(ratio.cell_id))
        for ratio in ratios
        if _distance(ratio) >= least
    ]
    for claim in run.claims:
        if claim.ratios:
            metric = "" if claim.metric == run.data.primary_metric else f" ({metric_named(claim.metric).title})"
            rows.append(_Row(f"Claim: {' '.join(claim.text.split())}{metric}"))
        for ratio in claim.ratios:
            which = f": {names[ratio.cell_id]}" if len(claim.ratios) > 1 else ""
            is_settled = claim.state in {"holds", "refuted"}
            rows.append(_Row(claim.state + which, ratio, is_settled, None, claim.expected, claim.published))
    return rows


def _subtitle(run: StoredRun) -> str:
    """Return the metric of the ratios and the cells they are relative to."""
    names, title = cell_names(run), metric_named(run.data.primary_metric).title
    ratios = [row.ratio for row in _rows(run) if row.ratio and row.hue is not None]
    bases = list(dict.fromkeys(names[ratio.baseline] for ratio in ratios))
    if len(bases) == 1:
        return f"{title} relative to {bases[0]}"
    levels = scenario_baseline(run.manifest.scenario, run.manifest.cells)
    return f"{title} relative to the cell that differs in {cell_id(levels)} alone"


def _set_scale(axes: Axes, rows: Sequence[_Row]) -> None:
    """Set an axis over all marks, and over their intervals unless those dwarf the marks."""
    points = [value for row in rows if row.ratio for value in (row.ratio.ratio, row.published) if value]
    ends = [value for row in rows if row.ratio for value in (row.ratio.low, row.ratio.high) if value]
    ratio_axis(axes, points, ends)


def _draw_claim(axes: Axes, y: float, row: _Row, size: float) -> None:
    """Draw the expected range of a claim as a band, the published ratio as a diamond."""
    if row.expected is not None:
        low, high = axes.get_xlim()
        least, most = max(row.expected[0] or low, low), min(row.expected[1] or high, high)
        if least < most:
            axes.broken_barh(
                [(least, most - least)], (y - 0.4, 0.8), color=GRID.light, alpha=0.7, linewidth=0, zorder=0
            )
    if row.published is not None:
        mark = axes.plot(
            [row.published], [y], marker="D", ms=0.6 * size, mfc=SURFACE.light, mec=INK.light, mew=1, ls="", zorder=4
        )
        hover(mark[0], f"{row.text}: published {row.published:g}")


def _draw_ratio(axes: Axes, y: float, row: _Row, ratio: Ratio, size: float) -> None:
    """Draw the interval as a line, the ratio as a mark on it."""
    if ratio.ratio is None:
        return
    tone = INK.light if row.hue is None else colour(row.hue)
    shape = "o" if row.hue is None else marker(row.hue)
    if ratio.low is not None and ratio.high is not None:
        axes.plot([ratio.low, ratio.high], [y, y], color=tone, linewidth=1.6, solid_capstyle="butt", zorder=2)
    fill = tone if row.is_settled else SURFACE.light
    mark = axes.plot([ratio.ratio], [y], marker=shape, ms=0.6 * size, mfc=fill, mec=tone, mew=1.2, ls="", zorder=3)
    hover(mark[0], f"{row.text}: {ratio_with_interval(ratio)}, {units.counted(ratio.blocks, 'block')}")
