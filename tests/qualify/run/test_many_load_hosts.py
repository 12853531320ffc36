"""Five load hosts at once: counts merged, starts compared, a dead one named."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath

import pytest

import benchkit
from benchkit.agent.files import FileStore
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.loadtools.generators.execution import PlannedSlice, place_inputs, run_slices, start_of_load
from benchkit.run.run import execute
from benchkit.store.store import Store
from tests.qualify.loadtools.test_generators_on_lab import plan_for, run_counted_trial
from tests.support.builders import experiment, load
from tests.support.loadtools.fixtures import skip_without
from tests.support.run.opening import open_run

LOAD_HOSTS = [f"load{number}" for number in range(1, 6)]


@pytest.fixture(scope="module")
def inventory() -> Iterator[Inventory]:
    """A server and five load hosts."""
    shape = [LabHost(name="sut", roles=("sut",)), *(LabHost(name=name, roles=("load",)) for name in LOAD_HOSTS)]
    made = up(LabSpec(name=f"pytest-{os.getpid()}-rack", hosts=tuple(shape)), temporary=True)
    try:
        yield made.inventory()
    finally:
        down(made.name)


@pytest.fixture(scope="module")
def hosts(inventory: Inventory) -> Iterator[Hosts]:
    """The hosts of the inventory."""
    with connect_all(inventory) as connected:
        yield connected


def test_the_merged_counts_are_those_of_the_server(hosts: Hosts) -> None:
    skip_without("h2load")
    trial = run_counted_trial(hosts, {"tool": "h2load", "connections": 10, "processes": 2, "request_count": 5_003})
    assert [each.host for each in trial.record.generators] == [name for name in LOAD_HOSTS for _ in range(2)]
    assert trial.output.measurement is not None
    assert trial.output.measurement.histograms["raw"].total == trial.output.result.requests == trial.served == 5_003


def test_the_spread_of_starts_is_recorded(hosts: Hosts, tmp_path: Path) -> None:
    skip_without("h2load")
    scenario = experiment(load=load(tool="h2load", connections=10), blocks=1)
    with open_run(scenario, hosts, Store(tmp_path)) as run:
        outcome = execute(run)
    assert (outcome.status, outcome.failures) == ("done", {})
    (trial,) = benchkit.load("trials", store=tmp_path).to_dict("records")
    (record,) = outcome.run.records()
    starts_s = [each.started_s for each in record.generators]
    assert 0 < trial["start_spread_s"] == max(starts_s) - min(starts_s)
    assert 0 < trial["start_uncertainty_s"] < 1


def test_a_load_host_that_dies_is_named_and_the_others_are_stopped(hosts: Hosts) -> None:
    """Kill the agent of a load host; this test is the last, as that host is dropped."""
    (cell,) = plan_for(hosts, {"tool": "wrk", "connections": 10, "duration_s": 1}).cells
    generators = tuple(replace(each, program="sh", lead=("-c", "exec sleep 60")) for each in cell.generators)
    slices, folder = [PlannedSlice("killed", "killed", generators)], PurePosixPath("killed")
    place_inputs(hosts, slices, folder)
    agent = hosts["load2"].processes.run(["/bin/sh", "-c", "echo $PPID"]).stdout.decode().strip()
    with connect_all(hosts.inventory.model_copy(update={"hosts": (hosts["load2"].spec,)})) as beside:
        kill = threading.Timer(0.5, beside["load2"].processes.run, [["kill", "-KILL", agent]])
        kill.start()
        with pytest.raises(HostError, match=r"^load2: the agent ended"):
            run_slices(hosts, slices, folder, start_of_load(tuple(hosts[name] for name in LOAD_HOSTS), slices))
        kill.join()
    hosts.drop("load2")
    for host in (each for each in hosts if "load" in each.spec.roles):
        assert b"sleep" not in host.processes.run(["ps", "-eo", "comm="]).stdout.split(), host.name
        host.call(FileStore.remove, "killed")
