"""Cells as lines against a numeric factor, connections first of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from benchkit.comparison.cell_labels import level_name
from benchkit.models.design import controlled
from benchkit.models.run import CellRecord
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import tick

PREFERRED = "connections"
MAX_LINES = 12
"""Lines that a figure has at most; its caption names the number of the others."""


@dataclass(frozen=True)
class Line:
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


def lines_along(run: StoredRun, factor: str) -> list[Line]:
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
            lines.setdefault(_name(cell, varying), []).append((number, cell.cell_id))
    return [Line(name, tuple(sorted(cells))) for name, cells in lines.items()]


def set_factor_axes(
    axes: Axes, heading: str, text: Callable[[float | None], str], factor: str, lines: Sequence[Line]
) -> None:
    """Set up axes against the factor: its levels below on a logarithmic scale, values from 0 written by `text`."""
    levels = sorted({level for line in lines for level, _ in line.cells})
    axes.set_title(heading)
    axes.set_xscale("log")
    axes.set_xlabel(factor)
    axes.xaxis.set_major_locator(FixedLocator(levels))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.6g}"))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_locator(MaxNLocator(nbins=5, min_n_ticks=3))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: tick(text(value))))


def _positive(level: object) -> float | None:
    """Return a level as a number above 0, or None if it is none."""
    if isinstance(level, bool) or not isinstance(level, int | float) or level <= 0:
        return None
    return float(level)


def _name(cell: CellRecord, varying: Sequence[str]) -> str:
    """Return the name of a cell's line: its levels of the factors that vary."""
    return ", ".join(level_name(name, cell.levels[name]) for name in varying if name in cell.levels) or "all trials"
