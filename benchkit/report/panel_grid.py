"""Panels of one figure, all with the same axes: what colour does not stand for stands side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit.report.figure_frame import WIDTH_IN, framed
from benchkit.report.row_layout import cut
from benchkit.report.style import drawable

MOST_PANELS = 12
"""More are left out of a figure, and its caption says so; `some` tells which."""

Thing = TypeVar("Thing")

_COLUMNS = 3
_SINGLE_IN, _PANEL_IN, _HEADING_IN, _BELOW_IN, _LABEL_IN, _LEFT_IN, _GAP_IN = 3.1, 1.75, 0.28, 0.34, 0.2, 0.82, 0.24


@dataclass(frozen=True)
class Grid:
    """The figure, its axes by panel, and the axes whose scales all of them share."""

    figure: Figure
    panels: Mapping[str, Axes]

    @property
    def first(self) -> Axes:
        """The axes in the upper left corner: what is set there holds for all."""
        return next(iter(self.panels.values()))


def grid(
    names: Sequence[str],
    *,
    title: str,
    subtitle: Sequence[str],
    foot: str,
    legend: Mapping[int, str] | None = None,
    x_label: str = "",
    y_label: str = "",
) -> Grid:
    """Axes for the panels of these names, up to `MOST_PANELS` of them; one without a name fills the figure."""
    names = some(names, MOST_PANELS)
    columns = min(_COLUMNS, len(names))
    lines = math.ceil(len(names) / columns)
    panel_in = _SINGLE_IN if len(names) == 1 else _PANEL_IN
    line_in = panel_in + _BELOW_IN + (_HEADING_IN if any(names) else 0)
    frame = framed(
        height_in=line_in * lines + (_LABEL_IN if x_label else 0),
        title=title,
        subtitle=subtitle,
        foot=foot,
        legend=legend,
    )
    column_in = (WIDTH_IN - _LEFT_IN) / columns
    panels: dict[str, Axes] = {}
    for i, name in enumerate(names):
        line, column = divmod(i, columns)
        down_in = line_in * (line + 1) - _BELOW_IN - panel_in
        first = next(iter(panels.values()), None)
        axes = frame.axes(_LEFT_IN + column_in * column, down_in, column_in - _GAP_IN, panel_in, like=first)
        axes.set_title(cut(drawable(name), column_in - _GAP_IN, 9.0, "bold"))
        lowest = i + columns >= len(names)
        axes.tick_params(labelleft=column == 0, labelbottom=lowest)
        if column == 0:
            axes.set_ylabel(y_label)
        if lowest:
            axes.set_xlabel(x_label)
        panels[name] = axes
    return Grid(frame.figure, panels)


def some(things: Sequence[Thing], most: int) -> list[Thing]:
    """All of so many things; of more as many, spread evenly, the first and the last among them.

    Of more than twice as many a third as many: where most are left out anyway, a few tell as much, and sooner.
    """
    if len(things) <= most:
        return list(things)
    number = most if len(things) <= 2 * most else most // 3
    return [things[round(i * (len(things) - 1) / (number - 1))] for i in range(number)]


def left_out(names: Sequence[str]) -> int:
    """How many panels a figure has no room for."""
    return len(names) - len(some(names, MOST_PANELS))
