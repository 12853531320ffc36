"""Lines of cells along a numeric factor, connections first of all, in the order of their levels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchkit.comparison.cell_labels import level_name
from benchkit.models.design import controlled
from benchkit.models.run import CellRecord
from benchkit.report.stored_run import StoredRun

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
