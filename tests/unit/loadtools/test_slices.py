"""Slices of load on a host with a scripted agent: how outputs are collected, and what makes them unusable."""

from __future__ import annotations

import io
import tarfile
import time
from dataclasses import replace
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchkit.agent import operations as ops
from benchkit.agent.files import FileStore
from benchkit.agent.processes import ProcessTable
from benchkit.agent.timetable import Timetable
from benchkit.errors import HostError
from benchkit.hosts.clock import Clock
from benchkit.hosts.connections import Hosts
from benchkit.hosts.files import Files
from benchkit.hosts.processes import Processes
from benchkit.loadtools.generators.execution import GeneratorRun, PlannedSlice, run_slices
from benchkit.loadtools.generators.generator import plan_generators
from benchkit.loadtools.generators.outputs import Outputs, fetch_outputs
from benchkit.loadtools.tool import Target
from benchkit.models.load import Load
from tests.support.hosts.fake_link import FakeLink
from tests.support.loadtools.fixtures import place
from tests.unit.hosts.test_processes import ENDED

LOAD = Load.model_validate({"tool": "wrk", "connections": 8, "duration_s": 1})
ROWS = Load.model_validate({"tool": "h2load", "connections": 8, "duration_s": 1})
FOLDER = PurePosixPath("/w/block")


def agent_of(*ends: dict[str, Any], reducer_exit_code: int = 0) -> FakeLink:
    """Return the link to an agent whose load tools end so; each output that it lists has its own name as content."""
    well = replace(ENDED, signal=None, memory_kills=None)
    reports = [
        ops.ScheduledProcess(
            ops.ProcessReport(1, 2, 0, started_ns=1, ended=replace(well, **end)), overran="signal" in end
        )
        for end in ends
    ]
    names = names_of(len(ends))
    outputs = [f"{name}.1.{suffix}" for name in names for suffix in ("txt", "json")]
    archives: list[bytes] = []

    def archive(wanted: SimpleNamespace) -> None:
        stream = io.BytesIO()
        with tarfile.open(fileobj=stream, mode="w") as packed:
            for name in wanted.names:
                member = tarfile.TarInfo(name)
                member.size = len(name)
                packed.addfile(member, io.BytesIO(name.encode()))
        archives.append(stream.getvalue())

    def read(wanted: SimpleNamespace) -> ops.FileChunk:
        content = archives[-1] if wanted.path.endswith(".tar") else b"x"
        return ops.FileChunk(len(content), content[wanted.offset : wanted.offset + wanted.limit])

    reducer = ops.ProcessReport(1, 2, 0, started_ns=3)
    return FakeLink(
        {
            Timetable.run: reports,
            Timetable.stop: None,
            ProcessTable.start: reducer,
            ProcessTable.wait: replace(reducer, ended=replace(well, exit_code=reducer_exit_code)),
            FileStore.list_folder: {**dict.fromkeys(outputs, 1), "cell1.1.1.stderr.txt": 0, "outputs.tar": 9},
            FileStore.archive: archive,
            FileStore.remove: None,
            FileStore.read: read,
        }
    )


def names_of(count: int) -> list[str]:
    """Return the names of the first slices of a cell."""
    return [f"cell1.{number}" for number in range(1, count + 1)]


def run_on(link: FakeLink, load: Load, count: int) -> list[tuple[GeneratorRun, Outputs]]:
    """Run this number of slices of a load on the host of an agent, and fetch their outputs."""
    clock = Clock(0, 0.0, 0.001)
    host = SimpleNamespace(
        name="load",
        clock=clock,
        files=Files(link, "load"),
        call=link.call,
        processes=Processes(link, "load", lambda: clock),
    )
    hosts = cast("Hosts", {"load": host})
    generators = plan_generators(load, Target("10.0.0.2:8080"), [place("load")])
    slices = [PlannedSlice(name, "cell1", generators, 0.0, 1.0) for name in names_of(count)]
    runs = [run for (run,) in run_slices(hosts, slices, FOLDER, time.monotonic())]
    return list(zip(runs, fetch_outputs(hosts, runs), strict=True))


def run_with(*ends: dict[str, Any]) -> list[GeneratorRun]:
    """Run slices of wrk that end so."""
    return [run for run, _ in run_on(agent_of(*ends), LOAD, len(ends))]


def test_all_slices_of_a_generator_have_one_reducer_and_their_outputs_one_archive() -> None:
    link = agent_of({"exit_code": 0}, {"exit_code": 1}, {"exit_code": 0})
    runs = run_on(link, ROWS, 3)
    (start,) = link.agent.requested(ProcessTable.start)
    assert start.spec["argv"] == ["/w/tools/reduce", "-tool", "h2load", "cell1.1.1", "cell1.3.1"]
    assert start.spec["cwd"] == "/w/block"
    (archive,) = link.agent.requested(FileStore.archive)
    assert archive.path == "/w/block/outputs.tar"
    assert [output for _, output in runs] == [
        {"stdout": f"{name}.1.txt".encode(), "reduction": f"{name}.1.json".encode()} for name in names_of(3)
    ]


def test_a_reducer_that_fails_is_an_error_with_what_it_printed() -> None:
    with pytest.raises(HostError, match="load: the reducer of h2load failed with exit code 1: x"):
        run_on(agent_of({"exit_code": 0}, {"exit_code": 0}, reducer_exit_code=1), ROWS, 2)


def test_a_tool_that_fails_with_room_on_the_disk_fails_in_its_slice_alone() -> None:
    failures = [run.failure for run in run_with({"exit_code": 0}, {"exit_code": 1}, {"exit_code": 0})]
    assert failures == [None, "wrk failed with exit code 1: x", None]


def test_a_tool_that_was_ended_at_its_limit_has_not_failed_and_its_rows_are_reduced() -> None:
    link = agent_of({"exit_code": 0}, {"exit_code": None, "signal": 2})
    runs = run_on(link, ROWS, 2)
    assert [(run.failure, run.overran) for run, _ in runs] == [(None, False), (None, True)]
    (reducer,) = link.agent.requested(ProcessTable.start)
    assert reducer.spec["argv"][-2:] == ["cell1.1.1", "cell1.2.1"]
    (timetable,) = link.agent.requested(Timetable.run)
    window_ns, limit_ns = 10**9, 2 * 10**9
    spans_ns = [each["limit_ns"] - each["at_ns"] for each in timetable.starts]
    assert all(limit_ns <= span_ns < limit_ns + window_ns for span_ns in spans_ns)
