"""Figures of synthetic runs, as they are drawn."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection
from matplotlib.colors import to_hex, to_rgba_array
from matplotlib.font_manager import findfont

from benchkit.errors import InputError
from benchkit.report.chart import MAX_ROWS
from benchkit.report.figure import draw_figure
from benchkit.report.figures.load import numeric_factor
from benchkit.report.figures.over_time import counter_sums, rates
from benchkit.report.figures.registry import FIGURES, get_figure
from benchkit.report.report_files import draw_figures
from benchkit.report.stored_run import StoredRun, known
from benchkit.report.style import SERIES
from tests.support.report.fixtures import watched
from tests.support.report.reading import chart, drawn, drawn_texts, headings, points, segments
from tests.support.report.variants import ROUNDS, SECONDS, sliced, with_series
from tests.unit.report.test_sections import CLAIM_LIST, STACKS, with_control

MakeRun = Callable[..., StoredRun]
DESIGNS = [
    {},
    {"stack": ["go", "nginx-go"]},
    {"stack": ["go", "nginx-http", "nginx-fcgi-tcp", "nginx-fcgi-unix"], "gomaxprocs": [1, 8]},
    {"connections": [100, 200, 300, 400], "backend": ["a", "b", "c", "d", "e", "f", "g"]},
]


def available(run: StoredRun) -> list[str]:
    return [name for name, figure in FIGURES.items() if figure.chart(run) is not None]


def test_the_registry_names_its_figures() -> None:
    assert list(FIGURES)[:3] == ["rps", "ratios", "why"]
    assert all(name == figure.name for name, figure in FIGURES.items())
    with pytest.raises(InputError, match="no figure 'speed'") as refused:
        get_figure("speed")
    assert "rps, ratios, why, load-curve, latency" in str(refused.value)


@pytest.mark.parametrize("factors", DESIGNS, ids=lambda factors: "x".join(factors) or "one cell")
def test_figures_draw_every_design_with_a_caption_of_one_sentence(
    make_run: MakeRun, factors: dict[str, list[str | int]]
) -> None:
    drawings = draw_figures(watched(make_run(factors, blocks=3)))
    assert {each.name for each in drawings} >= {"rps", "latency", "over-time"}
    for drawing in drawings:
        assert drawing.png.startswith(b"\x89PNG")
        assert drawing.svg.startswith(b"<?xml")
        assert drawing.element.startswith("<svg")
        assert drawing.chart.caption.endswith(".")
        assert ". " not in drawing.chart.caption


def test_figures_without_their_data_are_not_drawn(run: StoredRun) -> None:
    columns = ["latency_p50_s", "latency_p90_s", "latency_p99_s", "latency_p999_s", "latency_p9999_s"]
    assert available(run) == ["rps", "ratios", "latency"]
    assert available(replace(run, trials=run.trials.assign(rps=None, **dict.fromkeys(columns)))) == []
    assert available(replace(run, trials=run.trials.iloc[:0])) == []


def test_the_style_is_independent_of_matplotlibs_settings(run: StoredRun) -> None:
    plain = [each.svg for each in draw_figures(run)]
    with mpl.rc_context({"font.size": 22, "axes.grid": False, "svg.fonttype": "none", "savefig.transparent": True}):
        before = dict(mpl.rcParams)
        repeated = [each.svg for each in draw_figures(run)]
        assert dict(mpl.rcParams) == before
    assert repeated == plain
    assert Path(findfont("DejaVu Sans")).is_relative_to(mpl.get_data_path())


def test_names_are_not_drawn_as_formulas(make_run: MakeRun) -> None:
    run = make_run({"stack": ["$x^2$", "日本\N{RIGHT-TO-LEFT OVERRIDE}"]})
    assert {"$x^2$", "\N{REPLACEMENT CHARACTER}" * 3} <= set(drawn_texts(drawn("rps", run)))
    draw_figure(FIGURES["rps"], run)  # a missing glyph would warn, and warnings are errors


def test_a_stack_keeps_its_colour_in_every_figure(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx", "node"]}, unsupported={"stack=go": "no Go on this host"})
    for name in ("rps", "latency"):
        marks = [
            each for axes in drawn(name, run).axes for each in axes.collections if isinstance(each, PathCollection)
        ]
        colours = {to_hex(to_rgba_array(each.get_facecolor())[0]) for each in marks}
        assert colours == {SERIES[1].light, SERIES[2].light}


def test_rps_shows_every_trial_and_bars_from_zero_to_the_means(run: StoredRun) -> None:
    figure = drawn("rps", run)
    assert sorted(x for x, _ in points(figure)) == pytest.approx(sorted(known(run.trials["rps"])))
    (axes,) = figure.axes
    assert axes.get_xlim()[0] == 0
    assert [line[0][0] for line in segments(axes)[:2]] == pytest.approx([71573.3, 39638.6], abs=0.5)
    assert {"71,573", "39,639", "go", "nginx-go"} <= set(drawn_texts(figure))


def test_rps_has_a_row_for_cells_without_a_rate_up_to_a_limit(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx", "node"]}, unsupported={"stack=node": "no Node on this host"})
    run = replace(run, trials=run.trials[run.trials["cell_id"] != "stack=nginx"])
    shown = drawn_texts(drawn("rps", run))
    assert {"node", "not supported on these hosts", "nginx", "no trial ended with a rate"} <= set(shown)
    many = make_run({"n": list(range(1, MAX_ROWS + 3))}, blocks=1)
    assert chart("rps", many).caption.endswith("; 2 more cells are not drawn.")


def test_the_figure_of_ratios_has_a_row_for_each_ratio_and_each_claim(make_run: MakeRun) -> None:
    run = with_control(make_run(STACKS, blocks=8, scenario={"claims": CLAIM_LIST}))
    figure = drawn("ratios", run)
    assert {"nginx", "node", "go (control)", "holds", "refuted"} <= set(drawn_texts(figure))
    assert {"Claim: nginx costs a half", "Claim: Node is no slower"} <= set(drawn_texts(figure))
    assert 0.48 in [x for x, _ in points(figure)]
    ends = [[start[0], end[0]] for start, end in segments(figure.axes[0])]
    for ratio in run.comparisons[0].ratios:
        assert any(each == pytest.approx([ratio.low, ratio.high]) for each in ends)
    assert get_figure("ratios").chart(make_run(STACKS, blocks=2)) is None


def test_the_subtitle_of_ratios_names_the_levels_of_several_baselines(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "cores": [1, 8]}, blocks=4, scenario={"baseline": {"stack": "go"}})
    assert (
        "RPS relative to the cell that differs in stack=go alone; line: 95% interval" in chart("ratios", run).subtitle
    )


def test_a_huge_interval_does_not_dwarf_the_others(make_run: MakeRun) -> None:
    run = make_run(STACKS, blocks=3)
    wild = run.trials.assign(
        rps=lambda frame: frame["rps"] * (1 + 1e6 * ((frame["cell_id"] == "stack=node") & (frame["block"] == 2)))
    )
    low, high = drawn("ratios", replace(run, trials=wild)).axes[0].get_xlim()
    assert high / low < 1e4
    assert low < 0.5


def test_the_ratios_farthest_from_1_are_drawn(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx"], "connections": list(range(1, 51))}, blocks=3)
    drawn_ratios = sorted(abs(math.log(x)) for x, _ in points(drawn("ratios", run)))
    every = sorted(abs(math.log(ratio.ratio or 1)) for ratio in run.comparisons[0].ratios)
    assert drawn_ratios == pytest.approx(every[-MAX_ROWS:])
    assert chart("ratios", run).caption.endswith("; 59 more ratios are not drawn.")


def test_latency_draws_a_curve_for_each_trial_and_averages_none(run: StoredRun) -> None:
    figure = drawn("latency", run)
    (axes,) = figure.axes
    columns = ["latency_p50_s", "latency_p90_s", "latency_p99_s", "latency_p999_s", "latency_p9999_s"]
    curves = [[y for _, y in line] for line in segments(axes)]
    np.testing.assert_allclose(sorted(curves), sorted(run.trials[columns].to_numpy().tolist()))
    assert list(axes.get_xticks()) == pytest.approx([0.30103, 1, 2, 3, 4], abs=1e-5)
    assert [label.get_text() for label in axes.get_xticklabels()] == ["p50", "p90", "p99", "p99.9", "p99.99"]
    assert axes.get_yscale() == "log"
    assert any(text.startswith("closed loop: coordinated omission hides queueing") for text in drawn_texts(figure))


def test_a_percentile_that_a_trial_lacks_or_that_is_zero_ends_no_axis(run: StoredRun) -> None:
    missing = run.trials.assign(latency_p999_s=None, latency_p9999_s=[math.nan] * 9 + [0.02])
    (axes,) = drawn("latency", replace(run, trials=missing)).axes
    assert sorted(map(len, segments(axes))) == [3] * 9 + [4]
    rounded = run.trials.assign(latency_p50_s=0.0)
    assert drawn("latency", replace(run, trials=rounded)).axes[0].get_ylim()[0] > 0


def test_a_large_figure_is_small_and_reproducible(make_run: MakeRun) -> None:
    run = make_run({"stack": ["a", "b", "c", "d", "e"], "connections": list(range(1, 9))}, blocks=10)
    one, other = (draw_figure(get_figure("rps"), run) for _ in range(2))
    assert one is not None
    assert other is not None
    assert len(one.element) < 250_000
    assert (one.svg, one.png) == (other.svg, other.png)


def test_panels_are_limited_with_a_note_in_the_caption(make_run: MakeRun) -> None:
    found = chart("latency", make_run({"backend": ["a", "b"], "connections": list(range(100, 1600, 100))}, blocks=1))
    assert len(found.panels) == 12
    assert found.caption.endswith("; 3 more panels are not drawn.")


def test_the_axis_of_load_is_connections_else_the_first_numeric_factor(make_run: MakeRun) -> None:
    assert numeric_factor(make_run({"workers": [1, 2], "connections": [8, 64]})) == "connections"
    assert numeric_factor(make_run({"stack": ["a", "b"], "workers": [1, 2]})) == "workers"
    assert numeric_factor(make_run({"stack": ["a", "b"], "workers": [2]})) is None
    assert get_figure("load").chart(make_run({"stack": ["a", "b"]})) is None


def test_load_joins_means_and_has_panels_for_what_is_known(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx-go"], "connections": [8, 64, 512]}, blocks=3)
    run.trials["server_cpu_s_per_request"] = 2e-5
    figure = drawn("load", run)
    assert headings(figure) == ["requests per second", "p50 latency", "p99 latency", "server CPU per request"]
    logs = (
        run.trials.assign(rps=np.log(run.trials["rps"])).groupby(["factor_stack", "factor_connections"])["rps"].mean()
    )
    for line, stack in zip(figure.axes[0].get_lines(), ("go", "nginx-go"), strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), np.exp(logs[stack].to_numpy()))
    assert list(figure.axes[0].get_xticks()) == [8, 64, 512]


def test_load_is_drawn_against_the_target_rates_that_a_factor_sets(make_run: MakeRun) -> None:
    run = make_run({"share": [0.5, 1.0]}, blocks=2)
    run.trials["rate_requested"] = run.trials["factor_share"].astype(float) * 3000
    figure = drawn("load", run)
    assert np.asarray(figure.axes[0].get_lines()[0].get_xdata()).tolist() == [1500, 3000]
    assert "target rate, requests/s" in drawn_texts(figure)


def test_over_time_has_the_seconds_of_each_trial(run: StoredRun) -> None:
    figure = drawn("over-time", with_series(run))
    assert headings(figure) == ["requests/s", "p50 latency", "p99 latency"]
    for axes in figure.axes:
        assert [len(line) for line in segments(axes)] == [SECONDS] * len(run.measured)
    assert get_figure("over-time").chart(with_series(run, seconds=2)) is None


def test_over_time_has_the_slices_of_each_trial(run: StoredRun) -> None:
    (axes,) = drawn("over-time", sliced(run)).axes
    assert [len(line) for line in segments(axes)] == [ROUNDS] * len(run.measured)


def test_over_time_has_the_telemetry_of_the_hosts_of_servers(make_run: MakeRun) -> None:
    run = watched(make_run({"stack": ["go", "nginx-go"]}, blocks=3))
    figure = drawn("over-time", run)
    assert headings(figure) == ["CPUs busy with servers", "sent and received", "accept queue"]
    for axes, wanted in zip(figure.axes, (0.8, 1e6, 7), strict=True):
        lines = [np.asarray(line) for line in segments(axes)]
        assert len(lines) == 6
        for line in lines:
            inside = line[(line[:, 0] >= 1) & (line[:, 0] <= 4)][:, 1]
            np.testing.assert_allclose(inside, wanted)


def samples(*rows: tuple[str, float, float]) -> pd.DataFrame:
    """Return telemetry of one counter: (instance, t_s, value)."""
    frame = pd.DataFrame(rows, columns=["instance", "t_s", "value"])
    return frame.assign(trial_id="t", host="sut", metric="cpu_user_s_total")


def test_a_sum_over_cores_needs_all_cores() -> None:
    counted = samples(("0", 0, 1), ("1", 0, 2), ("0", 1, 3), ("0", 2, 5), ("1", 2, 4))
    summed = counter_sums(counted, ["cpu_user_s_total"], ["host"])
    assert summed[["t_s", "value"]].to_numpy().tolist() == [[0, 3], [2, 9]]


def test_rates_are_increases_per_second_without_gaps_and_restarts() -> None:
    counted = samples(*(("0", t, v) for t, v in [(0, 0), (1, 2), (2, 4), (6, 12), (7, 1), (8, 2)]))
    rate = rates(counted, ["host"])
    np.testing.assert_array_equal(rate["t_s"], [1, 2, 6, 7, 8])
    np.testing.assert_array_equal(rate["value"], [2, 2, np.nan, np.nan, 1])
