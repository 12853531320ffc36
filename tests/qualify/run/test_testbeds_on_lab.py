"""Runs on two testbeds: their blocks divided, an interruption and its resumption, and a testbed that is lost."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest

import benchkit
from benchkit.cli.progress import SilentProgress
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.processes import find_init_processes
from benchkit.lab.spec import parse_shape
from benchkit.run.rebuild import rebuild_tables
from benchkit.run.recorder import RunOutcome
from benchkit.run.run import ResumeOptions, execute
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.store import Store
from tests.support.builders import experiment, load, stacks
from tests.support.needs import separate_hosts
from tests.support.run.opening import open_run

pytestmark = separate_hosts

BLOCKS = 4
CELLS = 2


@pytest.fixture(scope="module")
def rack() -> Iterator[Lab]:
    """Two testbeds of two hosts each; the last test ends one of their hosts."""
    made = up(parse_shape(f"pytest-rack-{os.getpid()}", [], [], shared=False, testbeds=2), temporary=True)
    try:
        yield made
    finally:
        down(made.name)


def small(**changes: object) -> Experiment:
    """Two Go servers in short trials."""
    fields: dict[str, object] = {
        "stacks": stacks(go={"listen": 18080}, fast={"listen": 18080, "backend": "fasthttp"}),
        "factors": {"stack": ["go", "fast"]},
        "load": load(tool="h2load", duration_s=0.3, warmup_s=0.1),
        "blocks": BLOCKS,
        "spare_blocks": 0,
    }
    return experiment(**(fields | changes))


def run_on(
    rack: Lab, store: Store, scenario: Experiment, observer: SilentProgress | None = None, *, reconnect_s: float = 5
) -> RunOutcome:
    with connect_all(rack.inventory()) as hosts, open_run(scenario, hosts, store, reconnect_s=reconnect_s) as run:
        return execute(run, observer or SilentProgress())


def trials_of(store: Store) -> pd.DataFrame:
    """Return the trials in no interrupted block."""
    trials = benchkit.load("trials", store=store.path)
    return trials[trials["kind"] == "measure"].sort_values(["block", "position"], ignore_index=True)


def assert_complete(trials: pd.DataFrame, blocks: int = BLOCKS) -> None:
    """Assert that each block has every cell, all of them on one testbed."""
    assert list(trials["block"]) == [block for block in range(1, blocks + 1) for _ in range(CELLS)]
    for _, block in trials.groupby("block"):
        assert (len(set(block["cell_id"])), len(set(block["testbed"]))) == (CELLS, 1)


def assert_clean(hosts: Hosts) -> None:
    """Assert that no trial has left a folder or a server on any host."""
    for host in hosts:
        assert host.processes.run(["find", "trials", "-mindepth", "1"]).stdout == b""
        host.sockets.require_free([18080])


def test_blocks_are_divided_and_run_at_the_same_time(rack: Lab, tmp_path: Path) -> None:
    store = Store(tmp_path)
    outcome = run_on(rack, store, small())
    assert (outcome.status, outcome.failures, outcome.trials) == ("done", {}, BLOCKS * CELLS)
    trials = trials_of(store)
    assert_complete(trials)
    assert set(trials["testbed"]) == {"a", "b"}
    for record in outcome.run.records():
        names = {each.host for each in record.services} | {each.host for each in record.generators}
        assert names == {f"{record.testbed}-sut", f"{record.testbed}-load"}
    spans = trials.groupby("testbed")["started_at"].agg(["min", "max"])
    assert spans["min"].max() < spans["max"].min(), "the testbeds did not run at the same time"
    with outcome.run.locked():
        rebuild_tables(store, outcome.run)
    pd.testing.assert_frame_equal(trials_of(store), trials)


def test_sliced_blocks_run_on_testbeds_that_are_a_factor(rack: Lab, tmp_path: Path) -> None:
    store = Store(tmp_path)
    # A load tool may end late by the length of a slice, which both testbeds may need on a busy machine.
    windows = {"load": load(tool="h2load", duration_s=1.5, warmup_s=0.1), "slice_s": 0.5}
    outcome = run_on(rack, store, small(design="sliced", testbeds="factor", blocks=1, **windows))
    assert (outcome.status, outcome.failures, outcome.trials) == ("done", {}, 2 * CELLS)
    trials = trials_of(store)
    assert (trials["slices"] == 3).all()
    assert (trials["factor_testbed"] == trials["testbed"]).all()
    ratios = benchkit.compare("latest", store=store.path, exclusions=()).ratios
    pairs = {(ratio.cell_id, ratio.baseline, ratio.blocks) for ratio in ratios}
    assert pairs == {(f"stack=fast,testbed={name}", f"stack=go,testbed={name}", 1) for name in "ab"}


class InterruptingAt(SilentProgress):
    """Observer that interrupts the run when a block starts, as Ctrl-C does."""

    def __init__(self, block: int) -> None:
        self._block = block

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:  # noqa: ARG002 - part of the interface
        """Interrupt at the second trial of the block."""
        if (planned_trial.block, planned_trial.position) == (self._block, 2):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


def test_an_interrupted_run_leaves_nothing_and_is_resumed_on_any_testbed(rack: Lab, tmp_path: Path) -> None:
    store, scenario = Store(tmp_path), small(load=load(tool="h2load", duration_s=1, warmup_s=0.1))
    with pytest.raises(KeyboardInterrupt, match=r"keeps [0-9]+ trials"):
        run_on(rack, store, scenario, InterruptingAt(3))
    folder = store.run("latest")
    assert folder.manifest().status == "interrupted"
    finished = {record.trial_id for record in folder.records()}
    assert 0 < len(finished) < BLOCKS * CELLS
    with connect_all(rack.inventory()) as hosts:
        assert_clean(hosts)
        with open_run(
            scenario, hosts, store, resume=ResumeOptions(folder, accept_changes=False, retry_failed=False)
        ) as run:
            outcome = execute(run, SilentProgress())
    assert (outcome.status, outcome.failures, outcome.trials) == ("done", {}, BLOCKS * CELLS)
    assert_complete(trials_of(store))


class LosingB(SilentProgress):
    """Observer that ends the host of testbed b's server."""

    def __init__(self, rack: Lab) -> None:
        inits = find_init_processes(rack.folder.key)
        (self._host,) = (init.process for init in inits if init.part == "host/b-sut")
        self._rack = rack
        self.texts: list[str] = []

    def notify(self, text: str) -> None:
        """Keep the text."""
        self.texts.append(text)

    def trial_started(self, planned_trial: PlannedTrial, testbed: str | None) -> None:  # noqa: ARG002 - part of the interface
        """End the host with the third block, which either testbed may have taken, and repeats if it is lost."""
        if (planned_trial.block, planned_trial.position, planned_trial.round) == (3, 1, 1):
            self._host.kill()


def test_the_blocks_of_a_lost_testbed_are_run_by_the_other(rack: Lab, tmp_path: Path) -> None:
    store, observer = Store(tmp_path), LosingB(rack)
    outcome = run_on(rack, store, small(), observer, reconnect_s=0.5)
    assert (outcome.status, outcome.failures, outcome.trials) == ("done", {}, BLOCKS * CELLS)
    trials = trials_of(store)
    assert_complete(trials)
    events = (event.model_dump() for event in outcome.run.history())
    assert [event["testbed"] for event in events if event["event"] == "testbed-lost"] == ["b"]
    assert any("Testbed b was lost" in notice for notice in outcome.run.manifest().notes)
    assert any("Testbed b was lost" in text for text in observer.texts)
    assert set(outcome.restore_unconfirmed) == {"b-sut"}
