"""Runs on the lab at rates that they find themselves: a share of the slowest cell, and a capacity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.models.rows import LoadCurveRow
from benchkit.run.judge import rebuild_tables
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import execute
from benchkit.run.steps import load_curve
from benchkit.scenario.experiment import Experiment
from benchkit.store.store import Store
from benchkit.units import requests_per_s
from tests.support.builders import experiment, load, stacks
from tests.support.run.load_curves import carried_with
from tests.support.run.opening import open_run

SHARE = 0.2
WINDOW_S = 3.0
TABLES = ("trials", "series", "latency", "verdicts", "unchecked", "notes")


def stored_rows(store: Store) -> dict[str, list[str]]:
    """Return the rows of all tables of trials, in one order."""
    frames = {name: benchkit.load(name, store=store.path) for name in TABLES}
    return {
        name: sorted(frame.to_json(orient="records", lines=True, date_format="iso").splitlines())
        for name, frame in frames.items()
    }


def run_and_parse_again(scenario: Experiment, lab: Lab, store: Store) -> RunOutcome:
    """Run a scenario, and check that its raw files give the same tables once more."""
    with connect_all(lab.inventory()) as hosts, open_run(scenario, hosts, store) as run:
        outcome = execute(run)
    assert (outcome.status, outcome.failures) == ("done", {})
    before = stored_rows(store)
    with outcome.run.locked():
        rebuild_tables(store, outcome.run)
    assert stored_rows(store) == before
    return outcome


def test_all_cells_are_measured_at_a_share_of_the_slowest(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, measure, points = Store(tmp_path), load_curve._point, list[LoadCurveRow]()

    def measured_point(*arguments: Any) -> LoadCurveRow:  # noqa: ANN401 - handed on
        points.append(measure(*arguments))
        return points[-1]

    monkeypatch.setattr(load_curve, "_point", measured_point)
    scenario = experiment(
        stacks=stacks(go={"listen": 18080}, slow={"listen": 18080, "work": "loop:1000000"}),
        factors={"stack": ["go", "slow"]},
        load=load(tool="openloop", connections=8, duration_s=WINDOW_S, rate={"share_of_slowest": SHARE}),
        blocks=1,
    )
    outcome = run_and_parse_again(scenario, lab, store)

    trials = benchkit.load("trials", store=store.path).set_index(["kind", "cell_id"])
    full_speed, measured = trials.loc["calibrate"], trials.loc["measure"]
    curve, at_knee = (benchkit.load(name, store=store.path) for name in ("load_curve", "trials"))
    first = {each.trial_id: [point.rps for point in points if point.trial_id == each.trial_id][:2] for each in points}
    at_first = curve[curve["connections"] == 1].set_index("trial_id")["rps"].to_dict()
    expected = {trial_id: once if once > 1.05 * again else again for trial_id, (once, again) in first.items()}
    assert at_first == expected, "a pause lowers a rate"
    rate = float(int(SHARE * min(carried_with(8, at_knee[at_knee["kind"] == "calibrate"], curve))))
    assert full_speed["rps"].idxmin() == "stack=slow"
    assert full_speed["rate_requested"].isna().all()
    assert full_speed["latency_from"].tolist() == ["sent", "sent"]
    assert measured["rate_requested"].tolist() == [rate, rate]
    assert measured["latency_from"].tolist() == ["due", "due"]
    assert (measured["send_lag_p99_s"] >= 0).all()
    assert any(f"Target rate: {requests_per_s(rate)}" in notice for notice in outcome.run.manifest().notes)


def test_the_capacity_of_a_cell_is_searched_in_its_block(lab: Lab, tmp_path: Path) -> None:
    """Search for the capacity of a server that needs its core for every request, beside other tests or not."""
    store = Store(tmp_path)
    scenario = experiment(
        stacks=stacks(go={"listen": 18080, "work": "loop:1000000"}),
        load=load(
            tool="openloop",
            connections=16,
            duration_s=0.5,
            capacity={"slo": {"p99_s": 0.5, "error_share": 0.01}, "precision": 0.2, "budget_s": 60},
        ),
        telemetry="off",
        blocks=1,
    )
    outcome = run_and_parse_again(scenario, lab, store)

    trials = benchkit.load("trials", store=store.path).set_index("kind")
    (measured,) = (row for _, row in trials.loc[["measure"]].iterrows())
    probes = trials.loc[["probe"]].sort_values("trial_id")
    found = outcome.run.record(str(measured["trial_id"])).capacity
    assert found is not None
    assert [probe.rate for probe in found.probes] == probes["rate_requested"].dropna().tolist()
    assert probes["trial_id"].iloc[0] == f"{measured['trial_id']}.q01"
    curve = benchkit.load("load_curve", store=store.path)
    assert set(curve["trial_id"]) == {probes["trial_id"].iloc[0]}
    assert curve["rps"].min() <= found.ceiling_rps <= curve["rps"].max() * (1 + 1e-9)
    assert measured["rate_requested"] == measured["capacity_rps"] == found.rps
    assert pd.isna(measured["capacity_low"]) or measured["capacity_low"] <= measured["capacity_rps"]
    assert probes["capacity_rps"].isna().all()
