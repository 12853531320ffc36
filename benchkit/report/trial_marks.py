"""Marks and lines of trials in figures: filled or solid if included, hollow or dotted if excluded."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection

from benchkit.report.style import colour, dashes, hover, marker
from benchkit.report.theme import GRID, SURFACE

HOLLOW = "hollow: excluded"
DOTTED = "dotted: excluded"
"""Notes in the subtitle of a figure that has such marks or lines."""

_DOTS: Any = (0, (1, 2.2))
"""Line style of no level; those of levels are `benchkit.report.style.DASHES`."""
_RIM, _FAINT = 0.9, 0.75


@dataclass(frozen=True)
class Mark:
    """A trial at its place with its hover text, and the reason why it is excluded (None if it is not)."""

    x: float
    y: float
    text: str
    exclusion: str | None = None


def draw_marks(axes: Axes, hue: int, marks: Sequence[Mark], *, area: float = 13.0, rim: float = 0.0) -> None:
    """Draw marks in the shape and colour of a level; `area` in square points, `rim` the width of a light edge."""
    for hollow in (False, True):
        drawn = [mark for mark in marks if (mark.exclusion is not None) == hollow]
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
            clip_on=False,  # no mark lies outside the axes; a clip path for each would triple the file
        )
        points.set_in_layout(False)
        hover(points, *(mark.text if mark.exclusion is None else f"{mark.text} ({mark.exclusion})" for mark in drawn))


def draw_lines(axes: Axes, hue: int, lines: Sequence[np.ndarray], excluded: Sequence[bool]) -> None:
    """Draw lines of (x, y) rows, one per trial, in the colour and dashes of a level."""
    for dotted in (False, True):
        drawn = [line for line, is_excluded in zip(lines, excluded, strict=True) if is_excluded == dotted]
        if drawn:
            style = _DOTS if dotted else dashes(hue)
            axes.add_collection(
                LineCollection(drawn, colors=colour(hue), linestyles=[style], linewidths=1.0, alpha=_FAINT)
            )


def draw_time_series(axes: Axes, hue: int, samples: pd.DataFrame, exclusions: Container[str]) -> None:
    """Draw the samples (trial_id, t_s, value) of each trial over time, those of excluded trials dotted."""
    lines = {
        str(trial_id): rows.sort_values("t_s")[["t_s", "value"]].to_numpy(dtype=float)
        for trial_id, rows in samples.groupby("trial_id", sort=True)
    }
    draw_lines(axes, hue, list(lines.values()), [trial_id in exclusions for trial_id in lines])


def shade_window(axes: Axes, durations_s: pd.Series[float]) -> None:
    """Shade the measured window, by the median of the durations of trials that start at 0; nothing without any."""
    if durations_s.notna().any():
        axes.axvspan(0, float(durations_s.median()), color=GRID.light, alpha=0.55, linewidth=0, zorder=0)
