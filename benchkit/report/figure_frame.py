"""What all figures share around their axes: title, legend, foot, and places given in inches.

Places are computed, not solved for by a layout engine: both file formats have the same, and so has every machine.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from benchkit.report.style import colour, dashes, drawable, marker
from benchkit.report.theme import MUTED

WIDTH_IN = 7.6
EDGE_IN = 0.08
_TITLE_IN, _LINE_IN, _KEY_IN, _FOOT_IN = 0.25, 0.17, 0.20, 0.24
_LINE_CHARACTERS = 114
"""What fits into a line of the subtitle."""


@dataclass(frozen=True)
class Frame:
    """A figure with its surroundings drawn; below `top_in` (inches from its upper edge) is room for axes."""

    figure: Figure
    top_in: float

    def axes(self, left_in: float, down_in: float, width_in: float, height_in: float, like: Axes | None = None) -> Axes:
        """New axes at a place in the room, both of their scales shared with those `like` which they are."""
        height = self.figure.get_figheight()
        bottom = height - self.top_in - down_in - height_in
        place = (left_in / WIDTH_IN, bottom / height, width_in / WIDTH_IN, height_in / height)
        return self.figure.add_axes(place, sharex=like, sharey=like)


def framed(
    height_in: float, title: str, subtitle: Sequence[str], foot: str, legend: Mapping[int, str] | None = None
) -> Frame:
    """A figure of the standard width with `height_in` inches of room; a legend maps hues to their names."""
    keys = {hue: drawable(name) for hue, name in (legend or {}).items()}
    columns = _columns(keys)
    lines = [line for text in subtitle for line in textwrap.wrap(drawable(text), _LINE_CHARACTERS)]
    legend_down = EDGE_IN + _TITLE_IN + _LINE_IN * len(lines) + EDGE_IN
    top_in = legend_down + _KEY_IN * math.ceil(len(keys) / columns)
    height = top_in + height_in + _FOOT_IN
    figure = Figure(figsize=(WIDTH_IN, height))
    left = EDGE_IN / WIDTH_IN
    figure.text(left, 1 - EDGE_IN / height, drawable(title), size=12, weight="bold", va="top")
    for i, line in enumerate(lines):
        figure.text(left, 1 - (EDGE_IN + _TITLE_IN + _LINE_IN * i) / height, line, color=MUTED.light, va="top")
    if keys:
        figure.legend(
            [Line2D([], [], color=colour(hue), marker=marker(hue), ls=dashes(hue), markersize=5) for hue in keys],
            list(keys.values()),
            loc="upper left",
            bbox_to_anchor=(left, 1 - legend_down / height),
            ncols=columns,
            borderpad=0,
            borderaxespad=0,
            handlelength=2.2,
        )
    figure.text(left, EDGE_IN / height, drawable(foot), size=7, color=MUTED.light, va="bottom")
    return Frame(figure, top_in)


def _columns(keys: Mapping[int, str]) -> int:
    """As many names side by side as fit, the longest of them with its mark in each column."""
    longest = max(map(len, keys.values()), default=0)
    return max(1, min(4, len(keys), _LINE_CHARACTERS // (longest + 9)))
