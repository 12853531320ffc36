"""The figure of CPU time: the parts of the difference between two cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.comparison.components import Component, components_of, finest_parts
from benchkit.comparison.diagnoses.causes import causes_of
from benchkit.comparison.why import cause_clause, components_by_pair, part_name, signed
from benchkit.report.chart import Chart, ChartRow, Panel, Scale, and_more
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import BAR, bars, intervals
from benchkit.report.stored_run import StoredRun, cached_per_run

MAX_PAIRS = 6
"""Pairs of cells that are drawn, the first ones."""
MAX_PARTS = 7
"""Parts of a difference that are drawn, the largest; the others are one bar."""
_MORE, _LESS = 1, 2
"""Hues of parts in which the cell takes more CPU time, and less."""


@dataclass(frozen=True)
class _Bar:
    """A row of the waterfall, in seconds per request: a heading, the sum of a cell, or a part from `start` on."""

    name: str
    start: float | None = None
    length: float = 0.0
    is_whole: bool = False

    @property
    def length_text(self) -> str:
        return units.seconds(self.length) if self.is_whole else signed(self.length, units.seconds)


def _why_chart(run: StoredRun) -> Chart | None:
    waterfall = list(_bars(run))
    if not waterfall:
        return None
    lengths = _lengths(waterfall)
    steps = lengths[~lengths["is_whole"]]
    joints = steps.assign(x=steps["end"], low=steps["y"] + BAR / 2, high=steps["y"] + 1 - BAR / 2, hue=None)
    least, most = min(0.0, float(lengths["low"].min())), max(0.0, float(lengths["high"].max()))
    margin = 0.05 * (most - least)
    scale = Scale(units.seconds, "CPU time per request", least - margin if least < 0 else 0.0, most + margin, ticks=6)
    return Chart(
        caption="A long bar between two cells shows where the slower one spends its CPU time"
        + and_more(len(_pairs(run)) - MAX_PAIRS, "pair")
        + ".",
        panels=[Panel([bars(lengths), intervals(joints, along="y", width=0.7)], scale)],
        rows=[
            ChartRow(each.name, is_heading=True) if each.start is None else ChartRow(each.name, each.length_text)
            for each in waterfall
        ],
        subtitle=[
            "CPU time of all servers; the parts add up",
            *(f"cause: {cause_clause(each, run.labels)}" for each in causes_of(run.data)[:2]),
        ],
    )


WHY = ReportFigure("why", "Why: CPU time per request from the baseline to the cell", _why_chart, data=None)


@cached_per_run
def _pairs(run: StoredRun) -> list[list[Component]]:
    """Return the parts of the CPU time of each pair of cells, the finest that the run has, with the sum last."""
    found = (finest_parts(components) for components in components_by_pair(components_of(run.data)).values())
    return [parts for parts in found if parts]


def _bars(run: StoredRun) -> Iterator[_Bar]:
    for *parts, total in _pairs(run)[:MAX_PAIRS]:
        cell, baseline = run.labels[total.cell_id], run.labels[total.baseline_id]
        yield _Bar(f"{cell} against {baseline}")
        yield _Bar(baseline, 0.0, total.baseline_value, is_whole=True)
        yield from _steps(total.baseline_value, [(part_name(each), each.difference) for each in parts])
        yield _Bar(cell, 0.0, total.value, is_whole=True)


def _steps(start: float, lengths: Sequence[tuple[str, float]]) -> Iterator[_Bar]:
    rest = lengths[MAX_PARTS:]
    others = [(units.counted(len(rest), "other part"), sum(length for _, length in rest))] if rest else []
    for name, length in [*lengths[:MAX_PARTS], *others]:
        yield _Bar(name, start, length)
        start += length


def _lengths(waterfall: Sequence[_Bar]) -> pd.DataFrame:
    """Return the bars of all rows but headings: y, low, high, end, is_whole, hue, opacity."""
    rows = [
        (
            y,
            min(each.start, end),
            max(each.start, end),
            end,
            each.is_whole,
            None if each.is_whole else _MORE if each.length > 0 else _LESS,
        )
        for y, each in enumerate(waterfall)
        if each.start is not None
        for end in [each.start + each.length]
    ]
    columns = ["y", "low", "high", "end", "is_whole", "hue"]
    return pd.DataFrame(rows, columns=columns).assign(opacity=1.0)
