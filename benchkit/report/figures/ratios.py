"""The figure of ratios: cells relative to their baseline, and the claims about them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit.comparison.ratios import Ratio
from benchkit.models.base import cell_id
from benchkit.models.metrics import metric_named
from benchkit.report.chart import MAX_ROWS, Chart, ChartRow, Panel, Scale, and_more, text_size
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import bars, intervals, marks, points, reference
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import INK, MarkStyle
from benchkit.report.summary import cell_names, ratio_with_interval
from benchkit.stats.cell_pairs import scenario_baseline

_REACH = 4.0
"""Greatest end of the axis over the outermost mark, so that marks do not crowd beside a wide interval."""
_PUBLISHED = MarkStyle("D", INK.light, hollow=True)


@dataclass(frozen=True)
class _RatioRow:
    """A row: a ratio, or a heading; `is_settled` if a difference is shown or a claim is decided.

    A claim also has the expected range (None: no limit on that side) and the published ratio.
    """

    text: str
    ratio: Ratio | None = None
    is_settled: bool = False
    hue: int | None = None
    expected: tuple[float | None, float | None] | None = None
    published: float | None = None


def _chart(run: StoredRun) -> Chart | None:
    rows = _ratio_rows(run)
    ratios = _ratio_marks(rows)
    published = pd.DataFrame([(y, row.published) for y, row in enumerate(rows) if row.published], columns=["y", "x"])
    ranges = ratios.dropna(subset=["low", "high"])
    if ranges.empty:
        return None
    scale, size = _scale([*ratios["x"], *published["x"]], [*ranges["low"], *ranges["high"]]), text_size(len(rows))
    layers = [
        bars(_expected_ranges(rows, scale), height=0.8),
        reference(1, along="x", style="-"),
        intervals(ranges),
        points(ratios, area=4.5 * size, rim=0.06 * size),
        marks(published, _PUBLISHED, area=3 * size),
    ]
    has_claims = any(row.expected for row in rows)
    level = next(row.ratio.confidence for row in rows if row.ratio)
    return Chart(
        caption="Filled marks are differences from the baseline: left of 1 the cell has less, right of 1 more"
        + and_more(len(_primary_ratios(run)) - MAX_ROWS, "ratio")
        + ".",
        panels=[Panel(layers, scale)],
        rows=[
            ChartRow(row.text, ratio_with_interval(row.ratio))
            if row.ratio is not None
            else ChartRow(row.text, is_heading=True)
            for row in rows
        ],
        subtitle=[
            f"{_relation(run)}; line: {level:.0%} interval",
            *(["claim: the band is the expected range, the diamond the published ratio"] if has_claims else []),
        ],
    )


RATIOS = ReportFigure("ratios", "Ratios to the baseline, with their intervals", _chart, data="ratios")


def _primary_ratios(run: StoredRun) -> list[Ratio]:
    primary = (run.data.primary_metric,)
    return [ratio for comparison in run.comparisons if comparison.metrics == primary for ratio in comparison.ratios]


def _distance(ratio: Ratio) -> float:
    """Return the distance of a ratio from 1, on a logarithmic scale."""
    return abs(math.log(ratio.ratio or 1))


@cached_per_run
def _ratio_rows(run: StoredRun) -> list[_RatioRow]:
    """Return the ratios of the primary metric that are farthest from 1, then those of each claim below its text."""
    names, hues = cell_names(run), {view.cell_id: view.hue for view in run.cells}
    ratios = _primary_ratios(run)
    least = min(map(_distance, sorted(ratios, key=_distance)[-MAX_ROWS:]), default=0.0)
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
    bases = {names[row.ratio.baseline] for row in _ratio_rows(run) if row.ratio and row.hue is not None}
    if len(bases) == 1:
        return f"{title} relative to {bases.pop()}"
    levels = scenario_baseline(run.manifest.scenario, run.manifest.cells)
    return f"{title} relative to the cell that differs in {cell_id(levels)} alone"


def _ratio_marks(rows: Sequence[_RatioRow]) -> pd.DataFrame:
    """Return the known ratios as points with intervals; hollow where no difference is shown and no claim is decided."""
    found = [
        (y, row.ratio.ratio, row.ratio.low, row.ratio.high, row.hue, not row.is_settled)
        for y, row in enumerate(rows)
        if row.ratio is not None and row.ratio.ratio is not None
    ]
    return pd.DataFrame(found, columns=["y", "x", "low", "high", "hue", "hollow"])


def _expected_ranges(rows: Sequence[_RatioRow], scale: Scale) -> pd.DataFrame:
    """Return the expected ranges of claims as pale bars; without a limit they reach to the end of the axis."""
    found = [
        (y, max(row.expected[0] or 0, scale.low or 0), min(row.expected[1] or math.inf, scale.high or math.inf))
        for y, row in enumerate(rows)
        if row.expected is not None
    ]
    ranges = pd.DataFrame(found, columns=["y", "low", "high"]).assign(opacity=0.12)
    return ranges[ranges["low"] < ranges["high"]]


def _scale(ratios: Iterable[float], ends: Sequence[float]) -> Scale:
    """Return a scale that includes 1, all marks, and the ends of intervals up to `_REACH` beyond the marks."""
    ratios = [1.0, *ratios]
    least, most = min(ratios), max(ratios)
    low = max(min([least, *ends]), least / _REACH) / 1.04
    high = min(max([most, *ends]), most * _REACH) * 1.04
    return Scale("{:g}".format, "ratio, logarithmic", low, high, kind="log", ticks=6)
