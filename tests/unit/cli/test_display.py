"""The display of a run: a line for each trial, and the table of servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from benchkit.cli.display import RunDisplay
from benchkit.cli.run_summary import print_results
from benchkit.comparison.load_curves import HeldLatency
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.server_results import ServerResult, has_answer
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.inventory import Inventory
from benchkit.run.events import (
    BlockRepeated,
    Event,
    Notice,
    Opened,
    Resumed,
    TrialBegun,
    TrialJudged,
    TrialRetried,
    TrialWithoutResult,
)
from benchkit.scenario.trial_order import PlannedTrial, planned_trials
from benchkit.store.run_folder import RunFolder
from tests.support.builders import experiment, run_plan
from tests.support.snapshots import Snapshot

FOLDER = cast("RunFolder", Path("run"))
TRIALS = planned_trials("blocks", ("a", "b"), 2, seed=1)
FIRST, SECOND = TRIALS[:2]
RESUMED_WITH_A_BLOCK_REPEATED = (
    Resumed({FIRST: "suspect"}),
    TrialBegun(SECOND),
    BlockRepeated(1),
    TrialJudged(replace(FIRST, round=2), 1.0, "valid"),
)


def opened(trials: tuple[PlannedTrial, ...] = TRIALS) -> Opened:
    return Opened(run_plan(experiment(), cells=(), planned_trials=trials), Hosts(Inventory(hosts=()), ()), FOLDER)


def lines_of(capfd: pytest.CaptureFixture[str], *events: Event, display: RunDisplay | None = None) -> list[str]:
    """Return the lines that a display prints for these events of a run."""
    display = display or RunDisplay()
    for event in (opened(), *events):
        display.show(event)
    return capfd.readouterr().err.splitlines()


def test_a_repeated_block_is_counted_once(capfd: pytest.CaptureFixture[str]) -> None:
    rest = [TrialJudged(trial, 1.0, "valid") for trial in TRIALS[1:]]
    lines = lines_of(capfd, *RESUMED_WITH_A_BLOCK_REPEATED, *rest)
    assert [line.split()[0] for line in lines if line.startswith("[")] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]
    assert "block 1 was interrupted by a pause and is repeated" in lines


def test_failures_have_their_reasons_and_hints(capfd: pytest.CaptureFixture[str]) -> None:
    error = str(HostError("a port is taken", hint="stop what has it"))
    retried, hint, failed, again = lines_of(capfd, TrialRetried(FIRST, error, 0.5), TrialWithoutResult(FIRST, error))
    assert retried.endswith("retrying in 0.5 s: a port is taken")
    assert failed.endswith("remaining): a port is taken")
    assert hint == again == "  → stop what has it"


def test_results_come_after_each_block_in_place_of_trials(capfd: pytest.CaptureFixture[str]) -> None:
    display = RunDisplay(after_block=lambda folder: f"results of {folder}")
    ended = [TrialJudged(trial, 1.0, "valid") for trial in TRIALS]
    assert lines_of(capfd, Notice("building"), *ended, display=display) == [
        "building",
        "block 1: results of run",
        "block 2: results of run",
    ]
    assert lines_of(capfd, Notice("building"), *ended, display=RunDisplay(quiet=True)) == []


def held(name: str, p50_s: float) -> HeldLatency:
    return HeldLatency(cell_id=name, label=name, p50_s=p50_s, p99_s=2 * p50_s, p999_s=None)


def test_numbers_that_cannot_be_used_are_in_brackets(capsys: pytest.CaptureFixture[str], snapshot: Snapshot) -> None:
    ratio = Ratio(metric="rps", cell_id="b", baseline="a", blocks=0, ratio=0.5, is_unusable=True)
    results = (
        ServerResult(cell_id="a", label="a", rps=1000.0, held=held("a", 0.004)),
        ServerResult(cell_id="b", label="b", rps=500.0, held=held("b", 0.008), unusable=("rps",), ratio=ratio),
    )
    print_results(results, 300.0)
    snapshot(capsys.readouterr().out)
    assert not has_answer(results)
