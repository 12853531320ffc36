"""Panels: their marks, by the columns of frames, and the ticks of their axes."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection, PolyCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from benchkit import units
from benchkit.report.layout import Declaration
from benchkit.report.panels import (
    FigureRow,
    Panel,
    Scale,
    draw_averages,
    draw_bars,
    draw_intervals,
    draw_panels,
    draw_points,
    draw_rows,
    draw_shares,
)
from benchkit.report.style import style
from benchkit.report.theme import INK, SERIES, SURFACE

COUNT = Scale(units.count)


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


def ticks(scale: Scale) -> list[str]:
    """Return the labels of an axis with this scale."""
    axes = Figure().subplots()
    scale.apply(axes, "y")
    low, high = axes.get_ylim()
    places = axes.yaxis.get_major_locator()()
    return [axes.yaxis.get_major_formatter()(place) for place in places if low <= place <= high]


@pytest.mark.parametrize(
    ("scale", "labels"),
    [
        (Scale(units.count, low=0, high=10), ["0", "2", "4", "6", "8", "10"]),
        (Scale("{:g}".format, low=0.88, high=1.32, kind="log"), ["0.9", "1", "1.1", "1.2", "1.3"]),
        (Scale("{:g}".format, low=0.4, high=6, kind="log"), ["0.5", "1", "2", "5"]),
        (Scale(units.seconds, low=0.0005, high=2, kind="log"), ["1 ms", "10 ms", "100 ms", "1 s"]),
        (Scale(units.size, low=0, high=900 * 2**20), ["0 B", "256 MiB", "512 MiB", "768 MiB"]),
        (Scale(units.count, low=0.5, high=1.5, whole=True), ["1"]),
        (Scale("p{:g}".format, low=0, high=99, places=[50, 90]), ["p50", "p90"]),
    ],
)
def test_ticks_are_round_numbers(scale: Scale, labels: list[str]) -> None:
    assert ticks(scale) == labels


def test_points_are_hollow_if_excluded_or_said_to_be(axes: Axes) -> None:
    points = pd.DataFrame({"x": [1, 2, 3], "y": 0, "hue": [0, 0, None], "text": "trial"})
    reasons: list[str | None] = [None, "invalid: cold", None]
    exclusion = pd.Series(reasons, dtype=object)
    draw_points(axes, points.assign(exclusion=exclusion, hollow=[False, False, True]))
    marks = [each for each in axes.collections if isinstance(each, PathCollection)]
    found = {
        float(np.asarray(each.get_offsets())[0, 0]): (
            to_hex(np.asarray(each.get_facecolor())[0]),
            to_hex(np.asarray(each.get_edgecolor())[0]),
            (each.get_urls() or [None])[0],
        )
        for each in marks
    }
    tone = SERIES[0].light
    assert found == {
        1: (tone, tone, "hover:trial"),
        2: (SURFACE.light, tone, "hover:trial%20%28invalid%3A%20cold%29"),
        3: (SURFACE.light, INK.light, "hover:trial"),
    }


def test_intervals_lie_along_either_axis(axes: Axes) -> None:
    draw_intervals(axes, pd.DataFrame({"y": [0], "low": [1], "high": [2]}))
    draw_intervals(axes, pd.DataFrame({"x": [5], "low": [1], "high": [2]}), along="y")
    draw_intervals(axes, pd.DataFrame(columns=["x", "low", "high"]), along="y")
    lines = [each for each in axes.collections if isinstance(each, LineCollection)]
    assert [np.asarray(line).tolist() for each in lines for line in each.get_segments()] == [
        [[1, 0], [2, 0]],
        [[5, 1], [5, 2]],
    ]


def test_averages_have_a_band_where_it_is_known_and_gaps_where_they_are_not(axes: Axes) -> None:
    averages = pd.DataFrame({"x": [1, 2, 3], "y": [1, math.nan, 3], "hue": 0})
    draw_averages(axes, averages)
    assert not axes.collections
    np.testing.assert_array_equal(np.asarray(axes.get_lines()[0].get_ydata()), [1, math.nan, 3])
    draw_averages(axes, averages.assign(low=[0, math.nan, 2], high=[2, math.nan, 4]))
    assert len(axes.collections) == 1


def test_shares_follow_one_another_in_the_order_of_their_parts(axes: Axes) -> None:
    shares = pd.DataFrame(
        {"y": [0, 0, 0], "part": ["b", "a", "c"], "share": [0.5, 0.25, 0.0], "text": "part", "faint": False}
    )
    draw_shares(axes, shares, {"a": 1, "b": 0, "c": 2})
    draw_bars(axes, shares[:0])
    (bars,) = [each for each in axes.collections if isinstance(each, PolyCollection)]
    corners = [np.asarray(path.vertices)[:, 0] for path in bars.get_paths()]
    assert [(float(x.min()), float(x.max())) for x in corners] == [(0.0, 0.25), (0.25, 0.75)]
    assert [to_hex(tone) for tone in np.asarray(bars.get_facecolor())] == [SERIES[1].light, SERIES[0].light]


def test_panels_share_a_scale_that_is_the_same_for_all() -> None:
    declaration = Declaration("title", ["note"], "source")

    def draw(axes: Axes) -> None:
        axes.plot([0, 1], [0, 1])

    with style():
        alike = draw_panels(declaration, [Panel(draw, COUNT, name) for name in "abcd"], COUNT)
        own = draw_panels(declaration, [Panel(draw, Scale(units.count, high=high)) for high in (1, 2)], COUNT)
    first, second, *_, last = alike.axes
    assert [axes.get_title(loc="left") for axes in alike.axes] == ["a", "b", "c", "d"]
    assert first.get_shared_y_axes().joined(first, last)
    assert (first.yaxis.get_tick_params()["labelleft"], second.yaxis.get_tick_params()["labelleft"]) == (True, False)
    assert [axes.get_ylim()[1] for axes in own.axes] == [1, 2]


def test_rows_have_names_texts_and_headings() -> None:
    rows = [FigureRow(0, "heading", is_heading=True), FigureRow(1, "a", "10 s"), FigureRow(2.6, "b")]
    with style():
        figure = draw_rows(Declaration("title", [], "source"), rows, [Panel(lambda _: None, COUNT)] * 2)
    first, second = figure.axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for text in first.texts] == ["heading", "10 s"]
    assert first.get_ylim() == second.get_ylim() == (4 - 0.4, -0.6)
