"""The display of a run: its picture on a terminal, its lines elsewhere, and the table of servers."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from rich.console import Console

from benchkit.cli.display import MARKS, RunDisplay
from benchkit.cli.run_summary import results_table
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.server_results import ServerResult, has_answer
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.inventory import Inventory
from benchkit.models.metrics import P99
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


def picture(*events: Event, trials: tuple[PlannedTrial, ...] = TRIALS, width: int = 80, height: int = 24) -> list[str]:
    """Return the lines of the picture after these events, on a terminal of that size."""
    display = RunDisplay()
    for event in (opened(trials), *events):
        display.show(event)
    display._console = console = Console(width=width, height=height, file=io.StringIO(), record=True)  # type: ignore[assignment]
    console.print(display._draw())
    return console.export_text().splitlines()


def test_marks_are_in_the_row_of_their_cell() -> None:
    heading, *rows = picture(TrialJudged(FIRST, 1000.0, "suspect", ("errors",)), TrialBegun(SECOND))
    suspect, running, pending = (MARKS[name][0] for name in ("suspect", "running", "pending"))
    assert "1/4 trials" in heading
    assert rows[:2] == sorted([f"{FIRST.cell_id}  {suspect}{pending}", f"{SECOND.cell_id}  {running}{pending}"])
    assert rows[3:] == [
        f"block 1, {SECOND.cell_id}",
        f"last: block 1, {FIRST.cell_id}: 1,000 requests/s (suspect: errors)",
    ]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 5), (200, 50)])
@pytest.mark.parametrize(("cells", "blocks"), [(1, 1), (500, 100)])
def test_lines_fit_the_terminal_and_the_running_trial_is_visible(
    cells: int, blocks: int, width: int, height: int
) -> None:
    names = tuple(f"stack=some-rather-long-name,connections={n}" for n in range(cells))
    trials = planned_trials("sequential", names, blocks, seed=1)
    finished = Resumed(dict.fromkeys(trials[:-1], "valid"))
    lines = picture(finished, TrialBegun(trials[-1]), trials=trials, width=width, height=height)
    assert max(map(len, lines)) <= width
    assert any(line.endswith(MARKS["running"][0]) for line in lines[1:-3])
    assert len(lines) <= max(height, 10)


def test_a_repeated_block_is_counted_once(capfd: pytest.CaptureFixture[str]) -> None:
    assert "1/4 trials" in picture(*RESUMED_WITH_A_BLOCK_REPEATED)[0]
    capfd.readouterr()
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


def test_numbers_that_cannot_be_used_are_in_brackets(snapshot: Snapshot) -> None:
    ratio = Ratio(metric="rps", cell_id="b", baseline="a", blocks=0, ratio=0.5, is_unusable=True)
    results = (
        ServerResult(cell_id="a", label="a", rps=1000.0, latency={P99: 0.004}),
        ServerResult(cell_id="b", label="b", rps=500.0, latency={P99: 0.008}, unusable=("rps",), ratio=ratio),
    )
    console = Console(width=80)
    with console.capture() as printed:
        console.print(results_table(results))
    snapshot(printed.get())
    assert not has_answer(results)
