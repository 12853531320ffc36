"""Layers by the columns of frames, the ticks of axes, and charts of panels and of rows."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex
from matplotlib.figure import Figure

from benchkit import units
from benchkit.report.chart import Chart, ChartRow, Panel, Scale, draw, sample_evenly
from benchkit.report.layers import averages, intervals, points
from benchkit.report.style import INK, SERIES, SURFACE

COUNT = Scale(units.count)


@pytest.fixture
def axes() -> Axes:
    return Figure().subplots()


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
def test_ticks_are_round_numbers(axes: Axes, scale: Scale, labels: list[str]) -> None:
    scale.apply(axes, "y")
    low, high = axes.get_ylim()
    places = axes.yaxis.get_major_locator()()
    assert [axes.yaxis.get_major_formatter()(place) for place in places if low <= place <= high] == labels


def test_points_are_hollow_if_excluded_or_said_to_be(axes: Axes) -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "y": 0, "hue": [0, 0, None]})
    reasons: list[str | None] = [None, "invalid: cold", None]
    exclusion = pd.Series(reasons, dtype=object)
    points(frame.assign(exclusion=exclusion, hollow=[False, False, True]))(axes)
    found = {
        float(np.asarray(each.get_offsets())[0, 0]): (
            to_hex(np.asarray(each.get_facecolor())[0]),
            to_hex(np.asarray(each.get_edgecolor())[0]),
        )
        for each in axes.collections
        if isinstance(each, PathCollection)
    }
    tone = SERIES[0].light
    assert found == {
        1: (tone, tone),
        2: (SURFACE.light, tone),
        3: (SURFACE.light, INK.light),
    }


def test_intervals_lie_along_either_axis(axes: Axes) -> None:
    intervals(pd.DataFrame({"y": [0], "low": [1], "high": [2]}))(axes)
    intervals(pd.DataFrame({"x": [5], "low": [1], "high": [2]}), along="y")(axes)
    intervals(pd.DataFrame(columns=["x", "low", "high"]), along="y")(axes)
    drawn = [each for each in axes.collections if isinstance(each, LineCollection)]
    assert [np.asarray(line).tolist() for each in drawn for line in each.get_segments()] == [
        [[1, 0], [2, 0]],
        [[5, 1], [5, 2]],
    ]


def test_averages_have_gaps_where_they_are_unknown(axes: Axes) -> None:
    averages(pd.DataFrame({"x": [1, 2, 3], "y": [1, math.nan, 3], "hue": 0}))(axes)
    np.testing.assert_array_equal(np.asarray(axes.get_lines()[0].get_ydata()), [1, math.nan, 3])


def test_panels_share_a_scale_that_is_the_same_for_all() -> None:
    alike = draw(Chart("Four.", [Panel([], COUNT, name) for name in "abcd"], x=COUNT), "title", "source")
    own = draw(Chart("Two.", [Panel([], Scale(units.count, high=high)) for high in (1, 2)], x=COUNT), "title", "source")
    first, second, *_, last = alike.axes
    assert [axes.get_title(loc="left") for axes in alike.axes] == ["a", "b", "c", "d"]
    assert first.get_shared_y_axes().joined(first, last)
    assert (first.yaxis.get_tick_params()["labelleft"], second.yaxis.get_tick_params()["labelleft"]) == (True, False)
    assert [axes.get_ylim()[1] for axes in own.axes] == [1, 2]


def test_rows_have_names_texts_and_headings() -> None:
    rows = [ChartRow("heading", is_heading=True), ChartRow("a", "10 s"), ChartRow("b")]
    first, second = draw(Chart("Rows.", [Panel([], COUNT)] * 2, rows=rows), "title", "source").axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["a", "b"]
    assert [text.get_text() for axes in (first, second) for text in axes.texts] == ["heading", "10 s"]
    assert first.get_ylim() == second.get_ylim() == (3 - 0.4, -0.6)


def test_panels_are_sampled_evenly() -> None:
    assert sample_evenly(list("abc"), 3) == ["a", "b", "c"]
    assert sample_evenly(range(11), 6) == [0, 2, 4, 6, 8, 10]
    assert sample_evenly(range(100), 4) == [0, 33, 66, 99]
