"""Lines of cells along a numeric factor, connections first of all, and what is fitted to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from benchkit import units
from benchkit.comparison.cell_labels import level_name
from benchkit.comparison.trends import (
    CONNECTIONS,
    ConnectionMemory,
    Scalability,
    Trend,
    connection_memory_of,
    scalability_of,
    trends_of,
)
from benchkit.models.base import level_text
from benchkit.models.design import controlled
from benchkit.models.metrics import metric_named
from benchkit.models.run import CellRecord
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Entry, Table, named, number, prose, table
from benchkit.safe_text import clean

PREFERRED = "connections"


@dataclass(frozen=True)
class CellLine:
    """Cells that differ in the factor alone."""

    name: str
    cells: tuple[tuple[float, str], ...]
    """(level, cell_id), ascending."""


def numeric_factor(run: StoredRun) -> str | None:
    """Return the factor of the axis: connections, else the first numeric one with several levels; None without one."""
    levels: dict[str, set[float]] = {}
    for cell in run.manifest.cells:
        for name, level in cell.levels.items():
            if (number := _positive(level)) is not None:
                levels.setdefault(name, set()).add(number)
    varying = [name for name, numbers in levels.items() if len(numbers) > 1]
    return PREFERRED if PREFERRED in varying else next(iter(varying), None)


def lines_along(run: StoredRun, factor: str) -> list[CellLine]:
    """Return the lines of cells that differ in the factor alone, in the order of the plan."""
    lines: dict[str, list[tuple[float, str]]] = {}
    levels: dict[str, set[str]] = {}
    for cell in run.manifest.cells:
        for name, level in cell.levels.items():
            levels.setdefault(name, set()).add(str(level))
    varying = [name for name, texts in levels.items() if name != factor and len(texts) > 1]
    for cell in run.manifest.cells:
        number = _positive(cell.levels.get(factor))
        if number is not None and controlled(cell.cell_id) is None and cell.unsupported is None:
            lines.setdefault(_line_name(cell, varying), []).append((number, cell.cell_id))
    return [CellLine(name, tuple(sorted(cells))) for name, cells in lines.items()]


def _positive(level: object) -> float | None:
    if isinstance(level, bool) or not isinstance(level, int | float) or level <= 0:
        return None
    return float(level)


def _line_name(cell: CellRecord, varying: Sequence[str]) -> str:
    """Return the name of a cell's line: its levels of the factors that vary."""
    return ", ".join(level_name(name, cell.levels[name]) for name in varying if name in cell.levels) or "all trials"


def trends_along(run: StoredRun, factor: str, metric: str) -> dict[str, Trend]:
    """Return the trend of a metric along each line, by the line's name; none if the lines omit cells of the run."""
    return _fits_by_line(run, factor, lambda: trends_of(run.data, metric, factor))


def laws_along(run: StoredRun, factor: str) -> dict[str, Scalability]:
    """Return the Universal Scalability Law of each line that has enough levels and blocks for it, by the line's name.

    None in a sequential design, whose drift between levels would be taken for the law.
    """
    return _known_fits_by_line(run, factor, lambda: scalability_of(run.data, factor))


def connection_memory_along(run: StoredRun) -> dict[str, ConnectionMemory]:
    """Return the memory per connection of each line that has enough blocks for an interval, by the line's name.

    None in a sequential design, whose drift between levels would be taken for the slope.
    """
    return _known_fits_by_line(run, CONNECTIONS, lambda: connection_memory_of(run.data))


Fit = TypeVar("Fit", Trend, Scalability, ConnectionMemory)


def _known_fits_by_line(run: StoredRun, factor: str, fits: Callable[[], Sequence[Fit]]) -> dict[str, Fit]:
    if run.data.design == "sequential":
        return {}
    return {line: fit for line, fit in _fits_by_line(run, factor, fits).items() if fit.reason is None}


def _fits_by_line(run: StoredRun, factor: str, fits: Callable[[], Sequence[Fit]]) -> dict[str, Fit]:
    """Return the fit of each line, by its name; none if the lines omit cells of the run."""
    lines = [line for line in lines_along(run, factor) if len(line.cells) > 1]
    drawn = {cell_id for line in lines_along(run, factor) for _, cell_id in line.cells}
    supported = {
        cell.cell_id for cell in run.manifest.cells if cell.unsupported is None and controlled(cell.cell_id) is None
    }
    if not lines or supported - drawn:
        return {}
    levels = {cell.cell_id: cell.levels for cell in run.manifest.cells}
    found = {frozenset(fit.levels.items()): fit for fit in fits()}
    by_line = {}
    for line in lines:
        shared = {name: level_text(level) for name, level in levels[line.cells[0][1]].items() if name != factor}
        if (fit := found.get(frozenset(shared.items()))) is not None:
            by_line[line.name] = fit
    return by_line


def is_bent(trend: Trend) -> bool:
    """Return True if the points depart from the power law by more than chance."""
    return trend.p_curved is not None and trend.p_curved <= 1 - trend.confidence


def trend_table(run: StoredRun, metrics: Sequence[str], name: str) -> Table | None:
    """Return the change of the metrics when the factor doubles, line by line; None if there is no trend."""
    factor = numeric_factor(run) or ""
    rows = [
        _trend_row(line, metric, trend)
        for metric in metrics
        for line, trend in trends_along(run, factor, metric).items()
    ]
    if not rows:
        return None
    caption = f"Trends: ratio by which a metric changes when {factor} doubles"
    return table(name, caption, rows, groups={"From": "Interval", "To": "Interval"})


def _trend_row(line: str, metric: str, trend: Trend) -> dict[str, Entry]:
    return {
        "Line": named(line),
        "Figure": Entry(metric_named(metric).title),
        "Per doubling": number(trend.per_doubling, "{:.3f}".format),
        "From": number(trend.low, "{:.3f}".format),
        "To": number(trend.high, "{:.3f}".format),
        "p of no trend": number(trend.p, "{:.2g}".format),
        "p of no bend": number(trend.p_curved, "{:.2g}".format),
        "Blocks": number(trend.blocks, units.count),
        "Notes": prose(
            clean(trend.reason or ("not a power law: compare the medians instead" if is_bent(trend) else ""))
        ),
    }
