"""The studies at rates that a run finds, at their smallest scale: a step beyond the capacity, and shares of it."""

from __future__ import annotations

import pytest

from benchkit.lab.lab import Lab
from benchkit.report.figures.registry import get_figure
from benchkit.report.run_reader import read_run
from tests.studies.conftest import RunStudy

pytestmark = pytest.mark.lab


def test_the_rate_follows_its_shape_and_is_a_share_of_the_capacity(lab: Lab, run_study: RunStudy) -> None:
    ran = run_study(lab.inventory(), "overload")
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
    assert any("target rates are shares of it" in notice for notice in ran.outcome.run.manifest().notices)

    series = ran.table("series")
    series = series[series["trial_id"] == measured["trial_id"]].set_index("t_s")
    assert series["rps"].sum() == measured["requests"]
    sent = series["rps"] + series["in_flight"].diff().fillna(series["in_flight"])
    assert sent[0] == pytest.approx(shape.base * peak, rel=0.1)
    assert sent[shape.start_s : shape.end_s - 1].mean() == pytest.approx(peak, rel=0.1)
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
