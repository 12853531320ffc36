"""Figures of synthetic runs, as they are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.figure import Figure
from matplotlib.font_manager import findfont

from benchkit.errors import InputError
from benchkit.report.figures.registry import FIGURES, get_figure
from benchkit.report.layout import sample_evenly
from benchkit.report.metric_values import known
from benchkit.report.rendering import render
from benchkit.report.stored_run import StoredRun
from benchkit.report.theme import SERIES
from tests.support.report.fixtures import watched
from tests.support.report.reading import drawn_texts
from tests.support.report.variants import ROUNDS, SECONDS, sliced, with_series

MakeRun = Callable[..., StoredRun]


DESIGNS = [
    {},
    {"stack": ["go", "nginx-go"]},
    {"stack": ["go", "nginx-http", "nginx-fcgi-tcp", "nginx-fcgi-unix"], "gomaxprocs": [1, 8]},
    {"connections": list(range(100, 900, 100)), "backend": ["a", "b", "c", "d", "e", "f", "g"]},
]


def points(figure: Figure) -> list[PathCollection]:
    return [artist for axes in figure.axes for artist in axes.collections if isinstance(artist, PathCollection)]


def curves(axes: Axes) -> list[list[float]]:
    """Return the latencies along each curve."""
    lines = [artist for artist in axes.collections if isinstance(artist, LineCollection)]
    return [np.asarray(curve)[:, 1].tolist() for line in lines for curve in line.get_segments()]


def test_the_registry_names_its_figures() -> None:
    assert list(FIGURES)[:3] == ["rps", "ratios", "why"]
    assert all(name == figure.name for name, figure in FIGURES.items())
    assert get_figure("rps").title == "Requests per second by cell"
    with pytest.raises(InputError, match="no figure 'speed'") as refused:
        get_figure("speed")
    assert "rps, ratios, why, latency" in str(refused.value)


@pytest.mark.parametrize("name", FIGURES)
@pytest.mark.parametrize("factors", DESIGNS, ids=lambda factors: "x".join(factors) or "one cell")
def test_every_figure_draws_every_design(make_run: MakeRun, name: str, factors: dict[str, list[str | int]]) -> None:
    run = watched(make_run(factors, blocks=3))
    if not FIGURES[name].is_available(run):
        assert name not in {"rps", "latency", "throughput", "host-activity", "accept-queue"}
        return
    drawing = render(FIGURES[name], run)
    assert drawing.png.startswith(b"\x89PNG")
    assert drawing.svg.startswith(b"<?xml")
    assert drawing.element.startswith("<svg")
    assert FIGURES[name].alt(run)
    assert FIGURES[name].caption(run)


def test_rps_shows_every_trial_where_it_was_measured(run: StoredRun) -> None:
    figure = get_figure("rps").draw(run)
    drawn = [x for marks in points(figure) for x in np.asarray(marks.get_offsets())[:, 0]]
    assert sorted(drawn) == pytest.approx(sorted(known(run.trials["rps"])))


def test_rps_bars_begin_at_zero_and_their_ends_are_the_means(run: StoredRun) -> None:
    figure = get_figure("rps").draw(run)
    (axes,) = figure.axes
    ends, _ = [artist for artist in axes.collections if isinstance(artist, LineCollection)]
    assert axes.get_xlim()[0] == 0
    assert [float(end[0][0]) for end in ends.get_segments()] == pytest.approx([71573.3, 39638.6], abs=0.5)
    assert {"71,573", "39,639", "go", "nginx-go"} <= set(drawn_texts(figure))


def test_rps_has_a_row_for_cells_without_a_rate(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx", "node"]}, unsupported={"stack=node": "no Node on this host"})
    run = replace(run, trials=run.trials[run.trials["cell_id"] != "stack=nginx"])
    shown = drawn_texts(get_figure("rps").draw(run))
    assert {"node", "not supported on these hosts", "nginx", "no trial ended with a rate"} <= set(shown)


def test_latency_draws_a_curve_for_each_trial_and_averages_none(run: StoredRun) -> None:
    (axes,) = get_figure("latency").draw(run).axes
    columns = ["latency_p50_s", "latency_p90_s", "latency_p99_s", "latency_p999_s", "latency_p9999_s"]
    stored = sorted(run.trials[columns].to_numpy().tolist())
    np.testing.assert_allclose(sorted(curves(axes)), stored)


def test_each_further_nine_of_the_latency_axis_takes_the_same_room(run: StoredRun) -> None:
    (axes,) = get_figure("latency").draw(run).axes
    assert list(axes.get_xticks()) == pytest.approx([0.30103, 1, 2, 3, 4], abs=1e-5)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["p50", "p90", "p99", "p99.9", "p99.99"]
    assert axes.get_yscale() == "log"


def test_latency_notes_its_method_in_the_subtitle(run: StoredRun) -> None:
    shown = drawn_texts(get_figure("latency").draw(run))
    assert any(text.startswith("closed loop: coordinated omission hides queueing") for text in shown)
    assert "one curve per trial" in shown


def test_a_percentile_that_a_trial_lacks_ends_its_curve(run: StoredRun) -> None:
    missing = run.trials.assign(latency_p999_s=None, latency_p9999_s=[math.nan] * 9 + [0.02])
    (axes,) = get_figure("latency").draw(replace(run, trials=missing)).axes
    assert sorted(len(curve) for curve in curves(axes)) == [3] * 9 + [4]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["p50", "p90", "p99", "p99.99"]


def test_zero_below_a_tools_resolution_does_not_break_the_log_axis(run: StoredRun) -> None:
    rounded = run.trials.assign(latency_p50_s=0.0)
    (axes,) = get_figure("latency").draw(replace(run, trials=rounded)).axes
    assert axes.get_ylim()[0] > 0


def test_figures_without_their_data_are_not_available(run: StoredRun) -> None:
    columns = ["latency_p50_s", "latency_p90_s", "latency_p99_s", "latency_p999_s", "latency_p9999_s"]
    silent = replace(run, trials=run.trials.assign(rps=None, **dict.fromkeys(columns)))
    empty = replace(run, trials=run.trials.iloc[:0])
    assert [name for name, figure in FIGURES.items() if figure.is_available(run)] == [
        "rps",
        "ratios",
        "latency",
        "throughput",
    ]
    assert not any(figure.is_available(silent) for figure in FIGURES.values())
    assert not any(figure.is_available(empty) for figure in FIGURES.values())


def test_the_cost_of_protocols_is_the_cpu_time_of_each_cell(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "protocol": ["http1", "https1"]}, blocks=3)
    figure = get_figure("protocol-cost")
    encrypted = run.trials["factor_protocol"] == "https1"
    plain = replace(run, trials=run.trials.assign(protocol="http1", server_cpu_s_per_request=2e-5))
    assert not figure.is_available(plain)
    cost = run.trials["block"] * 1e-4
    trials = run.trials.assign(
        protocol=run.trials["factor_protocol"],
        server_cpu_s_per_request=cost.where(encrypted, 2e-5),
        server_cpu_s_per_handshake=cost.where(encrypted),
    )
    run = replace(run, trials=trials)
    assert figure.is_available(run)
    drawn = figure.draw(run)
    requests, handshakes = drawn.axes
    assert [text.get_text() for text in requests.get_yticklabels()] == ["go", "nginx"] * 2
    assert {"http1", "https1", "20.0 µs", "200 µs"} <= set(drawn_texts(drawn))
    shown = [
        np.asarray(marks.get_offsets())[:, 0] for marks in handshakes.collections if isinstance(marks, PathCollection)
    ]
    assert sorted(np.concatenate(shown)) == pytest.approx(sorted(cost[encrypted]))
    assert "per handshake: nginx, https1 200 µs; go, https1 200 µs" in figure.alt(run)


def test_panels_are_limited_with_a_note_in_the_caption(make_run: MakeRun) -> None:
    run = make_run({"backend": ["a", "b"], "connections": list(range(100, 1600, 100))}, blocks=1)
    figure = get_figure("latency")
    assert len(figure.draw(run).axes) == 12
    assert "3 more panels are not drawn; the table has all." in figure.caption(run)


def test_a_stack_keeps_its_colour_in_every_figure(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx", "node"]}, unsupported={"stack=go": "no Go on this host"})
    for figure in (FIGURES["rps"], FIGURES["latency"], FIGURES["throughput"]):
        colours = {to_hex(to_rgba_array(marks.get_facecolor())[0]) for marks in points(figure.draw(run))}
        assert colours == {SERIES[1].light, SERIES[2].light}


def test_alt_texts_name_the_extremes_of_many_cells(make_run: MakeRun) -> None:
    run = make_run({"backend": ["a", "b"], "connections": list(range(100, 1600, 100))}, blocks=1)
    assert "of 30 cells, the highest and the lowest" in get_figure("rps").alt(run)


def test_names_are_not_drawn_as_formulas(make_run: MakeRun) -> None:
    run = make_run({"stack": ["$x^2$", "日本\N{RIGHT-TO-LEFT OVERRIDE}"]})
    shown = drawn_texts(get_figure("rps").draw(run))
    assert "$x^2$" in shown
    assert "\N{REPLACEMENT CHARACTER}" * 3 in shown
    render(get_figure("rps"), run)  # a missing glyph would warn, and warnings are errors


def test_the_style_is_independent_of_matplotlibs_settings(run: StoredRun) -> None:
    drawn = {name: figure for name, figure in FIGURES.items() if figure.is_available(run)}
    plain = {name: render(figure, run).svg for name, figure in drawn.items()}
    with mpl.rc_context({"font.size": 22, "axes.grid": False, "svg.fonttype": "none", "savefig.transparent": True}):
        before = dict(mpl.rcParams)
        repeated = {name: render(figure, run).svg for name, figure in drawn.items()}
        assert dict(mpl.rcParams) == before
    assert repeated == plain


def test_the_font_comes_with_matplotlib() -> None:
    assert Path(findfont("DejaVu Sans")).is_relative_to(mpl.get_data_path())


def test_panels_are_sampled_evenly() -> None:
    assert sample_evenly(list("abc"), 3) == ["a", "b", "c"]
    assert sample_evenly(range(11), 6) == [0, 2, 4, 6, 8, 10]
    assert sample_evenly(range(100), 12) == [0, 33, 66, 99]


def test_each_trial_has_two_lines_in_the_panel_of_its_cell(run: StoredRun) -> None:
    shown = with_series(run)
    figure = get_figure("latency-over-time").draw(shown)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [shown.labels[view.cell_id] for view in shown.cells]
    points = [
        len(segment)
        for axes in figure.axes
        for artist in axes.collections
        if isinstance(artist, LineCollection)
        for segment in artist.get_segments()
    ]
    assert points == [SECONDS] * 2 * len(shown.measured)
    assert render(get_figure("latency-over-time"), shown).svg.startswith(b"<?xml")


def test_slices_are_drawn_for_each_block_and_cell(run: StoredRun) -> None:
    shown = sliced(run)
    figure = get_figure("slices").draw(shown)
    assert [axes.get_title(loc="left") for axes in figure.axes] == [f"block {block}" for block in range(1, 6)]
    for axes in figure.axes:
        lines = [artist for artist in axes.collections if isinstance(artist, LineCollection)]
        assert [len(segment) for line in lines for segment in line.get_segments()] == [ROUNDS, ROUNDS]
    drawing = render(get_figure("slices"), shown)
    assert drawing.svg.startswith(b"<?xml")
