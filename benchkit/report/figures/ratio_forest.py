"""Ratios of cells to their baseline with their intervals, and what was claimed of them: a forest plot."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.analysis.cell_pairs import scenario_baseline
from benchkit.analysis.ratio import Ratio
from benchkit.models.levels import cell_id
from benchkit.models.metrics import metric_named
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.ratio_labels import bracketed, labels
from benchkit.report.row_layout import cut, head, lay, ratio_axis, room_for, row_height, text_size, write
from benchkit.report.stored_run import StoredRun, once
from benchkit.report.style import colour, drawable, hover, marker, styled
from benchkit.report.theme import GRID, INK, SURFACE

TITLE = "Ratios to the baseline, with their intervals"

_AXIS_IN, _MOST_LABEL_IN, _WRITTEN_IN = 0.5, 2.6, 1.5
MOST = 40
"""Of more ratios those are drawn that are farthest from one; the table has all."""
_NAMED = 6


@dataclass(frozen=True)
class _Row:
    """A line of the figure: a ratio, or a heading; `settled` where a difference is shown or a claim is decided.

    Of claims: what is expected (None: no limit on that side), and what was published.
    """

    text: str
    ratio: Ratio | None = None
    settled: bool = False
    hue: int | None = None
    expected: tuple[float | None, float | None] | None = None
    published: float | None = None


def available(run: StoredRun) -> bool:
    """Whether there is a ratio with an interval."""
    return any(row.ratio is not None and row.ratio.low is not None for row in _rows(run))


def alt(run: StoredRun) -> str:
    """The ratios in words; of many the highest and the lowest."""
    ratios = [row for row in _rows(run) if row.ratio is not None and row.ratio.ratio is not None]
    ranked = sorted(ratios, key=lambda row: (row.ratio and row.ratio.ratio) or 0, reverse=True)
    shown = ranked if len(ranked) <= _NAMED else [ranked[0], ranked[-1]]
    said = "; ".join(f"{row.text} {bracketed(row.ratio)}" for row in shown if row.ratio)
    which = "" if shown is ranked else f" of {len(ranked)}, the highest and the lowest"
    return f"Forest plot of ratios with their intervals{which}: {said}."


def caption(run: StoredRun) -> str:
    """What marks, lines and bands are."""
    claims = any(row.expected for row in _rows(run))
    level = next(row.ratio.confidence for row in _rows(run) if row.ratio)
    more = len(_ratios(run))
    return (
        f"A mark is the ratio over blocks, its line the interval of {level:.0%}; marks are filled where a difference is "
        "shown or a claim decided, hollow where not. Controls are cells over themselves."
        + (" Of claims the band is what is expected, the diamond what was published." if claims else "")
        + (f" The {MOST} ratios farthest from one are drawn; the table has all {more}." if more > MOST else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure, a row for each ratio and each claim."""
    rows = _rows(run)
    row_in = row_height(len(rows))
    size = text_size(row_in)
    frame = framed(
        height_in=row_in * (len(rows) + 0.2) + _AXIS_IN,
        title=TITLE,
        subtitle=[_subtitle(run)],
        foot=provenance(run),
    )
    texts = [drawable(row.text) for row in rows]
    widest = max(room_for(text, size) for text, row in zip(texts, rows, strict=True) if row.ratio)
    labels_in = min(_MOST_LABEL_IN, widest) + 2 * EDGE_IN
    axes = frame.axes(labels_in, 0, WIDTH_IN - labels_in - _WRITTEN_IN - EDGE_IN, row_in * (len(rows) + 0.2))
    _scale(axes, rows)
    for y, (row, text) in enumerate(zip(rows, texts, strict=True)):
        if row.ratio is None:
            head(axes, y, text, size)
            continue
        write(axes, y, cut(text, labels_in - EDGE_IN, size), size, left=True)
        _draw_claim(axes, y, row, size)
        _draw_ratio(axes, y, row, size)
        write(axes, y, bracketed(row.ratio), size, left=False)
    axes.set_xlabel("ratio, logarithmic")
    lay(axes, len(rows))
    return frame.figure


FIGURE = ReportFigure(
    name="ratios", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="ratios"
)


def _ratios(run: StoredRun) -> list[Ratio]:
    """Those of RPS."""
    return [ratio for one in run.comparisons if one.metrics == ("rps",) for ratio in one.ratios]


@once
def _rows(run: StoredRun) -> list[_Row]:
    """The ratios of RPS, then those of claims, each claim under its sentence."""
    named, hues = labels(run), {view.cell_id: view.hue for view in run.cells}
    found = _ratios(run)
    nearest = sorted(found, key=lambda ratio: -abs(math.log(ratio.ratio or 1)))[MOST - 1 : MOST]
    least = abs(math.log(nearest[0].ratio or 1)) if nearest else 0.0
    rows = [
        _Row(named[ratio.cell_id], ratio, ratio.outcome in {"higher", "lower"}, hues.get(ratio.cell_id))
        for ratio in found
        if abs(math.log(ratio.ratio or 1)) >= least
    ]
    for claim in run.claims:
        if claim.ratios:
            figure = "" if claim.metric == "rps" else f" ({metric_named(claim.metric).title})"
            rows.append(_Row(f"Claim: {' '.join(claim.text.split())}{figure}"))
        for ratio in claim.ratios:
            which = f": {named[ratio.cell_id]}" if len(claim.ratios) > 1 else ""
            settled = claim.state in {"holds", "refuted"}
            rows.append(_Row(claim.state + which, ratio, settled, None, claim.expected, claim.published))
    return rows


def _subtitle(run: StoredRun) -> str:
    """What the ratios are of, and over which cells."""
    named = labels(run)
    ratios = [row.ratio for row in _rows(run) if row.ratio and row.hue is not None]
    bases = list(dict.fromkeys(named[ratio.baseline] for ratio in ratios))
    if len(bases) == 1:
        return f"RPS over {bases[0]}"
    levels = scenario_baseline(run.manifest.scenario, run.manifest.cells)
    return f"RPS, each over the cell that differs from it in {cell_id(levels)} alone"


def _scale(axes: Axes, rows: Sequence[_Row]) -> None:
    """An axis over all marks, and over their intervals as far as those do not dwarf the marks."""
    points = [value for row in rows if row.ratio for value in (row.ratio.ratio, row.published) if value]
    ends = [value for row in rows if row.ratio for value in (row.ratio.low, row.ratio.high) if value]
    ratio_axis(axes, points, ends)


def _draw_claim(axes: Axes, y: float, row: _Row, size: float) -> None:
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


def _draw_ratio(axes: Axes, y: float, row: _Row, size: float) -> None:
    """The interval as a line, the ratio as a mark on it."""
    ratio = row.ratio
    if ratio is None or ratio.ratio is None:
        return
    tone = INK.light if row.hue is None else colour(row.hue)
    shape = "o" if row.hue is None else marker(row.hue)
    if ratio.low is not None and ratio.high is not None:
        axes.plot([ratio.low, ratio.high], [y, y], color=tone, linewidth=1.6, solid_capstyle="butt", zorder=2)
    fill = tone if row.settled else SURFACE.light
    mark = axes.plot([ratio.ratio], [y], marker=shape, ms=0.6 * size, mfc=fill, mec=tone, mew=1.2, ls="", zorder=3)
    hover(mark[0], f"{row.text}: {bracketed(ratio)}, {units.counted(ratio.blocks, 'block')}")
