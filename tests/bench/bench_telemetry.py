"""Cost of telemetry on a host, and its effect on a load."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

import pandas as pd

from benchkit.agent.operations import ProcessSpec, ToFile
from benchkit.agent.telemetry import Telemetry
from benchkit.comparison.ratios import block_ratios
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.hosts.host import Host
from benchkit.lab.lab import Lab
from benchkit.models.telemetry import AGENT_SERVICE
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan
from benchkit.run.block import run_block
from benchkit.run.steps.state import Block, make_trial
from benchkit.run.steps.telemetry import watched_service
from benchkit.run.testbed import install_programs
from benchkit.scenario.experiment import Experiment
from benchkit.scenario.model import TelemetryOptions
from benchkit.scenario.read import read_experiment
from benchkit.services import deploy
from benchkit.services.deploy import RunningService
from benchkit.stats.cell_pairs import ComparedCells
from benchkit.stats.samples import take_samples
from benchkit.store.row_builders import trial_row
from benchkit.store.telemetry_table import SampleSeries, SeriesKey, read_telemetry
from benchkit.store.trial_tables import read_output

SOCKETS = 15_000
PAIRS = 20
LOOKS = 500
MB = 1e6
RSS_MB = 30

THREE = """\
name: watched
title: three services
question: What does it cost to watch them?
stacks:
  three:
    entry: front
    services:
      app: {backend: nethttp, role: sut, listen: 8081}
      other: {backend: nethttp, role: sut, listen: 8082}
      front: {backend: nginx, role: sut, listen: 8080, upstream: app}
load: {tool: wrk, connections: 8, duration_s: 1}
blocks: 1
scales: {lab: {}}
"""

HOLD = """
import socket, sys, time
held = [socket.create_connection((sys.argv[1], 8082)) for _ in range(int(sys.argv[2]))]
print("held", flush=True)
time.sleep(3600)
"""


@contextmanager
def deployed(lab: Lab, experiment: Experiment) -> Iterator[tuple[RunPlan, Hosts]]:
    """Deploy a plan, and connect again, so that the memory of the agents is not enlarged by sending programs."""
    with connect_all(lab.inventory()) as hosts:
        plan = make_plan(experiment, hosts)
        install_programs(plan, hosts)
        for cell in plan.cells:
            for host, services in deploy.group_by_host(cell.services).items():
                deploy.deploy(hosts[host], services)
    with connect_all(lab.inventory()) as hosts:
        yield plan, hosts


@contextmanager
def three_services(plan: RunPlan, hosts: Hosts) -> Iterator[list[RunningService]]:
    """Run a Go server with many idle connections, another one, and nginx."""
    sut, load, logs = hosts["sut"], hosts["load"], PurePosixPath("watched")
    running = [deploy.start(sut, service, logs) for service in plan.cells[0].services]
    address = str(running[0].service.endpoint.address)
    nofile = load.facts.nofile_hard
    holder = load.processes.start(
        ProcessSpec(["python3", "-c", HOLD, address, str(SOCKETS)], nofile=nofile, stdout=ToFile(logs / "held.txt"))
    )
    try:
        deadline = time.monotonic() + 60
        while b"held" not in load.files.read(logs / "held.txt"):
            assert holder.wait(0) is None
            assert time.monotonic() < deadline
            time.sleep(0.1)
        yield running
    finally:
        load.processes.stop([holder])
        deploy.stop(sut, running)


@dataclass(frozen=True)
class TelemetryCost:
    """Cost of telemetry: shares of a core, and bytes."""

    agent: float
    services: float
    """Share of all services together, which only serve their counters."""
    rss: float
    """Memory of the whole agent."""
    grown: float
    """Growth of that memory since telemetry began."""


def measure_telemetry(host: Host, running: list[RunningService], interval_s: float, seconds: float) -> TelemetryCost:
    """Run telemetry for some seconds, and return its cost."""
    path = PurePosixPath("watched") / f"{interval_s}-{time.monotonic_ns()}.jsonl"
    host.call(Telemetry.start, path, interval_s, [watched_service(each, each.service.name) for each in running])
    time.sleep(seconds)
    host.call(Telemetry.snapshot)
    ended = host.call(Telemetry.stop)
    assert ended is not None
    assert ended.unavailable == []
    found = read_telemetry(host.files.read(path))
    rss = found[AGENT_SERVICE, "rss_bytes", None].numbers
    services = sum(share(found, each.service.name) for each in running)
    return TelemetryCost(share(found, AGENT_SERVICE), services, rss[-1], rss[-1] - rss[0])


def share(found: dict[SeriesKey, SampleSeries], service: str) -> float:
    """Return the CPU time of a service per second of telemetry, without the first sample, which loads the code."""
    series = found[service, "cpu_s_total", None]
    return (series.numbers[-1] - series.numbers[1]) / (series.t_ns[-1] - series.t_ns[1]) * 1e9


def test_cost_of_telemetry_with_three_services_and_many_sockets(lab: Lab, tmp_path: Path) -> None:
    """Measure CPU and memory of the whole agent during telemetry, including its base cost."""
    (tmp_path / "watched.yaml").write_text(THREE)
    experiment = read_experiment(str(tmp_path / "watched.yaml"), "lab")
    with deployed(lab, experiment) as (plan, hosts), three_services(plan, hosts) as running:
        print(f"\n3 services, one of them with {SOCKETS} open connections")
        for interval_s, seconds, limit in ((1.0, 20.0, 0.002), (0.1, 10.0, 0.02)):
            cost = measure_telemetry(hosts["sut"], running, interval_s, seconds)
            print(
                f"every {interval_s:g} s: {cost.agent:.3%} of a core (limit {limit:.1%}), {cost.rss / MB:.1f} MB "
                f"(limit {RSS_MB}), {cost.grown / MB:.1f} of them since telemetry began; "
                f"the services, for serving their counters: {cost.services:.3%}"
            )
            assert cost.agent <= limit
            assert cost.rss <= RSS_MB * MB


def test_telemetry_does_not_affect_a_load(lab: Lab) -> None:
    """Compare pairs of trials with and without telemetry, in random order: the interval of the ratio contains 1."""
    experiment = read_experiment("quickstart", "smoke", ["blocks=1", "load.duration_s=2", "factors.stack=[go]"])
    rng, rows = random.Random(1), []  # noqa: S311 - an order, not a secret
    with deployed(lab, experiment) as (plan, hosts):
        for pair in range(PAIRS):
            order = ["watched", "unwatched"]
            rng.shuffle(order)
            for position, cell_id in enumerate(order):
                planned_trial = replace(plan.planned_trials[0], block=pair, position=position)
                trial = make_trial(plan, planned_trial, plan.cell_of(planned_trial), "bench", hosts)
                trial.telemetry_options = TelemetryOptions() if cell_id == "watched" else None
                (record,) = run_block(Block([trial], plan.seed)).values()
                reading = read_output(record, trial.files.__getitem__)
                rows.append(replace(trial_row(record, reading.merged.result), cell_id=cell_id))
    (ratio,) = block_ratios(take_samples(pd.DataFrame(rows), "rps"), [ComparedCells("watched", "unwatched")])
    assert ratio.ratio is not None
    assert ratio.low is not None
    assert ratio.high is not None
    print(
        f"\nwith telemetry relative to without, {ratio.blocks} pairs of 2 s: RPS ratio {ratio.ratio:.4f}, "
        f"95 % interval {ratio.low:.4f} to {ratio.high:.4f}"
    )
    overhead = pd.DataFrame(rows).groupby("cell_id")["overhead_s"].median()
    print(f"overhead of a trial: {overhead['watched']:.3f} s with telemetry, {overhead['unwatched']:.3f} s without")
    assert ratio.low <= 1 <= ratio.high


def cost_us(look: Callable[[], object]) -> float:
    """Return the mean CPU time of a call in microseconds."""
    look()
    began = time.process_time()
    for _ in range(LOOKS):
        look()
    return (time.process_time() - began) / LOOKS * 1e6
