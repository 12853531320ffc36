"""Labels of cells, and their place in figures: colour along one factor, panels along the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchkit.models.base import Level, level_text
from benchkit.models.design import controlled
from benchkit.models.run import CellRecord, Manifest
from benchkit.safe_text import clean

UNWATCHED = " (unwatched)"
"""End of the labels of cells with a server that benchkit did not watch."""

_UNCLEAR_ALONE = frozenset({"on", "off", "yes", "no", "true", "false", "all", "auto", "none", "default"})


@dataclass(frozen=True)
class CellView:
    """A cell with its labels; `hue` is the number of its level of the factor that colours show."""

    cell_id: str
    label: str
    hue: int
    hue_label: str
    panel: str
    unsupported: str | None


def cell_views(manifest: Manifest) -> tuple[CellView, ...]:
    """Return the cells of a run in the order of its plan, unsupported ones included, controls excepted.

    Labels contain the levels that differ between cells; that of a single cell contains all. They say if a server is not
    watched. Colours follow the first factor whose levels are words, else the first factor, so that a stack keeps its
    colour in every figure. Panels follow the other factors.
    """
    cells = [cell for cell in manifest.cells if controlled(cell.cell_id) is None]
    varying = _varying(cells)
    hue = next((name for name in varying if isinstance(cells[0].levels[name], str)), varying[0] if varying else None)
    hues = list(dict.fromkeys(_hue_label(cell, hue) for cell in cells))
    labels = [_label(cell.levels, varying or cell.levels, first=hue) or cell.cell_id for cell in cells]
    ambiguous = {label for label, times in Counter(labels).items() if times > 1}
    return tuple(
        CellView(
            cell_id=cell.cell_id,
            label=clean(cell.cell_id if label in ambiguous else label) + (UNWATCHED if cell.is_unwatched else ""),
            hue=hues.index(_hue_label(cell, hue)),
            hue_label=clean(_hue_label(cell, hue)),
            panel=clean(_label(cell.levels, [name for name in varying if name != hue])),
            unsupported=cell.unsupported,
        )
        for cell, label in zip(cells, labels, strict=True)
    )


def factors(manifest: Manifest) -> dict[str, list[str]]:
    """Return the levels of each factor that differs between cells, as text, in the order of the plan."""
    return {
        name: list(dict.fromkeys(level_text(cell.levels[name]) for cell in manifest.cells))
        for name in _varying(manifest.cells)
    }


def _varying(cells: Sequence[CellRecord]) -> list[str]:
    names = dict.fromkeys(name for cell in cells for name in cell.levels)
    return [name for name in names if len({level_text(cell.levels[name]) for cell in cells}) > 1]


def _hue_label(cell: CellRecord, hue: str | None) -> str:
    return cell.cell_id if hue is None else level_name(hue, cell.levels[hue])


def _label(levels: Mapping[str, Level], names: Iterable[str], first: str | None = None) -> str:
    ordered = sorted(names, key=lambda name: name != first)
    return ", ".join(level_name(name, levels[name]) for name in ordered)


def level_name(factor: str, level: Level) -> str:
    """Return the name of a level, with its factor if the level alone is unclear, such as `64` or `on`."""
    text = level_text(level)
    is_clear = isinstance(level, str) and not text[:1].isdigit() and text.lower() not in _UNCLEAR_ALONE
    return text if is_clear else f"{factor} {text}"
