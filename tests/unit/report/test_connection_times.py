"""The figure of the parts of response times: shares of the mean, and published rows below measured ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from benchkit.report.figures.registry import get_figure
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun

MakeRun = Callable[..., StoredRun]

PUBLISHED = {
    "cell": {"stack": "nginx"},
    "figures": {"connect_mean_s": 0.32, "processing_mean_s": 0.197, "first_byte_mean_s": 0.162, "latency_p50_s": 0.371},
}


@pytest.fixture
def divided(make_run: MakeRun) -> StoredRun:
    """Run with a mean of 4 ms for every cell: 1 ms connecting, 2 ms waiting, 1 ms receiving."""
    run = make_run({"stack": ["nginx", "go"]}, blocks=3, scenario={"published": [PUBLISHED]})
    run.trials[["connect_mean_s", "processing_mean_s", "first_byte_mean_s"]] = [0.001, 0.003, 0.002]
    return run


def test_bars_are_shares_of_the_mean_and_published_rows_follow_their_cell(divided: StoredRun) -> None:
    figure = get_figure("connection-times")
    bars, points = figure.draw(divided).axes
    assert [label.get_text() for label in bars.get_yticklabels()] == ["nginx", "published", "go"]
    ends: list[list[float]] = [
        [float(np.asarray(path.vertices)[:, 0].max()) for path in part.get_paths()] for part in bars.collections
    ]
    assert np.allclose(ends, [[0.25, 0.32 / 0.517, 0.25], [0.75, 0.482 / 0.517, 0.75], [1.0, 1.0, 1.0]])
    assert [len(np.asarray(line.get_xdata())) for line in points.get_lines()] == [4, 1, 4]
    assert "published 61.9 % of 517 ms" in figure.alt(divided)
    assert "Pale bars and hollow points are what the study published." in figure.caption(divided)
    assert render(figure, divided).png.startswith(b"\x89PNG")


def test_times_that_do_not_include_connecting_have_no_figure(run: StoredRun) -> None:
    assert not get_figure("connection-times").is_available(run)
