"""Profiles recorded on the lab: of every service and within the window, or the reason why one is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace

import pandas as pd
import pytest

import benchkit
from benchkit.comparison.cpu_profiles import profiler_cost
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab
from benchkit.models.trial import TrialRecord
from benchkit.plan.model import RunPlan
from benchkit.report.page import page
from benchkit.report.stored_run import read_run
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import execute
from benchkit.scenario.read import read_experiment
from benchkit.services.service import Service
from benchkit.stats.samples import take_samples
from benchkit.store.profile_tables import NO_PROFILE
from benchkit.store.store import Store
from tests.support.run.opening import open_run

SCENARIO = """\
name: profiled
title: nginx in front of Go, profiled
question: Where does the time go?
factors: {connections: [16]}
stacks:
  nginx-go:
    entry: front
    services:
      app: {backend: nethttp, role: sut, listen: "127.0.0.1:9000"}
      front: {backend: nginx, role: sut, listen: 8080, upstream: app}
load: {tool: wrk, connections: $connections, duration_s: 1}
blocks: 1
profile: {blocks: 1, duration_s: 3}
"""
CELL = "connections=16"
Ran = tuple[Store, RunOutcome]


@pytest.fixture(scope="module")
def run_scenario(lab: Lab, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ran]:
    """A function that runs the scenario, after a test has prepared its hosts and changed its plan."""
    if shutil.which("perf") is None:
        pytest.skip("not installed: perf")
    path = tmp_path_factory.mktemp("scenario") / "profiled.yaml"
    path.write_text(SCENARIO)

    def run(prepare: Callable[[Hosts], None] | None = None, change: Callable[[RunPlan], RunPlan] | None = None) -> Ran:
        store = Store(tmp_path_factory.mktemp("store"))
        with connect_all(lab.inventory()) as hosts:
            if prepare is not None:
                prepare(hosts)
            experiment = read_experiment(str(path))

            with open_run(experiment, hosts, store, amend=change or (lambda plan: plan)) as opened:
                return store, execute(opened)

    return run


@pytest.fixture(scope="module")
def ran(run_scenario: Callable[..., Ran]) -> Ran:
    """The run of the unchanged scenario."""
    store, outcome = run_scenario()
    assert (outcome.status, outcome.failures) == ("done", {})
    return store, outcome


@pytest.fixture(scope="module")
def profiled(ran: Ran) -> TrialRecord:
    """The only profile trial of the run."""
    (record,) = [record for record in ran[1].run.records() if record.kind == "profile"]
    return record


def table(store: Store, name: str) -> pd.DataFrame:
    return benchkit.load(name, store=store.path)


def test_the_profile_pass_follows_the_measured_blocks_as_pairs(ran: Ran) -> None:
    trials = table(ran[0], "trials").sort_values(["block", "position"])
    assert list(trials["block"]) == [1, 2, 2]
    assert list(trials["kind"])[:1] == ["measure"]
    assert sorted(trials["kind"])[:2] == ["control", "measure"]
    assert (trials["cell_id"] == CELL).all()
    assert (trials["duration_s"].round() == [1, 3, 3]).all()
    assert take_samples(trials, "rps").blocks == (1,)
    cost = profiler_cost(trials)
    assert cost is not None
    rates = trials.set_index("kind")["rps"]
    assert cost.ratio == pytest.approx(rates["profile"] / rates["control"])
    assert (cost.blocks, cost.low) == (1, None)


def test_only_trials_of_the_profile_pass_are_profiled(ran: Ran, profiled: TrialRecord) -> None:
    for record in ran[1].run.records():
        assert bool(record.profiles) == (record.kind == "profile")
    assert [(each.service, each.profiler, each.file) for each in profiled.profiles] == [
        ("app", "pprof", "app.sut.pb.gz"),
        ("front", "perf", "front.sut.perf.txt.gz"),
    ]
    assert {each.why_not for each in profiled.profiles} == {None}


@pytest.fixture(scope="module")
def without_profiles(run_scenario: Callable[..., Ran]) -> Ran:
    """A profile trial on a host without perf and with a wrong admin page."""

    def without_perf(hosts: Hosts) -> None:
        facts = hosts["sut"].facts
        kept = {name: fact for name, fact in facts.programs.items() if name != "perf"}
        hosts["sut"].facts = facts.model_copy(update={"programs": kept})

    def with_wrong_admin_pages(plan: RunPlan) -> RunPlan:
        cells = tuple(
            replace(cell, services=tuple(map(with_wrong_admin_page, cell.services)))
            for cell in plan.observed["profile"]
        )
        return only_profiled(replace(plan, observed={"profile": cells}))

    return run_scenario(without_perf, with_wrong_admin_pages)


def with_wrong_admin_page(service: Service) -> Service:
    """Return the service with the address of an admin page that does not exist."""
    if service.admin is None or service.admin.kind != "expvar":
        return service
    endpoint = replace(service.admin.endpoint, path=service.folder / "nobody.sock")
    return replace(service, admin=replace(service.admin, endpoint=endpoint))


def only_profiled(plan: RunPlan) -> RunPlan:
    return replace(
        plan,
        planned_trials=tuple(planned_trial for planned_trial in plan.planned_trials if planned_trial.kind == "profile"),
    )


def test_a_host_without_profiler_is_noted_and_the_run_continues(without_profiles: Ran) -> None:
    store, outcome = without_profiles
    assert outcome.failures == {}
    assert (outcome.status, outcome.trials) == ("done", 1)
    assert any("sut has no perf" in notice for notice in outcome.run.manifest().notes)
    notes = failures(store)
    assert len(notes) == 2
    assert any(note.startswith("app on sut has no profile: ") and "No such file" in note for note in notes), notes
    assert any(note.startswith("front on sut has no profile: ") and "perf is missing" in note for note in notes)
    assert table(store, "profile").empty
    written = page(read_run(store, outcome.run))
    assert "app on sut has no profile" in written


def failures(store: Store) -> list[str]:
    notes = table(store, "notes")
    return [str(message) for message in notes["message"][notes["code"] == NO_PROFILE]]
