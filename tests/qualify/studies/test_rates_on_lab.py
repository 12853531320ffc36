"""The studies at rates that a run finds, at their smallest scale: a step beyond the capacity, and shares of it."""

from __future__ import annotations

import pytest

from benchkit.lab.lab import Lab
from benchkit.report.figures.registry import get_figure
from benchkit.report.stored_run import read_run
from tests.qualify.studies.conftest import RunStudy

DURATION_S = 6


def test_the_rate_follows_its_shape_and_is_a_share_of_the_capacity(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "overload", f"load.duration_s={DURATION_S}")
    trials = ran.trials.reset_index().set_index("kind")
    searched, measured = trials.loc["calibrate"], trials.loc["measure"]
    assert searched["capacity_rps"] > 0
    assert len(trials.loc[["probe"]]) >= 1
    record = ran.outcome.run.record(str(measured["trial_id"]))
    shape = record.load.shape
    assert shape is not None
    peak = round(1.2 * searched["capacity_rps"])
    assert record.load.rate == peak
    assert measured["rate_requested"] == record.load.mean_rate
    assert any("target rates are shares of it" in notice for notice in ran.outcome.run.manifest().notes)

    series = ran.table("series")
    series = series[series["trial_id"] == measured["trial_id"]].set_index("t_s")
    assert series["rps"].sum() == measured["requests"]
    sent = series["rps"] + series["in_flight"].diff().fillna(series["in_flight"])
    # The first second ends late where the first request was sent late, so that it may have a part of the step.
    outside = sent[[0, shape.end_s + 1, shape.end_s + 2]]
    assert 0 < outside.median() < 0.5 * peak, "the base is 0.3 of the peak"
    # From the step on, as a busy machine sends late.
    due = (shape.end_s - shape.start_s + shape.base * (DURATION_S - shape.end_s)) * peak
    assert sent[shape.start_s :].sum() == pytest.approx(due, rel=0.15)
    assert measured["latency_from"] == "due"
    assert 0 < measured["overload_goodput_rps"] <= 1.1 * peak
    assert measured["overload_error_share"] < 1
    notes = ran.table("notes")
    is_noted = "not-recovered" in set(notes.loc[notes["trial_id"] == measured["trial_id"], "code"])
    assert is_noted != (measured["recovery_s"] >= 1)

    figure, run = get_figure("latency-over-time"), read_run(ran.store, ran.outcome.run)
    assert figure.is_available(run)
    assert "the target rate has its shape" in figure.caption(run)
    assert figure.draw(run).axes


def test_latency_is_measured_at_shares_of_the_capacity(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "latency-curves")
    trials = ran.trials.reset_index().set_index("kind")
    (capacity,) = trials.loc[["calibrate"], "capacity_rps"].tolist()
    measured = trials.loc["measure"]
    shares = measured["factor_share"].astype(float)
    assert shares.tolist() == [0.2, 0.5, 0.8]
    assert measured["rate_requested"].tolist() == [round(share * capacity) for share in shares]
    run = read_run(ran.store, ran.outcome.run)
    figure = get_figure("latency-against-rate")
    has_included = any(run.values("latency_p99_s").included(cell.cell_id) for cell in run.cells)
    assert figure.is_available(run) == has_included
    (axes,) = figure.draw(run).axes
    assert len(axes.get_lines()) >= 1  # the limit of the objective


def test_both_servers_are_measured_at_a_share_of_the_slower_one(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "fasthttp-unsaturated", "factors.share=[0.3]")
    ran.check_verdicts()
    trials = ran.trials.reset_index().set_index("kind")
    measured = trials.loc["measure"]
    assert set(measured["factor_server"]) == {"nethttp", "fasthttp"}
    slowest = trials.loc["calibrate"].groupby("factor_server")["rps"].max().min()
    assert measured["rate_requested"].tolist() == 2 * [int(0.3 * slowest)]
    assert (measured["server_cpu_s_per_request"] > 0).all()


def test_each_cell_has_a_capacity_and_a_trial_at_it(lab: Lab, run_study: RunStudy) -> None:
    goal = '{"slo": {"p99_s": 0.05, "error_share": 0.001}, "precision": 0.3, "budget_s": 3}'
    ran = run_study(lab.inventory(), "capacity", "blocks=1", f"load.capacity={goal}")
    trials = ran.trials.reset_index()
    for stack in ("nethttp", "nginx-go"):
        of_stack = trials[trials["factor_stack"] == stack].set_index("kind")
        measured, probes = of_stack.loc[["measure"]], of_stack.loc[["probe"]]
        assert len(measured) == 1
        assert measured["rate_requested"].tolist() == measured["capacity_rps"].tolist()
        assert len(probes) >= 2
        assert probes["rate_requested"].isna().sum() == 1, "the first one runs at full speed"


def test_all_servers_get_the_same_rate_and_their_cost_is_measured(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "efficiency", "blocks=1", 'factors.stack=["nethttp", "nginx-go"]')
    trials = ran.trials.reset_index().set_index("kind")
    measured = trials.loc[["measure"]]
    assert set(measured["rate_requested"]) == {float(int(0.5 * trials.loc[["calibrate"], "rps"].min()))}
    costs = ["server_cpu_s_per_request", "server_memory_bytes", "server_switches_per_request"]
    assert (measured[[*costs, "latency_p50_s", "latency_p99_s"]] > 0).all().all()
