"""Generators on lab hosts against a server that counts its requests: each tool, and eight generators on two hosts."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from unittest.mock import patch

import pytest

from benchkit.agent.operations import SocketAddress
from benchkit.errors import ServiceError
from benchkit.hosts.connections import Hosts, connect_all
from benchkit.lab.lab import down, up
from benchkit.lab.spec import LabHost, LabSpec
from benchkit.loadtools.measurement import LatencySeries
from benchkit.loadtools.reducer_output import NO_SUMMARY
from benchkit.loadtools.registry import TOOLS
from benchkit.loadtools.tool import ParsedOutput
from benchkit.models.trial import TrialRecord
from benchkit.plan.model import RunPlan
from benchkit.plan.planner import make_plan
from benchkit.run import block
from benchkit.run.steps.load import measure
from benchkit.run.steps.state import Block, Trial, make_trial
from benchkit.run.testbed import install_programs
from benchkit.scenario.read import read_experiment
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.services import deploy
from benchkit.store.trial_tables import read_output
from tests.support.loadtools.fixtures import PERCENTILES_ONLY, skip_without

ADMIN_PORT = 8099
HELLO_SHA256 = "d2a84f4b8b650937ec8f73cd8be2c74add5a911ba64df27458ed8229da804a26"
"""SHA-256 of the body that the servers of benchkit send."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[Hosts]:
    """A server and two load hosts."""
    roles = {"sut": "sut", "load1": "load", "load2": "load"}
    shape = tuple(LabHost(name=name, roles=(role,)) for name, role in roles.items())
    made = up(LabSpec(name=f"pytest-{os.getpid()}-generators", hosts=shape))
    try:
        with connect_all(made.inventory()) as connected:
            yield connected
    finally:
        down(made.name)


@dataclass(frozen=True)
class Counted:
    """A trial, and the number of requests that its server counted."""

    record: TrialRecord
    outputs: tuple[ParsedOutput, ...]
    output: ParsedOutput
    files: Mapping[str, bytes]
    served: int


def plan_for(hosts: Hosts, load: Mapping[str, Any]) -> RunPlan:
    """Return the plan for the quickstart's Go server under this load."""
    fields = {"warmup_s": 0, "duration_s": None, "threads": 1, "rate": None, **load}
    settings = ["factors.stack=[go]", "baseline=null", "blocks=1", "tuning=[]", f"load={json.dumps(fields)}"]
    return make_plan(read_experiment("quickstart", "smoke", settings), hosts)


def run_counted_trial(hosts: Hosts, load: Mapping[str, Any]) -> Counted:
    """Run a trial step by step, and read the server's counter right after the load."""
    plan = plan_for(hosts, load)
    (cell,) = plan.cells
    assert cell.unsupported is None
    (service,) = cell.services
    address = str(service.endpoint.address)
    argv = (*service.process.argv, "-admin", f"{address}:{ADMIN_PORT}")
    counting = replace(service, process=replace(service.process, argv=argv))
    cell = replace(cell, services=(counting,))
    plan = replace(plan, cells=(cell,))
    install_programs(plan, hosts)
    deploy.deploy(hosts["sut"], [counting])
    trial = make_trial(plan, PlannedTrial(1, 1, cell.cell_id), cell, "r-counted", hosts)
    served: list[int] = []

    def measure_and_count(running: Block) -> None:
        measure(running)
        probed = len(trial.probes) + sum(len(each.responses) for each in trial.probe_rounds)
        served.append(_served(trial, address) - probed)

    running = Block([trial], plan.seed)
    with patch.object(block, "measure", measure_and_count):
        records = block.run_block(running)
    for failure in running.failures.values():
        raise failure
    record = records[trial.trial_id]
    output = read_output(record, trial.files.__getitem__)
    return Counted(record, output.generators, output.merged, trial.files, served[0])


def _served(trial: Trial, address: str) -> int:
    answer = trial.load_hosts[0].sockets.get_http(SocketAddress("tcp", address, ADMIN_PORT), "/debug/vars")
    return int(json.loads(answer.body)["requests"])


UNCOUNTED = {"wrk": 1, "ab": 1, "siege": 1, "h2load": 1}
"""Requests per connection that a tool may leave open at the end of its time: answered, but counted by the server alone.

The other tools wait for theirs.
"""

LOST_LINES = {"siege": 2 * 80}
"""Rows that a tool loses at the end of its time: on each host the buffer of one user of siege."""

UNCOUNTED_ROWS = {"siege": 1}
"""Rows per connection that a tool may write at the end of its time for answers that its summary lacks."""


@pytest.mark.parametrize("tool", TOOLS)
def test_tool_and_server_count_the_same_except_for_requests_open_at_the_end(hosts: Hosts, tool: str) -> None:
    skip_without(tool)
    connections = 8
    seconds = 2 if tool == "siege" else 1  # siege ends up to a second early
    trial = run_counted_trial(hosts, {"tool": tool, "connections": connections, "duration_s": seconds})
    result, measured = trial.output.result, trial.output.measurement
    assert result.complete, result.notes
    assert result.requests is not None
    # A siege that hangs at its end (see its command.py) is ended, and its rows are counted.
    was_ended = any(note.code == NO_SUMMARY for note in result.notes)
    lost = LOST_LINES[tool] if was_ended else 0
    assert 0 <= trial.served - result.requests <= UNCOUNTED.get(tool, 0) * connections + lost
    assert (measured is None) == (tool in PERCENTILES_ONLY)
    if measured is not None:
        without_row = result.requests - measured.histograms["raw"].total
        assert -UNCOUNTED_ROWS.get(tool, 0) * connections <= without_row <= LOST_LINES.get(tool, 0)
        assert result.latency.percentiles.keys() >= {"50", "90", "99"}
    assert result.latency.corrected is False
    assert not result.failed
    assert result.rps is not None
    assert result.duration_s is not None
    # h2load divides by its -D; the duration that it prints includes the time to close connections.
    took_s = [float(seconds) if tool == "h2load" else (each.result.duration_s or 1) for each in trial.outputs]
    rates = [(each.result.requests or 0) / s for each, s in zip(trial.outputs, took_s, strict=True)]
    assert result.rps == pytest.approx(sum(rates), rel=1e-3)  # siege and ab print milliseconds
    assert 0.25 * seconds < result.duration_s < trial.record.wall_s
    assert len(trial.record.generators) == 2
    assert {generator.host for generator in trial.record.generators} == {"load1", "load2"}


@pytest.mark.parametrize("tool", ["hey", "ab", "h2load", "siege"])
def test_four_processes_on_each_of_two_hosts_count_exactly_what_the_server_counts(hosts: Hosts, tool: str) -> None:
    """Check runs with a count of requests, in which none is open at the end."""
    skip_without(tool)
    requests = 8 * 700
    trial = run_counted_trial(hosts, {"tool": tool, "connections": 16, "processes": 4, "request_count": requests})
    result, measured = trial.output.result, trial.output.measurement
    assert trial.served == result.requests == requests
    assert measured is not None
    assert measured.histograms["raw"].total == requests
    assert measured.histograms["raw"].total == sum(
        output.measurement.histograms["raw"].total for output in trial.outputs if output.measurement
    )
    generators = trial.record.generators
    assert [generator.host for generator in generators] == ["load1"] * 4 + ["load2"] * 4
    assert [generator.load.request_count for generator in generators] == [700] * 8
    assert [generator.load.connections for generator in generators] == [2] * 8
    assert trial.record.clock_uncertainty_s > 0
    assert trial.record.start_spread_s == max(generator.started_s for generator in generators) > 0
    due_s = [generator.started_s - generator.late_s for generator in generators]
    assert max(due_s) - min(due_s) <= trial.record.clock_uncertainty_s + 1e-6, "all were due at the same instant"
    assert result.rps == pytest.approx(sum(output.result.rps or 0 for output in trial.outputs))


def test_printed_percentiles_agree_with_those_of_the_histogram(hosts: Hosts) -> None:
    """Compare wrk's with its corrected series, and ab's with its rows, to the step in which the tool prints."""
    own: tuple[tuple[str, LatencySeries], ...] = (("wrk", "corrected"), ("ab", "raw"))
    for tool, series in own:
        skip_without(tool)
        trial = run_counted_trial(hosts, {"tool": tool, "connections": 16, "duration_s": 1, "processes": 1})
        for generator, output in zip(trial.record.generators, trial.outputs, strict=True):
            assert output.measurement is not None
            histogram = output.measurement.histograms[series]
            printed = TOOLS[tool].format.parse(trial.files[generator.files["stdout"]].decode()).latency
            assert printed.resolution_s is not None
            for percent in ("50", "75", "90", "99"):
                # With few requests, neighbouring ranks differ by more than the tool's step, and tools choose either.
                rank = 100 / (output.result.requests or 1)
                low, high = (histogram.percentile(float(percent) + beside) for beside in (-rank, rank))
                assert low is not None
                assert high is not None
                assert low - printed.resolution_s <= printed.percentiles[percent] <= high + printed.resolution_s, tool


def test_a_failure_names_the_generator_its_host_and_its_last_lines(hosts: Hosts) -> None:
    load = {"tool": "wrk", "connections": 8, "processes": 2, "duration_s": 1}
    plan = plan_for(hosts, load)
    (cell,) = plan.cells
    third = cell.generators[2]
    broken = replace(third, lead=("--no-such-option",))
    others = tuple(broken if each is third else each for each in cell.generators)
    cell = replace(cell, generators=others)
    plan = replace(plan, cells=(cell,))
    install_programs(plan, hosts)
    deploy.deploy(hosts["sut"], cell.services)
    trial = make_trial(plan, PlannedTrial(1, 1, cell.cell_id), cell, "r-failing", hosts)
    failing = Block([trial], plan.seed)
    block.run_block(failing)
    message = str(failing.failures[trial.trial_id])
    assert message.startswith("load2: wrk, generator 3 of 4, failed with exit code 1")
    assert "no-such-option" in message
    for name in ("load1", "load2"):
        running = hosts[name].processes.run(["ps", "-eo", "comm="]).stdout.decode().split()
        assert "wrk" not in running


MIX = [
    {"path": "/a", "weight": 3, "expect": {"status": 200, "contains": "Hello", "sha256": HELLO_SHA256}},
    {"method": "POST", "path": "/b", "body": "k=v"},
]


def test_a_response_that_is_not_the_expected_one_fails_naming_the_request_and_what_differs(hosts: Hosts) -> None:
    wrong = {
        "method": "POST",
        "path": "/b",
        "body": "k=v",
        "expect": {"status": 201, "contains": "Bye", "sha256": "0" * 64},
    }
    with pytest.raises(ServiceError) as failure:
        run_counted_trial(hosts, {"tool": "vegeta", "connections": 4, "duration_s": 1, "requests": [MIX[0], wrong]})
    message = str(failure.value)
    assert " to POST /b: status 200, expected 201; 'Bye' is not in its body; " in message
    assert f"SHA-256 {HELLO_SHA256}, expected {'0' * 64}" in message
    assert "the body begins with 'Hello World'" in message


def test_requests_that_a_tool_cannot_send_make_its_cell_unsupported_and_no_other(hosts: Hosts) -> None:
    load = {
        "tool": "$tool",
        "connections": 4,
        "threads": 1,
        "warmup_s": 0,
        "duration_s": 1,
        "rate": None,
        "requests": MIX,
    }
    settings = [
        *("baseline=null", "blocks=1", "tuning=[]", "factors.stack=[go]", "factors.tool=[wrk, ab]"),
        f"load={json.dumps(load)}",
    ]
    plan = make_plan(read_experiment("quickstart", "smoke", settings), hosts)
    assert {str(cell.spec.levels["tool"]): cell.unsupported for cell in plan.cells} == {
        "wrk": None,
        "ab": "ab sends one request, not 2 (wrk, vegeta, h2load, openloop, k6 can)",
    }
    assert {trial.cell_id for trial in plan.planned_trials} == {plan.cells[0].cell_id}
