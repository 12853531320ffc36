"""Slices of load on a host with a scripted agent: what makes their output unusable."""

from __future__ import annotations

import time
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any, cast

import pytest

from benchkit.errors import HostStateError
from benchkit.hosts.agent_link import Reply
from benchkit.hosts.clock import Clock
from benchkit.hosts.connections import Hosts
from benchkit.hosts.files import Files
from benchkit.hosts.processes import Processes
from benchkit.load.generators.generator import plan_generators
from benchkit.load.generators.slices import PlannedSlice, SliceRun, run_slices
from benchkit.load.tools.target import Target
from benchkit.models.load import Load
from benchkit.run.retries import cause_of
from tests.hosts.fake_link import FakeLink
from tests.hosts.test_processes import ENDED
from tests.load.conftest import place

FULL = "No space left on device: 0.0 of 4.2 MB are free, and 150 of 200 inodes"
LOAD = Load.model_validate({"tool": "wrk", "connections": 8, "duration_s": 1})
FOLDER = PurePosixPath("/w/block")


def run_with(*ends: dict[str, Any]) -> list[list[SliceRun]]:
    """Run slices of wrk that end so, on a host that lists and reads the output of each."""
    reports = [
        {"started_ns": 1, "late_s": 0.0, "ended": {**ENDED, "signal": None, "memory_kills": None, **end}, "outputs": {}}
        for end in ends
    ]
    names = [f"cell1.{number}" for number in range(1, len(ends) + 1)]
    link = FakeLink(
        {
            "timetable_run": {"processes": reports},
            "timetable_stop": {},
            "list": {"entries": {f"{name}.1.txt": 1 for name in names}},
            "read": Reply({"size": 1}, b"x"),
        }
    )
    clock = Clock(0, 0.0, 0.001)
    host = SimpleNamespace(
        name="load", clock=clock, files=Files(link, "load"), processes=Processes(link, "load", lambda: clock)
    )
    generators = plan_generators(LOAD, Target("10.0.0.2:8080"), [place("load")])
    slices = [PlannedSlice(name, "cell1", generators, time.monotonic()) for name in names]
    return run_slices(cast("Hosts", {"load": host}), slices, FOLDER)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_slice_that_ended_on_a_full_disk_is_a_host_state_also_where_the_disk_has_room_again(exit_code: int) -> None:
    """Distrust also the output of a tool that ended well: most tools ignore what the kernel refuses to write."""
    with pytest.raises(
        HostStateError, match=f"load: no room for the output of wrk at the end of a slice: {FULL}"
    ) as lost:
        run_with({"exit_code": 0}, {"exit_code": exit_code, "full_disk": FULL}, {"exit_code": 0})
    assert cause_of(lost.value, is_host_lost=False) == "host-state"


def test_a_tool_that_fails_with_room_on_the_disk_fails_in_its_slice_alone() -> None:
    failures = [runs[0].failure for runs in run_with({"exit_code": 0}, {"exit_code": 1}, {"exit_code": 0})]
    assert failures == [None, "wrk failed with exit code 1: x", None]
