"""Sliced blocks on the lab: what is stored of them, and what happens where a cell fails."""

from __future__ import annotations

import pandas as pd
import pytest

import benchkit
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import connect_all
from benchkit.lab.lab import Lab
from benchkit.results.store import Store
from benchkit.run.judge import rebuild_tables
from benchkit.run.loop import execute
from benchkit.run.opened_run import open_run
from benchkit.run.plan.model import RunPlan
from benchkit.run.plan.planner import make_plan
from benchkit.run.recorder import RunOutcome
from benchkit.run.slice_timetable import turn_s
from benchkit.scenario.experiment import Experiment
from tests.builders import experiment, load, stacks

pytestmark = pytest.mark.lab

SLICE_S = 0.1
SLICES = 5


def sliced(**changes: object) -> Experiment:
    """Two Go servers on one port, with a control of the first, in slices."""
    return experiment(
        stacks=stacks(go={"listen": 18080}, fast={"listen": 18080, "backend": "fasthttp"}),
        factors={"stack": ["go", "fast"]},
        control=[{"stack": "go"}],
        load=load(tool="h2load", duration_s=SLICES * SLICE_S, warmup_s=0.1),
        design="sliced",
        slice_s=SLICE_S,
        blocks=1,
        **changes,
    )


def run_sliced(scenario: Experiment, lab: Lab, store: Store) -> tuple[RunPlan, RunOutcome]:
    """Run an experiment on the lab."""
    with connect_all(lab.inventory()) as hosts, open_run(lambda: make_plan(scenario, hosts), hosts, store) as run:
        return run.plan, execute(run, SilentProgress())


@pytest.fixture(scope="module")
def ran(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, RunPlan, RunOutcome]:
    """One sliced block."""
    store = Store(tmp_path_factory.mktemp("store"))
    plan, outcome = run_sliced(sliced(), lab, store)
    assert (outcome.status, outcome.failures) == ("done", {})
    return store, plan, outcome


def _table(store: Store, table: str) -> pd.DataFrame:
    frame = benchkit.load(table, store=store.path)
    if "metrics" in frame:  # lists, which nothing can be sorted by
        frame = frame.assign(metrics=frame["metrics"].map(tuple))
    return frame.sort_values(list(frame.columns), ignore_index=True)


def test_stacks_have_ports_of_their_own(ran: tuple[Store, RunPlan, RunOutcome]) -> None:
    _, plan, _ = ran
    assert plan.design == "sliced"
    ports = [cell.services[0].endpoint.port for cell in plan.cells]
    assert ports[0] == 18080
    assert len(set(ports)) == len(ports) == 3
    assert all(str(port) in cell.target for port, cell in zip(ports, plan.cells, strict=True))


def test_a_trial_is_the_sum_of_its_slices(ran: tuple[Store, RunPlan, RunOutcome]) -> None:
    store, _, _ = ran
    slices = _table(store, "slices").groupby("trial_id")
    trials = _table(store, "trials").set_index("trial_id").sort_index()
    assert (slices.size() == SLICES).all()
    assert list(slices["requests"].sum()) == list(trials["requests"])
    assert list(trials["duration_s"]) == pytest.approx([SLICES * SLICE_S] * 3)
    assert list(trials["rps"]) == pytest.approx(list(trials["requests"] / trials["duration_s"]))
    cpu_s = trials["server_cpu_s_per_request"] * trials["requests"]
    assert list(slices["server_cpu_s"].sum()) == pytest.approx(list(cpu_s))
    assert (trials["latency_p99_s"] > trials["latency_p50_s"]).all()


def test_slices_take_turns(ran: tuple[Store, RunPlan, RunOutcome]) -> None:
    slices = _table(ran[0], "slices").sort_values("started_s")
    assert list(slices["started_s"].diff().dropna()) == pytest.approx([turn_s(SLICE_S)] * (3 * SLICES - 1))
    assert list(slices["slice"]) == [number for number in range(1, SLICES + 1) for _ in range(3)]
    assert list(slices["place"]) == [1, 2, 3] * SLICES
    assert slices["server_cpu_s"].gt(0).all()
    assert slices["server_cpu_s"].sum() > 5 * slices["neighbour_cpu_s"].sum()  # idle, but for what it does by itself


def test_raw_files_give_the_same_tables(ran: tuple[Store, RunPlan, RunOutcome]) -> None:
    store, _, outcome = ran
    names = ("trials", "slices", "latency", "telemetry", "verdicts", "unchecked", "notes")
    before = {name: _table(store, name) for name in names}
    with outcome.run.locked():
        rebuild_tables(store, outcome.run)
    for name in names:
        pd.testing.assert_frame_equal(_table(store, name), before[name])
