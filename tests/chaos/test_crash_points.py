"""A controller killed at every point at which something is half done, and the run resumed after each."""

from __future__ import annotations

import signal

import pytest

from tests.chaos.crash import POINTS
from tests.chaos.kit import SCENARIO, Bench, check_finished_run, tables_summary

pytestmark = pytest.mark.lab

LAST = ("restored", "tables-half-merged", "finished")
"""Points that a run reaches only after all its trials."""
BETWEEN = [point for point in POINTS if point not in ("held", "created", *LAST)]


def test_a_run_killed_at_every_point_has_the_tables_of_an_undisturbed_one(bench: Bench, undisturbed: Bench) -> None:
    assert bench.run(str(SCENARIO), crash="held").code == -signal.SIGKILL
    assert not (bench.store / "runs").exists()
    assert bench.run(str(SCENARIO), crash="created").code == -signal.SIGKILL
    over: set[str] = set()
    for point in (*BETWEEN, *LAST):
        killed = bench.run("--resume", "latest", crash=point)
        assert killed.code == -signal.SIGKILL, f"{point}: {killed.err}"
        assert over <= bench.progress().ended.keys(), point
        over = set(bench.progress().ended)
    done = bench.run("--resume", "latest", "--json")
    assert done.code == 0, done.err
    assert '"status": "done"' in done.out
    check_finished_run(bench, over, tables_summary(undisturbed.store))
    second_resume = bench.run("--resume", "latest")
    assert second_resume.code == 2
    assert "this run is finished" in second_resume.err
