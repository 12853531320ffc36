"""Trends of a run along the lines of its figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from typing import Protocol, TypeVar

from benchkit import units
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
from benchkit.report.cell_lines import Line, lines_along, numeric_factor
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean
from benchkit.units import ABSENT


def trends_along(run: StoredRun, factor: str, metric: str) -> dict[str, Trend]:
    """Return the trend of a metric along each line, by the line's name; none if the lines omit cells of the run."""
    return _by_line(run, factor, lambda: trends_of(run.data, metric, factor))


def laws_along(run: StoredRun, factor: str) -> dict[str, Scalability]:
    """Return the Universal Scalability Law of each line that has enough levels and blocks for it, by the line's name.

    None in a sequential design, whose drift between levels would be taken for the law.
    """
    if run.data.design == "sequential":
        return {}
    laws = _by_line(run, factor, lambda: scalability_of(run.data, factor))
    return {name: law for name, law in laws.items() if law.reason is None}


def connection_memory_along(run: StoredRun) -> dict[str, ConnectionMemory]:
    """Return the memory per connection of each line that has enough blocks for an interval, by the line's name.

    None in a sequential design, whose drift between levels would be taken for the slope.
    """
    if run.data.design == "sequential":
        return {}
    memory = _by_line(run, CONNECTIONS, lambda: connection_memory_of(run.data))
    return {name: found for name, found in memory.items() if found.reason is None}


class _Fitted(Protocol):
    """A fit to the cells that differ in a factor alone."""

    @property
    def levels(self) -> Mapping[str, str]:
        """Levels of the other factors."""


Fit = TypeVar("Fit", bound=_Fitted)


def _by_line(run: StoredRun, factor: str, fits: Callable[[], Sequence[Fit]]) -> dict[str, Fit]:
    """Return the fit of each line, by its name; none if the lines omit cells of the run."""
    lines = [line for line in lines_along(run, factor) if len(line.cells) > 1]
    drawn = {cell_id for line in lines_along(run, factor) for _, cell_id in line.cells}
    supported = {
        cell.cell_id for cell in run.manifest.cells if cell.unsupported is None and controlled(cell.cell_id) is None
    }
    if not lines or supported - drawn:
        return {}
    levels = {cell.cell_id: cell.levels for cell in run.manifest.cells}
    found = {_key(fit.levels): fit for fit in fits()}
    return {line.name: fit for line in lines if (fit := found.get(_key(_others(line, factor, levels)))) is not None}


def is_bent(trend: Trend) -> bool:
    """Return True if the points depart from the power law by more than chance."""
    return trend.p_curved is not None and trend.p_curved <= 1 - trend.confidence


def trend_table(run: StoredRun, metrics: tuple[str, ...], name: str) -> Table | None:
    """Return the change of the metrics when the factor doubles, line by line; None if there is no trend."""
    factor = numeric_factor(run) or ""
    by_metric = [(metric, trends_along(run, factor, metric)) for metric in metrics]
    rows = list(
        chain.from_iterable((_row(line, metric, t) for line, t in trends.items()) for metric, trends in by_metric)
    )
    if not rows:
        return None
    return Table(
        name=name,
        caption=f"Trends: ratio by which a metric changes when {factor} doubles",
        columns=(
            Column("Line", "name"),
            Column("Figure"),
            Column("Per doubling", "number"),
            Column("From", "number", "Interval"),
            Column("To", "number", "Interval"),
            Column("p of no trend", "number"),
            Column("p of no bend", "number"),
            Column("Blocks", "number"),
            Column("Notes", "prose"),
        ),
        rows=tuple(rows),
    )


def _row(line: str, metric: str, trend: Trend) -> tuple[Entry, ...]:
    note = trend.reason or ("not a power law: compare the medians instead" if is_bent(trend) else "")
    return (
        Entry(line),
        Entry(metric_named(metric).title),
        *(_figure(value, "{:.3f}") for value in (trend.per_doubling, trend.low, trend.high)),
        *(_figure(value, "{:.2g}") for value in (trend.p, trend.p_curved)),
        Entry(units.count(trend.blocks), float(trend.blocks)),
        Entry(clean(note)),
    )


def _figure(value: float | None, shown: str) -> Entry:
    return Entry(ABSENT) if value is None else Entry(shown.format(value), value)


def _others(line: Line, factor: str, levels: Mapping[str, Mapping[str, str | int | float | bool]]) -> dict[str, str]:
    """Return the levels that the cells of a line share, as text."""
    own = levels[line.cells[0][1]]
    return {name: level_text(level) for name, level in own.items() if name != factor}


def _key(levels: Mapping[str, str]) -> frozenset[tuple[str, str]]:
    return frozenset(levels.items())
