"""A run on the lab at a rate that it finds itself."""

from __future__ import annotations

from pathlib import Path

import pytest

import benchkit
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.results.store import Store
from benchkit.run.judge import rebuild_tables
from benchkit.run.loop import execute
from benchkit.run.opened_run import open_run
from benchkit.run.plan.planner import make_plan
from tests.builders import experiment, load, stacks

pytestmark = pytest.mark.lab

SHARE = 0.2
WINDOW_S = 3.0
TABLES = ("trials", "series", "latency", "verdicts", "unchecked", "notes")


def test_all_cells_are_measured_at_a_share_of_the_slowest(lab: Lab, tmp_path: Path) -> None:
    store = Store(tmp_path)
    scenario = experiment(
        stacks=stacks(go={"listen": 18080}, slow={"listen": 18080, "work": "loop:300000"}),
        factors={"stack": ["go", "slow"]},
        load=load(tool="vegeta", connections=8, duration_s=WINDOW_S, rate={"share_of_slowest": SHARE}),
        blocks=1,
    )
    with connect_all(lab.inventory()) as hosts, open_run(lambda: make_plan(scenario, hosts), hosts, store) as run:
        outcome = execute(run, SilentProgress())
    assert (outcome.status, outcome.failures) == ("done", {})

    before = {name: benchkit.load(name, store=store.path).to_json(date_format="iso") for name in TABLES}
    with outcome.run.locked():
        rebuild_tables(store, outcome.run)
    assert {name: benchkit.load(name, store=store.path).to_json(date_format="iso") for name in TABLES} == before

    trials = benchkit.load("trials", store=store.path).set_index(["kind", "cell_id"])
    full_speed, measured = trials.loc["calibrate"], trials.loc["measure"]
    rate = float(int(SHARE * full_speed["rps"].min()))
    assert full_speed["rps"].idxmin() == "stack=slow"
    assert full_speed["rate_requested"].isna().all()
    assert full_speed["latency_from"].tolist() == ["sent", "sent"]
    assert measured["rate_requested"].tolist() == [rate, rate]
    assert measured["rate_achieved"].tolist() == pytest.approx([rate, rate], rel=0.1)
    assert measured["latency_from"].tolist() == ["due", "due"]
    assert (measured["send_lag_p99_s"] >= 0).all()
    assert any(f"Target rate: {rate:,.0f} requests/s" in notice for notice in outcome.run.manifest().notices)

    series = benchkit.load("series", store=store.path).groupby("trial_id")
    for _, trial in measured.iterrows():
        seconds = series.get_group(trial["trial_id"])
        assert seconds["t_s"].tolist() == list(range(len(seconds)))
        assert seconds["rps"].sum() == trial["requests"]
        assert seconds["rps"].iloc[1] == pytest.approx(rate, rel=0.2)
        assert seconds["in_flight"].iloc[-1] == 0
        assert seconds["latency_p99_s"].max() <= 1.01 * trial["latency_max_s"]
