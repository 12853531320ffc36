"""Cost of hosts: the start of a lab, a request to a host, and trials with many load hosts."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import benchkit
from benchkit.agent.server import Agent
from benchkit.hosts.connections import connect_all
from benchkit.hosts.inventory import Inventory
from benchkit.lab.lab import Lab, down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.store.store import Store
from tests.bench.bench_trial import wall_times_s
from tests.bench.real_runs import table
from tests.qualify.loadtools.test_generators_on_lab import run_counted_trial
from tests.support.builders import load, write_scenario

BENCHKIT = str(Path(sys.executable).with_name("benchkit"))
TIMES = 7
MESSAGES = 500

LOAD_HOSTS = (1, 2, 4, 8, 16, 32)
TRIALS = 10
HEADS = (
    "load hosts",
    "overhead of a trial",
    "relative to one host",
    "spread of starts: median, largest",
    "clocks known to",
    "controller: CPU time per trial",
    "memory",
)
LIMIT_OF_OVERHEAD = 1.1
"""Largest overhead of a trial with four load hosts, as a ratio to that with one."""
LIMIT_OF_SPREAD_S = 0.02
"""Largest median of the time from the first start of a load tool to the last, with four load hosts."""


def test_lab_up_takes_at_most_three_seconds() -> None:
    name = f"bench-{os.getpid()}"
    environment = {**os.environ, "BENCHKIT_LAB": name}
    times = []
    for _ in range(TIMES):
        started = time.perf_counter()
        subprocess.run([BENCHKIT, "lab", "up"], env=environment, stdout=subprocess.DEVNULL, check=True)
        times.append(time.perf_counter() - started)
        subprocess.run([BENCHKIT, "lab", "down"], env=environment, stdout=subprocess.DEVNULL, check=True)
    print(f"\nbenchkit lab up, whole process: median {statistics.median(times):.2f} s, at most {max(times):.2f} s")
    assert max(times) <= 3


def test_a_request_takes_less_than_a_login(lab: Lab) -> None:
    with connect_all(lab.inventory()) as hosts:
        sut, times = hosts["sut"], []
        for _ in range(MESSAGES):
            began = time.perf_counter()
            sut.link.call(Agent.read_clocks)
            times.append(time.perf_counter() - began)
    began = time.perf_counter()
    subprocess.run([*lab.ssh_command("sut"), "true"], check=True)
    login_s = time.perf_counter() - began
    message_s = statistics.median(times)
    print(
        f"\na message to a connected host: median {message_s * 1e3:.2f} ms; a login that runs `true`: {login_s:.2f} s"
    )
    assert message_s < login_s / 10


@dataclass(frozen=True)
class Measured:
    """The cost of a run with some load hosts: medians over its trials, and its controller's process."""

    overhead_s: float
    spread_s: float
    largest_spread_s: float
    uncertainty_s: float
    controller_cpu_s: float
    """CPU time of the whole process, per trial."""
    controller_bytes: int
    """Largest resident memory."""

    def row(self, count: int, one: Measured) -> str:
        """Return the row of the table for this number of load hosts, beside the cost with one of them."""
        cells = [
            str(count),
            f"{self.overhead_s:.3f} s",
            f"{self.overhead_s / one.overhead_s:.2f}",
            f"{1e3 * self.spread_s:.1f} ms, {1e3 * self.largest_spread_s:.1f} ms" if count > 1 else "",
            f"{1e3 * self.uncertainty_s:.2f} ms" if count > 1 else "",
            f"{self.controller_cpu_s:.2f} s",
            f"{self.controller_bytes / 1e6:.0f} MB",
        ]
        return f"| {' | '.join(cells)} |"


@pytest.fixture(scope="module")
def rack() -> Iterator[Inventory]:
    """A server and as many load hosts as are measured, all on this machine."""
    names = [f"load{number}" for number in range(1, max(LOAD_HOSTS) + 1)]
    shape = (LabHost(name="sut", roles=("sut",)), *(LabHost(name=name, roles=("load",)) for name in names))
    made = up(LabSpec(name=f"bench-{os.getpid()}-rack", hosts=shape), temporary=True)
    try:
        yield made.inventory()
    finally:
        down(made.name)


def with_load_hosts(rack: Inventory, count: int) -> Inventory:
    """Return the server and the first load hosts."""
    return rack.model_copy(update={"hosts": rack.hosts[: 1 + count]})


def write_inventory(inventory: Inventory, path: Path) -> Path:
    """Write the file of an inventory; JSON is YAML, too."""
    fields = {
        host.name: host.model_dump(mode="json", exclude={"name", "written"}, exclude_none=True)
        for host in inventory.hosts
    }
    path.write_text(json.dumps({"hosts": fields, "not_isolated": inventory.not_isolated}))
    return path


def measure_run(scenario: Path, inventory: Path, folder: Path) -> Measured:
    """Run a scenario of one cell in a process of its own."""
    process = subprocess.Popen([BENCHKIT, "run", scenario, "-i", inventory, "-q", "--store", folder])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    (run,) = Store(folder).runs()
    wall_s = wall_times_s(run.journal_file)
    records = sorted(run.records(), key=lambda record: record.trial_id)[1:]  # the first also fills the hosts' caches
    trials = benchkit.load("trials", store=folder)
    spreads = trials["start_spread_s"].fillna(0.0)
    return Measured(
        overhead_s=statistics.median(
            wall_s[record.trial_id] - record.warmed_up_s - record.window_s for record in records
        ),
        spread_s=spreads.median(),
        largest_spread_s=spreads.max(),
        uncertainty_s=trials["start_uncertainty_s"].median(),
        controller_cpu_s=(usage.ru_utime + usage.ru_stime) / len(trials),
        controller_bytes=usage.ru_maxrss * 1024,
    )


def test_cost_of_many_load_hosts(rack: Inventory, tmp_path: Path) -> None:
    """Run the same load from 1 to 32 load hosts, which share this machine's cores: a rack's own would be faster."""
    scenario = write_scenario(tmp_path, load=load(connections=64, threads=1), blocks=TRIALS + 1)
    measured: dict[int, Measured] = {}
    print("\n" + table(HEADS, ()))
    for count in LOAD_HOSTS:
        inventory = write_inventory(with_load_hosts(rack, count), tmp_path / f"{count}.yaml")
        measured[count] = measure_run(scenario, inventory, tmp_path / f"store{count}")
        print(measured[count].row(count, measured[1]))
    assert measured[4].overhead_s <= LIMIT_OF_OVERHEAD * measured[1].overhead_s
    assert measured[4].spread_s <= LIMIT_OF_SPREAD_S


def test_the_counts_of_many_load_hosts_are_those_of_the_server(rack: Inventory) -> None:
    requests = 400 * max(LOAD_HOSTS) + 7
    with connect_all(rack) as hosts:
        trial = run_counted_trial(hosts, {"tool": "h2load", "connections": max(LOAD_HOSTS), "requests": requests})
    assert trial.output.measurement is not None
    print(
        f"\n{len(trial.record.generators)} load hosts: {trial.served} requests by the server's counter, "
        f"{trial.output.measurement.histograms['raw'].total} in the merged histogram"
    )
    assert trial.output.measurement.histograms["raw"].total == trial.served == requests
