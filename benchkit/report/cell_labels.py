"""What cells are called and how they are told apart: by colour along one factor, by panel along the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchkit.models.design import controlled
from benchkit.models.levels import level_text
from benchkit.models.run import CellRecord, Manifest
from benchkit.report.clean_text import clean

Level = str | int | float | bool

_MEANS_NOTHING_ALONE = frozenset({"on", "off", "yes", "no", "true", "false", "all", "auto", "none", "default"})


@dataclass(frozen=True)
class CellView:
    """A cell with its names; `hue` counts the levels of the factor that colours stand for."""

    cell_id: str
    label: str
    hue: int
    hue_label: str
    panel: str
    unsupported: str | None


def cell_views(manifest: Manifest) -> tuple[CellView, ...]:
    """The cells of a run in the order of its plan, those that its hosts could not carry included.

    Names hold only what differs between cells. Colours follow the first factor with levels in words (else the first
    one), so that a stack keeps its colour in every figure; the panel is what the other factors say. Controls are no
    cells of their own.
    """
    cells = [cell for cell in manifest.cells if controlled(cell.cell_id) is None]
    varying = _varying(cells)
    hue = next((name for name in varying if isinstance(cells[0].levels[name], str)), varying[0] if varying else None)
    hues = list(dict.fromkeys(_hue_label(cell, hue) for cell in cells))
    labels = [_label(cell.levels, varying, first=hue) or cell.cell_id for cell in cells]
    twice = {label for label, times in Counter(labels).items() if times > 1}
    return tuple(
        CellView(
            cell_id=cell.cell_id,
            label=clean(cell.cell_id if label in twice else label),
            hue=hues.index(_hue_label(cell, hue)),
            hue_label=clean(_hue_label(cell, hue)),
            panel=clean(_label(cell.levels, [name for name in varying if name != hue])),
            unsupported=cell.unsupported,
        )
        for cell, label in zip(cells, labels, strict=True)
    )


def baseline(manifest: Manifest) -> str:
    """The cell that ratios are taken to: the scenario's, or the first."""
    wanted = manifest.scenario.get("baseline")
    if isinstance(wanted, Mapping):
        for cell in manifest.cells:
            if wanted.items() <= cell.levels.items():
                return cell.cell_id
    return manifest.cells[0].cell_id


def factors(manifest: Manifest) -> dict[str, list[str]]:
    """The levels of each factor that differs between cells, as text, in the order of the plan."""
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
    """A level that says by itself what it is stands alone; `64` and `on` need their factor's name."""
    text = level_text(level)
    alone = isinstance(level, str) and not text[:1].isdigit() and text.lower() not in _MEANS_NOTHING_ALONE
    return text if alone else f"{factor} {text}"
