"""Figures of telemetry with known values."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection

from benchkit.comparison.cell_labels import cell_views
from benchkit.report.figures.registry import get_figure
from benchkit.report.figures.telemetry import counter_sums, overflows, rates
from benchkit.report.stored_run import StoredRun
from benchkit.report.trends import numeric_factor
from tests.support.report.fixtures import watched

MakeRun = Callable[..., StoredRun]


def lines(axes: Axes) -> list[np.ndarray]:
    """Return the lines of collections in the axes, (x, y) each."""
    found = [artist for artist in axes.collections if isinstance(artist, LineCollection)]
    return [np.asarray(path.vertices) for collection in found for path in collection.get_paths()]


def samples(*rows: tuple[str, float, float]) -> pd.DataFrame:
    """Return telemetry of one counter: (instance, t_s, value)."""
    frame = pd.DataFrame(rows, columns=["instance", "t_s", "value"])
    return frame.assign(trial_id="t", host="sut", metric="cpu_user_s_total")


def test_a_sum_over_cores_needs_all_cores() -> None:
    summed = counter_sums(
        samples(("0", 0, 1), ("1", 0, 2), ("0", 1, 3), ("0", 2, 5), ("1", 2, 4)), ["cpu_user_s_total"], ["host"]
    )
    assert summed[["t_s", "value"]].to_numpy().tolist() == [[0, 3], [2, 9]]


def test_rates_are_increases_per_second_without_gaps_and_restarts() -> None:
    counted = samples(*(("0", t, v) for t, v in [(0, 0), (1, 2), (2, 4), (6, 12), (7, 1), (8, 2)]))
    rate = rates(counted, ["host"])
    np.testing.assert_array_equal(rate["t_s"], [1, 2, 6, 7, 8])
    np.testing.assert_array_equal(rate["value"], [2, 2, np.nan, np.nan, 1])


def test_host_activity_draws_cpu_requests_and_bytes_of_every_trial(make_run: MakeRun) -> None:
    run = watched(make_run({"stack": ["go", "nginx-go"]}, blocks=3))
    figure = get_figure("host-activity").draw(run)
    assert len(figure.axes) == 6
    for column, wanted in ((0, {0.8, 0.5}), (1, {1000.0}), (2, {1e6, 1e5})):
        drawn = lines(figure.axes[column])
        assert len(drawn) == 3 * len(wanted)
        for line in drawn:
            middle = line[(line[:, 0] >= 1) & (line[:, 0] <= 4)][:, 1]
            assert any(np.allclose(middle, value) for value in wanted)
    assert "app at most 0.80 CPUs; generator-1 at most 0.50 CPUs" in get_figure("host-activity").alt(run)


def test_a_service_on_several_hosts_has_a_line_for_each(make_run: MakeRun) -> None:
    run = watched(make_run(blocks=1))
    agents = [
        run.telemetry[run.telemetry["service"] == service].assign(service="agent", t_s=lambda rows: rows["t_s"] + 1e-3)
        for service in ("app", "generator-1")
    ]
    telemetry = pd.concat([run.telemetry, *agents])
    both = replace(run, table=lambda name: telemetry if name == "telemetry" else run.table(name))
    alt = get_figure("host-activity").alt(both)
    assert "agent on load at most 0.50 CPUs; agent on sut at most 0.80 CPUs; app at most 0.80 CPUs" in alt


def test_a_gap_interrupts_the_line(make_run: MakeRun) -> None:
    run = make_run(blocks=1)
    whole = watched(run)
    gap = watched(run, gap_in=str(run.trials["trial_id"].iloc[0]))
    assert not any(np.isnan(line).any() for line in lines(get_figure("host-activity").draw(whole).axes[0]))
    broken = [line for axes in get_figure("host-activity").draw(gap).axes[::3] for line in lines(axes)]
    assert any(np.isnan(line[:, 1]).any() for line in broken)


def test_figures_of_telemetry_need_telemetry(run: StoredRun) -> None:
    assert not get_figure("host-activity").is_available(run)
    assert not get_figure("accept-queue").is_available(run)


def test_accept_queues_are_drawn_against_their_limit_and_overflows_counted(make_run: MakeRun) -> None:
    run = watched(make_run(blocks=2), interval_s=0.5)
    figure = get_figure("accept-queue").draw(run)
    (first, _) = figure.axes
    assert {round(float(line[:, 1].max())) for line in lines(first)} == {7}
    assert first.get_lines()[0].get_ydata()[0] == 128  # type: ignore[index]
    assert overflows(run).to_dict() == {view.cell_id: 6 for view in cell_views(run.manifest)}
    assert "at most 7 waiting, 6 overflows" in get_figure("accept-queue").alt(run)


def test_the_axis_is_connections_else_the_first_numeric_factor(make_run: MakeRun) -> None:
    assert numeric_factor(make_run({"workers": [1, 2], "connections": [8, 64]})) == "connections"
    assert numeric_factor(make_run({"stack": ["a", "b"], "workers": [1, 2]})) == "workers"
    assert numeric_factor(make_run({"stack": ["a", "b"], "workers": [2]})) is None
    assert not get_figure("connections").is_available(make_run({"stack": ["a", "b"]}))


def test_against_connections_lines_join_means_and_points_are_trials(make_run: MakeRun) -> None:
    run = make_run({"stack": ["go", "nginx-go"], "connections": [8, 64, 512]}, blocks=3)
    (axes,) = get_figure("connections").draw(run).axes
    assert len(axes.get_lines()) == 2
    logs = (
        run.trials.assign(rps=np.log(run.trials["rps"])).groupby(["factor_stack", "factor_connections"])["rps"].mean()
    )
    for line, stack in zip(axes.get_lines(), ("go", "nginx-go"), strict=True):
        np.testing.assert_allclose(np.asarray(line.get_ydata()), np.exp(logs[stack].to_numpy()))
        np.testing.assert_array_equal(np.asarray(line.get_xdata()), [8, 64, 512])
    dots = [len(np.asarray(artist.get_offsets())) for artist in axes.collections if isinstance(artist, PathCollection)]
    assert dots == [9, 9]


def test_known_cpu_per_request_has_a_panel(make_run: MakeRun) -> None:
    run = make_run({"connections": [8, 64]}, blocks=2)
    run.trials["server_cpu_s_per_request"] = 2e-5
    assert len(get_figure("connections").draw(run).axes) == 2


def test_known_memory_has_a_panel(make_run: MakeRun) -> None:
    run = make_run({"server": ["a", "b"], "connections": [100, 1100, 2100]}, blocks=4)
    connections = run.trials["factor_connections"].astype(float)
    run.trials["server_memory_bytes"] = 1e7 + connections * np.where(run.trials["factor_server"] == "a", 2048, 8192)
    figure = get_figure("connections")
    assert [axes.get_title(loc="left") for axes in figure.draw(run).axes] == ["requests per second", "server memory"]


def test_throughput_places_every_trial_at_its_values(run: StoredRun) -> None:
    (axes,) = get_figure("throughput").draw(run).axes
    drawn = np.concatenate([np.asarray(dots.get_offsets()) for dots in axes.collections])
    wanted = run.trials[["rps", "latency_p99_s"]].to_numpy(dtype=float)
    np.testing.assert_allclose(sorted(drawn.tolist()), sorted(wanted.tolist()))
    assert get_figure("throughput").alt(run).startswith("Scatter chart of p99 latency")


@pytest.mark.parametrize("missing", ["rps", "latency_p99_s"])
def test_a_trial_without_a_value_is_not_drawn(run: StoredRun, missing: str) -> None:
    trials = run.trials.copy()
    trials.loc[trials.index[0], missing] = None
    (axes,) = get_figure("throughput").draw(replace(run, trials=trials)).axes
    assert sum(len(np.asarray(dots.get_offsets())) for dots in axes.collections) == len(trials) - 1


def test_the_scalability_law_has_intervals_or_is_said_not_to_fit(make_run: MakeRun) -> None:
    levels = [1, 2, 4, 8, 16, 32]
    run = make_run({"connections": levels}, blocks=6)
    n = run.trials["factor_connections"].astype(float)
    noise = 1 + 0.01 * np.sin(np.arange(len(n)))
    law = 1000 * n / (1 + 0.05 * (n - 1) + 0.001 * n * (n - 1)) * noise
    figure = get_figure("connections")
    caption = figure.caption(replace(run, trials=run.trials.assign(rps=law)))
    assert "Universal Scalability Law of the rate, with 95% intervals over blocks: all trials: contention " in caption
    assert re.search(r"contention 5\.\d % \[4\.\d %, 5\.\d %\], coherency 0\.0\d+ \[", caption)
    bumped: pd.Series[float] = law * np.where(n == 8, 1.5, 1.0)
    caption = figure.caption(replace(run, trials=run.trials.assign(rps=bumped)))
    assert "all trials: the law does not fit: at 8 it is " in caption
    few = make_run({"connections": levels[:3]}, blocks=6)
    assert "Scalability" not in figure.caption(few)


def test_the_server_is_shown_as_dstat_and_expvarmon_do(make_run: MakeRun) -> None:
    run = watched(make_run({"stack": ["go", "nginx-go"]}, blocks=3))
    extra = []
    for metric, service, value in (
        ("memory_used_bytes", None, 2.0**30),
        ("heap_bytes", "app", 2.0**20),
        ("disk_written_bytes_total", None, None),
    ):
        rows = run.telemetry[(run.telemetry["metric"] == "net_sent_bytes_total") & (run.telemetry["host"] == "sut")]
        values = rows["value"] if value is None else value
        extra.append(rows.assign(metric=metric, service=service, value=values))
    telemetry = pd.concat([run.telemetry, *extra])
    table = run.table
    run = replace(run, table=lambda name: telemetry if name == "telemetry" else table(name))
    figure = get_figure("as-watched").draw(run)
    drawn = {axes.get_title(loc="left"): axes.lines for axes in figure.axes if axes.get_visible()}
    assert list(drawn) == ["disk", "network", "memory used", "live heap"]  # nothing is drawn without samples
    for name, wanted in {"disk": 1e6, "network": 1e6, "memory used": 2.0**30, "live heap": 2.0**20}.items():
        assert len(drawn[name]) == 2  # a line for each cell, of the host of its servers alone
        for line in drawn[name]:
            seconds, drawn_values = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
            np.testing.assert_allclose(drawn_values[(seconds >= 1) & (seconds <= 4)], wanted)
    assert "go: disk at most 1.00 MB/s; network at most 1.00 MB/s" in get_figure("as-watched").alt(run)
