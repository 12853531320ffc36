"""Trials as figures draw them: filled or solid where they count, hollow or dotted where a verdict voids them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from benchkit.report.style import colour, dashes, hover, marker
from benchkit.report.theme import SURFACE

HOLLOW = "hollow: it does not count"
DOTTED = "dotted: it does not count"
"""What a figure says of such marks and lines where it has any."""

_DOTS: Any = (0, (1, 2.2))
"""Of no level: theirs are `benchkit.report.style.DASHES`."""
_RIM, _FAINT = 0.9, 0.75


@dataclass(frozen=True)
class Mark:
    """A trial at its place, what is said of it, and (`void`) why it does not count."""

    x: float
    y: float
    text: str
    void: str | None = None


def draw_marks(axes: Axes, hue: int, marks: Sequence[Mark], *, area: float = 13.0, rim: float = 0.0) -> None:
    """Marks in the shape and colour of a level; `area` in square points, `rim` the width of a light one around each."""
    for hollow in (False, True):
        drawn = [mark for mark in marks if (mark.void is not None) == hollow]
        if not drawn:
            continue
        points = axes.scatter(
            [mark.x for mark in drawn],
            [mark.y for mark in drawn],
            s=area,
            marker=marker(hue),
            color=SURFACE.light if hollow else colour(hue),
            edgecolors=colour(hue) if hollow else SURFACE.light,
            linewidths=(2 * rim or _RIM) if hollow else rim,
            alpha=None if hollow or rim else _FAINT,
            zorder=3,
            clip_on=False,  # nothing reaches outside; a clip for each mark would triple the file
        )
        hover(points, *(mark.text if mark.void is None else f"{mark.text} ({mark.void})" for mark in drawn))


def draw_lines(axes: Axes, hue: int, lines: Sequence[np.ndarray], void: Sequence[bool]) -> None:
    """Lines of (x, y) rows, one a trial, in the colour and dashes of a level; `void` says which do not count."""
    for dotted in (False, True):
        drawn = [line for line, out in zip(lines, void, strict=True) if out == dotted]
        if drawn:
            style = _DOTS if dotted else dashes(hue)
            axes.add_collection(
                LineCollection(drawn, colors=colour(hue), linestyles=[style], linewidths=1.0, alpha=_FAINT)
            )


def any_void(trials: pd.DataFrame, void: Mapping[str, str]) -> bool:
    """Whether any of these trials does not count."""
    return bool(void) and not void.keys().isdisjoint(trials["trial_id"])
