"""The live display of a run: on values, and of a real run in a terminal of 80 columns."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from benchkit.cli.live_matrix import (
    MARKS,
    LiveProgress,
    RunMatrix,
    RunningTrial,
    activity,
    generators_run,
    growth_per_s,
)
from benchkit.cli.progress import PlainProgress
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts
from benchkit.hosts.inventory import Inventory
from benchkit.run.events import (
    BlockRepeated,
    Notice,
    Resumed,
    TrialBegun,
    TrialJudged,
    TrialRetried,
    TrialWithoutResult,
)
from benchkit.scenario.trial_order import PlannedTrial, planned_trials
from tests.support.builders import experiment, run_plan


def drawn_lines(picture: RunMatrix, width: int = 80, height: int = 24) -> list[str]:
    """Return the lines of a picture on a terminal of that size."""
    console = Console(width=width, height=height, file=io.StringIO(), record=True)
    console.print(picture.draw(width, height))
    return console.export_text().splitlines()


def picture(cells: int, blocks: int, current: PlannedTrial | None = None) -> RunMatrix:
    names = tuple(f"stack=some-rather-long-name,connections={n}" for n in range(cells))
    running = None if current is None else RunningTrial(current)
    return RunMatrix("study", names, blocks, cells * blocks, running=running)


def test_marks_are_at_their_cell_and_block() -> None:
    shown = picture(2, 3, PlannedTrial(2, 1, "stack=some-rather-long-name,connections=1"))
    shown.marks = {(shown.cells[0], 1): "valid", (shown.cells[1], 1): "suspect", (shown.cells[1], 2): "running"}
    lines = drawn_lines(shown)
    assert lines[1].endswith(MARKS["valid"][0] + 2 * MARKS["pending"][0])
    assert lines[2].endswith(MARKS["suspect"][0] + MARKS["running"][0] + MARKS["pending"][0])
    assert "block 2, stack=some-rather-long-name,connections=1" in lines[4]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (40, 10), (20, 5), (200, 50)])
@pytest.mark.parametrize(("cells", "blocks"), [(1, 1), (4, 6), (500, 100)])
def test_lines_fit_the_terminal_and_the_current_trial_is_visible(
    cells: int, blocks: int, width: int, height: int
) -> None:
    at = f"stack=some-rather-long-name,connections={cells - 1}"
    shown = picture(cells, blocks, PlannedTrial(blocks, 1, at))
    shown.marks[at, blocks] = "running"
    lines = drawn_lines(shown, width, height)
    assert max(map(len, lines)) <= width
    assert any(line.endswith(MARKS["running"][0]) for line in lines[1:-3])
    assert len(lines) <= max(height, 10)


def test_the_running_trial_is_shown_until_it_ends() -> None:
    display = LiveProgress(PLAN, Hosts(Inventory(hosts=()), ()))
    first, second, *_ = PLANNED_TRIALS
    display.show(Notice("building"))
    assert drawn_lines(display.picture)[-2] == "building"
    display.show(TrialBegun(first))
    assert display.picture.running is not None
    display.picture.running.activity = "server 0.75 CPUs"
    assert drawn_lines(display.picture)[-2] == f"block 1, {first.cell_id}: server 0.75 CPUs"
    display.show(TrialJudged(first, 1.0, "valid"))
    display.show(TrialBegun(second))
    assert drawn_lines(display.picture)[-2] == f"block 1, {second.cell_id}"
    display.show(TrialWithoutResult(second, "no answer"))
    display.show(Notice("restoring"))
    assert drawn_lines(display.picture)[-2] == "restoring"


def test_activity_follows_from_two_samples() -> None:
    before = {"app": {"cpu_s_total": (0, 1.0), "requests_total": (0, 100.0)}, "generator-1": {"cpu_s_total": (0, 5.0)}}
    after = {
        "app": {"cpu_s_total": (2_000_000_000, 2.5), "requests_total": (2_000_000_000, 20_100.0)},
        "generator-1": {"cpu_s_total": (1_000_000_000, 5.5)},
    }
    rps = growth_per_s(before, after, "app", "requests_total")
    assert activity(before, after, {"app"}, rps) == "server 0.75 CPUs, generator 0.50 CPUs, 10,000 requests/s"
    assert activity(before, after, {"app"}, None) == "server 0.75 CPUs, generator 0.50 CPUs"
    assert activity(before, after, (), None) == "generator 0.50 CPUs", "the agent is no server under test"
    assert activity({}, after, {"app"}, None) == ""
    assert growth_per_s(after, before, "app", "requests_total") is None, "counters that went back are of another trial"
    assert generators_run(before, after)
    assert not generators_run(after, after)


PLANNED_TRIALS = planned_trials("blocks", ("a", "b"), 2, seed=1)
FIRST, SECOND = PLANNED_TRIALS[:2]
PLAN = run_plan(experiment(), cells=(), planned_trials=PLANNED_TRIALS)


def resume_with_interrupted_block(display: PlainProgress | LiveProgress) -> None:
    """Show a resumed run in which a block is interrupted before its last trial."""
    display.show(Resumed({FIRST: "suspect"}))
    display.show(TrialBegun(SECOND))
    display.show(BlockRepeated(1))
    display.show(TrialJudged(replace(FIRST, round=2), 1.0, "valid"))


def test_a_resumed_run_shows_finished_trials_and_resets_an_interrupted_block() -> None:
    display = LiveProgress(PLAN, Hosts(Inventory(hosts=()), ()))
    display.show(Resumed({FIRST: "suspect"}))
    shown = display.picture
    assert (shown.marks, len(shown.finished)) == ({(FIRST.cell_id, 1): "suspect"}, 1)
    resume_with_interrupted_block(display)
    assert (shown.marks, len(shown.finished)) == ({(FIRST.cell_id, 1): "valid"}, 1)


def test_lines_count_no_trial_twice(capfd: pytest.CaptureFixture[str]) -> None:
    display = PlainProgress(PLAN)
    resume_with_interrupted_block(display)
    for planned_trial in PLANNED_TRIALS[1:]:
        display.show(TrialJudged(planned_trial, 1.0, "valid"))
    lines = [line for line in capfd.readouterr().err.splitlines() if line.startswith("[")]
    assert [line.split()[0] for line in lines] == ["[1/4]", "[2/4]", "[3/4]", "[4/4]"]


def test_both_displays_name_the_checks_behind_a_verdict(capfd: pytest.CaptureFixture[str]) -> None:
    live, lines = LiveProgress(PLAN, Hosts(Inventory(hosts=()), ())), PlainProgress(PLAN)
    for display in (live, lines):
        display.show(TrialJudged(FIRST, 1000.0, "invalid", ("generator-saturated", "errors")))
    expected = "1,000 requests/s (invalid: generator-saturated, errors)"
    assert live.picture.last.endswith(expected)
    assert expected in capfd.readouterr().err


def test_a_pause_stands_before_the_reason_and_its_hint(capfd: pytest.CaptureFixture[str]) -> None:
    reason = str(HostError("a port is taken", hint="stop what has it"))
    for display in (LiveProgress(PLAN, Hosts(Inventory(hosts=()), ())), PlainProgress(PLAN)):
        display.show(TrialRetried(FIRST, reason, 0.5))
    printed = "".join(capfd.readouterr())
    assert printed.count("retrying in 0.5 s: a port is taken\n") == 2
    assert printed.count("→ stop what has it\n") == 2


def test_a_failure_ends_its_line_with_the_hint(capfd: pytest.CaptureFixture[str]) -> None:
    PlainProgress(PLAN).show(TrialWithoutResult(FIRST, str(HostError("app did not start", hint="see its log"))))
    first, hint = capfd.readouterr().err.splitlines()
    assert first.endswith("remaining): app did not start")
    assert hint == "  → see its log"
