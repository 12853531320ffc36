"""Cells as lines against a factor in numbers, connections first of all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from benchkit.models.design import controlled
from benchkit.models.run import CellRecord
from benchkit.report.cell_labels import level_name
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import tick

PREFERRED = "connections"


@dataclass(frozen=True)
class Line:
    """The cells that differ in the factor alone."""

    name: str
    cells: tuple[tuple[float, str], ...]
    """(level, cell_id), ascending."""


def factor_of(run: StoredRun) -> str | None:
    """The factor of the axis: connections, or the first in numbers with two levels or more; None: there is none."""
    counted: dict[str, set[float]] = {}
    for cell in run.manifest.cells:
        for name, level in cell.levels.items():
            if isinstance(level, int | float) and not isinstance(level, bool) and level > 0:
                counted.setdefault(name, set()).add(float(level))
    several = [name for name, levels in counted.items() if len(levels) > 1]
    return PREFERRED if PREFERRED in several else next(iter(several), None)


def lines_of(run: StoredRun, factor: str) -> list[Line]:
    """Cells that differ in the factor alone, in the order of the plan."""
    found: dict[str, list[tuple[float, str]]] = {}
    levels: dict[str, set[str]] = {}
    for cell in run.manifest.cells:
        for name, one in cell.levels.items():
            levels.setdefault(name, set()).add(str(one))
    varying = [name for name, texts in levels.items() if name != factor and len(texts) > 1]
    for cell in run.manifest.cells:
        level = cell.levels.get(factor)
        if controlled(cell.cell_id) is not None or cell.unsupported is not None:
            continue
        if isinstance(level, int | float) and not isinstance(level, bool) and level > 0:
            found.setdefault(_name(cell, varying), []).append((float(level), cell.cell_id))
    return [Line(name, tuple(sorted(cells))) for name, cells in found.items()]


def _name(cell: CellRecord, varying: Sequence[str]) -> str:
    """What tells the line apart: the levels that vary, but the factor's."""
    return ", ".join(level_name(name, cell.levels[name]) for name in varying if name in cell.levels) or "all trials"


def dress(axes: Axes, heading: str, text: Callable[[float | None], str], factor: str, lines: Sequence[Line]) -> None:
    """What axes against the factor have in common: its levels below, values from 0 as `text` writes them."""
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
