"""Tests of the programs that use CPU time besides a run."""

from __future__ import annotations

from collections.abc import Mapping

from benchkit.agent.operations import SeenProcess
from benchkit.hosts.other_programs import (
    ProcessSnapshot,
    busiest_programs,
    describe_programs,
)


def snapshot(at_s: float, processes: Mapping[int, tuple[int, str, float]]) -> ProcessSnapshot:
    """Return a snapshot of one machine, by pid: parent, name and CPU time."""
    return ProcessSnapshot(
        at_s,
        {
            ("one", pid, 7.0): SeenProcess(pid, parent, 7.0, name, cpu_s)
            for pid, (parent, name, cpu_s) in processes.items()
        },
    )


def test_busiest_programs_come_first_and_idle_ones_are_left_out() -> None:
    before = snapshot(10.0, {5: (1, "python3", 100.0), 6: (1, "idle", 3.0), 7: (1, "sshd", 1.0)})
    after = snapshot(12.0, {5: (1, "python3", 100.5), 6: (1, "idle", 3.01), 7: (1, "sshd", 1.0), 8: (7, "new", 1.8)})
    found = busiest_programs(before, after)
    assert [(each.title, each.cores) for each in found] == [("new (pid 8)", 0.9), ("python3 (pid 5)", 0.25)]
    assert describe_programs(found) == (
        "another program, new (pid 8), uses 0.90 of a core; python3 (pid 5) uses 0.25 of a core"
    )
