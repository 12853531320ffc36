"""A controller killed at every point at which something is half done, and the run resumed after each."""

from __future__ import annotations

import signal
from collections import Counter

import benchkit
from tests.qualify.chaos.crash import POINTS
from tests.qualify.chaos.kit import SCENARIO, Bench, check_finished_run, tables_summary

SLICED = SCENARIO.with_name("sliced.yaml")

LAST = ("restored", "tables-half-merged", "finished")
"""Points that a run reaches only after all its trials."""
IN_BLOCK = ("in-slices", "raw-whole", "rows-written", "ended")
"""Points within a sliced block; the last three leave it with one trial finished and the other not."""
BETWEEN = [point for point in POINTS if point not in ("held", "created", "in-slices", "switched", *LAST)]


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


def test_a_sliced_block_that_was_killed_is_repeated_whole(bench: Bench) -> None:
    run = [str(SLICED)]
    for point in IN_BLOCK:
        killed = bench.run(*run, crash=point)
        assert killed.code == -signal.SIGKILL, f"{point}: {killed.err}"
        run = ["--resume", "latest"]
    done = bench.run(*run)
    assert done.code == 0, done.out + done.err
    trials = benchkit.load("trials", store=bench.store)
    measured = trials[trials["kind"] == "measure"]
    assert set(Counter(zip(measured["block"], measured["cell_id"], strict=True)).values()) == {1}
    assert len(measured) == 4
    for block, ids in measured.groupby("block")["trial_id"]:
        assert len({trial_id.split(".")[1] for trial_id in ids}) == 1, f"block {block} has trials of one round only"
    slices = benchkit.load("slices", store=bench.store)
    assert set(slices.groupby("trial_id").size()) == {2}
    assert set(slices["trial_id"]) == set(trials["trial_id"])
