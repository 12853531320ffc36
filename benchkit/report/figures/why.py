"""The waterfall of CPU time per request: from the baseline's to the cell's, by what their difference consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.components import CellPart, Component, cell_parts_of, components_of, finest_parts
from benchkit.comparison.diagnoses.causes import causes_of
from benchkit.comparison.why import cause_clause, components_by_pair, explanation, part_name, signed
from benchkit.report.figure import ReportFigure, more_in_table
from benchkit.report.panels import BAR, FigureRow, Panel, Scale, draw_bars, draw_intervals, draw_rows
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.tables import Entry, Table, named, number, table
from benchkit.stats.cell_pairs import ComparedCells

MAX_PAIRS = 6
"""Pairs of cells that are drawn at most, the first; the table has all."""
MAX_CAUSES = 3
"""Causes that the caption names."""
MAX_PARTS = 7
"""Parts that are drawn of each difference, the largest; the others are one bar."""
_MORE, _LESS = 1, 2
"""Hues of parts that take more, and less."""


@dataclass(frozen=True)
class _Bar:
    """A row of the waterfall: a heading, the whole of a cell, or a part from `start` on. Seconds per request."""

    name: str
    start: float | None = None
    length: float = 0.0
    is_whole: bool = False

    @property
    def length_text(self) -> str:
        """Its length as text; the length of a part has a sign."""
        return units.seconds(self.length) if self.is_whole else signed(self.length, units.seconds)


@cached_per_run
def _components(run: StoredRun) -> tuple[Component, ...]:
    return components_of(run.data)


@cached_per_run
def _alone(run: StoredRun) -> list[list[CellPart]]:
    """Return the CPU time of each cell that is compared with nothing by its parts, the finest that the run has."""
    parts = cell_parts_of(run.data)
    return [
        finest_parts([each for each in parts if each.cell_id == cell_id]) for cell_id in {p.cell_id: 0 for p in parts}
    ]


def _pairs(run: StoredRun) -> list[tuple[ComparedCells, list[Component]]]:
    """Return the CPU time of each pair of cells by its parts, the finest that the run has."""
    found: list[tuple[ComparedCells, list[Component]]] = []
    for pair, components in components_by_pair(_components(run)).items():
        parts = finest_parts(components)
        if parts:
            found.append((pair, parts))
    return found


def _bars(run: StoredRun) -> list[_Bar]:
    bars: list[_Bar] = []
    for pair, (*parts, total) in _pairs(run)[:MAX_PAIRS]:
        cell, baseline = run.labels[pair.cell_id], run.labels[pair.baseline]
        bars += [_Bar(f"{cell} against {baseline}"), _Bar(baseline, 0.0, total.baseline_value, is_whole=True)]
        bars += _steps(total.baseline_value, [(part_name(each), each.difference) for each in parts])
        bars.append(_Bar(cell, 0.0, total.value, is_whole=True))
    for *own, whole in _alone(run)[:MAX_PAIRS]:
        bars += _steps(0.0, [(part_name(each), each.value) for each in own])
        bars.append(_Bar(run.labels[whole.cell_id], 0.0, whole.value, is_whole=True))
    return bars


def _steps(start: float, lengths: list[tuple[str, float]]) -> list[_Bar]:
    rest = lengths[MAX_PARTS:]
    others = [(units.counted(len(rest), "other part"), sum(length for _, length in rest))] if rest else []
    bars = []
    for name, length in [*lengths[:MAX_PARTS], *others]:
        bars.append(_Bar(name, start, length))
        start += length
    return bars


def _alt(run: StoredRun) -> str:
    by_pair = components_by_pair(_components(run))
    sentences = [
        f"{run.labels[pair.cell_id]} differs from {run.labels[pair.baseline]} {why}."
        if (why := explanation(components, run.labels)) is not None
        else f"{run.labels[pair.cell_id]} is not shown to differ from {run.labels[pair.baseline]}."
        for pair, components in list(by_pair.items())[:MAX_PAIRS]
    ]
    wholes = [
        f"{run.labels[whole.cell_id]} takes {units.seconds(whole.value)}, most for {part_name(largest)}."
        for largest, *_, whole in _alone(run)[:MAX_PAIRS]
    ]
    return " ".join(["Waterfall of CPU time per request.", *sentences, *wholes])


def _caption(run: StoredRun) -> str:
    pairs = _pairs(run)
    levels = {parts[-1].level for _, parts in pairs} | {parts[-1].level for parts in _alone(run)}
    return (
        "Each bar between two cells is a part of the difference of their CPU time per request, the largest first. All bars "
        "add up to that difference. Where a cell is compared with nothing, they add up to its CPU time. "
        + (
            "Categories are those of profiles, scaled to the CPU time of unprofiled trials beside them."
            if "category" in levels
            else "A run with `--profile` divides it by category, too."
        )
        + more_in_table(len(pairs) - MAX_PAIRS, "pair")
        + more_in_table(len(_alone(run)) - MAX_PAIRS, "cell")
        + "".join(
            f" Cause: {cause_clause(each, run.labels)}. {each.symptom.next_step}"
            for each in causes_of(run.data)[:MAX_CAUSES]
        )
    )


@style()
def _draw(run: StoredRun) -> Figure:
    """Draw a row for each cell and each part between the two."""
    bars = _bars(run)
    rows = [
        FigureRow(y, each.name, is_heading=True) if each.start is None else FigureRow(y, each.name, each.length_text)
        for y, each in enumerate(bars)
    ]
    lengths = _lengths(bars)

    def draw(axes: Axes) -> None:
        draw_bars(axes, lengths)
        steps = lengths[~lengths["is_whole"]]
        joints = steps.assign(x=steps["end"], low=steps["y"] + BAR / 2, high=steps["y"] + 1 - BAR / 2, hue=None)
        draw_intervals(axes, joints, along="y", width=0.7)

    declaration = WHY.declaration(run, "CPU time of all servers")
    least, most = min(0.0, float(lengths["low"].min())), max(0.0, float(lengths["high"].max()))
    low = least - 0.05 * (most - least) if least < 0 else 0.0
    scale = Scale(units.seconds, "CPU time per request", low, most + 0.05 * (most - least), ticks=6)
    return draw_rows(declaration, rows, [Panel(draw, scale)])


def _lengths(bars: Sequence[_Bar]) -> pd.DataFrame:
    """Return the bars of all rows but headings, from where each begins to its end."""
    lengths = [
        (
            y,
            min(each.start, end),
            max(each.start, end),
            end,
            each.is_whole,
            None if each.is_whole else _MORE if each.length > 0 else _LESS,
            f"{each.name}: {each.length_text}",
        )
        for y, each in enumerate(bars)
        if each.start is not None
        for end in [each.start + each.length]
    ]
    columns = ["y", "low", "high", "end", "is_whole", "hue", "text"]
    return pd.DataFrame(lengths, columns=columns).assign(opacity=1.0)


def _table(run: StoredRun) -> Table | None:
    rows = [_table_row(run, each) for each in (*_components(run), *cell_parts_of(run.data))]
    return table("why", "What differences and CPU times consist of", rows) if rows else None


def _table_row(run: StoredRun, part: Component | CellPart) -> dict[str, Entry]:
    """Return the row of a part of a difference, or of the CPU time of a cell that is compared with nothing."""
    compared = part if isinstance(part, Component) else None
    against = f" against {run.labels[compared.baseline_id]}" if compared else ""
    numbers = {
        "baseline": compared.baseline_value if compared else None,
        "cell": part.value,
        "difference": compared.difference if compared else None,
        "low": part.low,
        "high": part.high,
    }
    return {
        "cells": named(f"{run.labels[part.cell_id]}{against}"),
        "level": Entry(part.level),
        "part": Entry("sum" if part.is_sum else part_name(part)),
        **{name: number(value, "{:.4g}".format) for name, value in numbers.items()},
        "unit": Entry(part.unit),
    }


WHY = ReportFigure(
    name="why",
    title="Why: CPU time per request from the baseline to the cell",
    is_available=lambda run: bool(_pairs(run) or _alone(run)),
    alt=_alt,
    caption=_caption,
    see="A long bar between the two cells is where the slower one spends its time.",
    draw=_draw,
    data=None,
    table=_table,
)
