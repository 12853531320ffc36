"""Sliced blocks on the lab: what is stored of them, and what happens where a cell fails."""

from __future__ import annotations

import _thread
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import benchkit
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.host import Host
from benchkit.lab.lab import Lab
from benchkit.loadtools.generators import execution, outputs
from benchkit.loadtools.generators.execution import GeneratorRun
from benchkit.loadtools.load_shares import turn_s
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan
from benchkit.run.events import Event, TrialBegun
from benchkit.run.judge import rebuild_tables
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import ResumeOptions, execute
from benchkit.run.steps import load as load_steps
from benchkit.scenario.experiment import Experiment
from benchkit.store.store import Store
from tests.support.builders import experiment, load, stacks
from tests.support.needs import separate_hosts
from tests.support.run.opening import open_run

SLICE_S = 0.5
"""Length of a slice, and the time that a busy machine may delay the end of its load tool before that is ended."""
SLICES = 3
RATE = 400


def sliced(**changes: object) -> Experiment:
    """Two Go servers on one port, with a control of the first, in slices."""
    fields: dict[str, object] = {
        "stacks": stacks(go={"listen": 18080}, fast={"listen": 18080, "backend": "fasthttp"}),
        "factors": {"stack": ["go", "fast"]},
        "control": [{"stack": "go"}],
        "load": load(tool="h2load", duration_s=SLICES * SLICE_S, warmup_s=0.1),
        "design": "sliced",
        "slice_s": SLICE_S,
        "blocks": 1,
    }
    return experiment(**(fields | changes))


def run_sliced(scenario: Experiment, lab: Lab, store: Store) -> tuple[RunPlan, RunOutcome]:
    """Run an experiment on the lab."""
    with connect_all(lab.inventory()) as hosts, open_run(scenario, hosts, store) as run:
        return run.plan, execute(run)


@pytest.fixture(scope="module")
def ran(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, RunPlan, RunOutcome]:
    """One sliced block."""
    store = Store(tmp_path_factory.mktemp("store"))
    plan, outcome = run_sliced(sliced(), lab, store)
    assert (outcome.status, outcome.failures) == ("done", {})
    return store, plan, outcome


@separate_hosts
def test_nothing_stays_on_hosts_that_only_some_stacks_use(lab: Lab, tmp_path: Path) -> None:
    scenario = experiment(
        stacks=stacks(near={"listen": 18080, "role": "load"}, far={"listen": 18080}),
        factors={"stack": ["near", "far"]},
        load=load(tool="h2load", duration_s=SLICE_S, warmup_s=0.1),
        design="sliced",
        slice_s=SLICE_S,
        blocks=1,
    )
    with connect_all(lab.inventory()) as hosts:
        before = {host.name: _folders_of_trials(host) for host in hosts}
        plan = next(
            plan
            for seed in range(20)
            if (plan := make_plan(scenario, hosts, seed)).planned_trials[0].cell_id == "stack=near"
        )
        with open_run(scenario, hosts, Store(tmp_path), seed=plan.seed) as run:
            outcome = execute(run)
        after = {host.name: _folders_of_trials(host) for host in hosts}
    assert (plan.design, outcome.status, outcome.failures) == ("sliced", "done", {})
    assert after == before


def _folders_of_trials(host: Host) -> set[str]:
    return set(host.processes.run(["find", "trials", "-mindepth", "1"]).stdout.decode().split())


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
    turns_s = turn_s(ran[1].cells[0].pauses, SLICE_S)
    assert list(slices["started_s"].diff().dropna()) == pytest.approx([turns_s] * (3 * SLICES - 1))
    assert list(slices["slice"]) == [number for number in range(1, SLICES + 1) for _ in range(3)]
    assert list(slices["place"]) == [1, 2, 3] * SLICES
    # Beside other tests the host may starve single slices, or start one so late that it reaches into the next.
    assert slices["server_cpu_s"].median() > 0
    assert slices["server_cpu_s"].median() > 5 * slices["neighbour_cpu_s"].median()


def test_raw_files_give_the_same_tables(ran: tuple[Store, RunPlan, RunOutcome]) -> None:
    store, _, outcome = ran
    names = ("trials", "slices", "latency", "telemetry", "verdicts", "unchecked", "notes")
    before = {name: _table(store, name) for name in names}
    with outcome.run.locked():
        rebuild_tables(store, outcome.run)
    for name in names:
        pd.testing.assert_frame_equal(_table(store, name), before[name])


def test_a_cell_whose_server_does_not_start_fails_alone(lab: Lab, tmp_path: Path) -> None:
    dying = {"backend": "command", "run": ["false", "{port}"], "listen": 18080}
    scenario = sliced(
        stacks=stacks(go={"listen": 18080}, fast={"listen": 18080, "backend": "fasthttp"}, dying=dying),
        factors={"stack": ["go", "dying", "fast"]},
        control=[],
    )
    store = Store(tmp_path)
    _, outcome = run_sliced(scenario, lab, store)
    (failure,) = outcome.failures.values()
    assert failure.startswith("sut: ")
    assert sorted(_table(store, "trials")["cell_id"]) == ["stack=fast", "stack=go"]
    assert len(_table(store, "slices")) == 2 * SLICES


@pytest.mark.parametrize("hangs", [1, 2])
def test_a_block_in_which_a_load_tool_hangs_is_repeated_once(
    lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs: int
) -> None:
    remaining = iter(range(hangs))

    def run_slices(*arguments: Any) -> list[list[GeneratorRun]]:  # noqa: ANN401 - handed on
        """Run them; in the first attempts, let the tool of the second slice of a block have been ended."""
        runs = execution.run_slices(*arguments)
        if len(runs) > 1 and next(remaining, None) is not None:  # no warm-up
            runs[1] = [replace(run, overran=True) for run in runs[1]]
        return runs

    def fetch_outputs(hosts: Hosts, runs: Sequence[GeneratorRun]) -> list[outputs.Outputs]:
        """Fetch what was printed: nothing by a tool that was ended."""
        fetched = outputs.fetch_outputs(hosts, runs)
        return [{} if run.overran else of_run for run, of_run in zip(runs, fetched, strict=True)]

    monkeypatch.setattr(load_steps, "run_slices", run_slices)
    monkeypatch.setattr(load_steps, "fetch_outputs", fetch_outputs)
    store = Store(tmp_path)
    # A crowded host may keep a tool from its end for as long as a short slice; then it is ended, and really hangs.
    scenario = sliced(control=[], load=load(tool="h2load", duration_s=4.0, warmup_s=0.1), slice_s=2.0)
    _, outcome = run_sliced(scenario, lab, store)
    assert [len(reasons) for reasons in outcome.retries.values()] == [1, 1]
    assert all("h2load did not end within" in reason for (reason,) in outcome.retries.values())
    assert len(outcome.failures) == hangs - 1, "in the second attempt its trial fails alone"
    assert all("and printed no result" in failure for failure in outcome.failures.values())
    assert len(_table(store, "trials")) == 2 - len(outcome.failures)


def assert_not_retried(outcome: RunOutcome) -> None:
    """Assert that no trial was repeated, except where a busy machine kept a load tool from its end."""
    assert [why for whys in outcome.retries.values() for why in whys if "did not end within" not in why] == []


GREEDY = """
import sys
from http.server import HTTPServer, SimpleHTTPRequestHandler
from threading import Thread
SimpleHTTPRequestHandler.protocol_version = "HTTP/1.1"
servers = [HTTPServer((sys.argv[1], int(port)), SimpleHTTPRequestHandler) for port in sys.argv[2:]]
for server in servers:
    Thread(target=server.serve_forever).start()
"""
"""A server that listens on several ports."""


def test_a_server_that_needs_the_port_of_another_cell_fails_alone_and_at_once(lab: Lab, tmp_path: Path) -> None:
    greedy = {"backend": "command", "run": ["python3", "-c", GREEDY, "{host}", "18080", "18081"], "listen": 18080}
    scenario = sliced(
        stacks=stacks(greedy={**greedy, "env": {"PORT": "{port}"}}, go={"listen": 18080}),
        factors={"stack": ["greedy", "go"]},
        control=[],
    )
    store = Store(tmp_path)
    with connect_all(lab.inventory()) as hosts:
        plans = (make_plan(scenario, hosts, seed) for seed in range(20))
        plan = next(plan for plan in plans if plan.planned_trials[0].cell_id == "stack=go")
        with open_run(scenario, hosts, store, seed=plan.seed) as run:
            outcome = execute(run)
    assert plan.design == "sliced"
    (failure,) = outcome.failures.values()
    assert "Address already in use" in failure
    assert "→ set `design: blocks`" in failure
    (cell,) = _table(store, "trials")["cell_id"]
    assert cell == "stack=go"
    assert_not_retried(outcome)


class Interrupting:
    """Observer that interrupts the run in the slices of a block, as Ctrl-C does."""

    def __init__(self, block: int, after_s: float) -> None:
        self._block = block
        self._timer = threading.Timer(after_s, _thread.interrupt_main)

    def show(self, event: Event) -> None:
        """Start the time to the interruption with the first trial of the block."""
        if isinstance(event, TrialBegun) and event.trial.block == self._block and event.trial.position == 1:
            self._timer.start()


def test_an_interrupted_block_is_repeated_whole(lab: Lab, tmp_path: Path) -> None:
    store, scenario = Store(tmp_path), sliced(blocks=2)
    with (
        connect_all(lab.inventory()) as hosts,
        open_run(scenario, hosts, store) as run,
        pytest.raises(KeyboardInterrupt, match=r"keeps [0-9]+ trials"),
    ):
        execute(run, Interrupting(2, 1.5).show)
    folder = store.run("latest")
    assert {record.block for record in folder.records()} == {1}
    with (
        connect_all(lab.inventory()) as hosts,
        open_run(scenario, hosts, store, resume=ResumeOptions(folder, accept_changes=False, retry_failed=False)) as run,
    ):
        outcome = execute(run)
    assert (outcome.status, outcome.trials) == ("done", 6)
    trials = _table(store, "trials")
    assert sorted(trials["block"]) == [1, 1, 1, 2, 2, 2]
    assert set(_table(store, "slices")["trial_id"]) == set(trials["trial_id"])


def test_a_rate_is_kept_by_several_generators_together(lab: Lab, tmp_path: Path) -> None:
    window_s = SLICES * SLICE_S
    wanted = load(tool="h2load", duration_s=window_s, rate=RATE, processes=2, histogram=True)
    store, scenario = Store(tmp_path), sliced(control=[], load=wanted)
    _, outcome = run_sliced(scenario, lab, store)
    assert outcome.failures == {}
    trials = _table(store, "trials")
    assert (trials["requests"] <= 1.1 * RATE * window_s).all(), "two with the whole rate would send twice as many"
    for record in outcome.run.records():
        assert [(each.number, each.load.rate) for each in record.generators] == [(1, RATE / 2), (2, RATE / 2)]
        assert all(generator.result is not None and generator.result.requests for generator in record.generators)
    assert (
        _table(store, "slices").groupby("trial_id")["requests"].sum().sort_index()
        == (trials.set_index("trial_id")["requests"].sort_index())
    ).all()
