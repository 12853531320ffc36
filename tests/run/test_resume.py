"""Where a run goes on, decided on values: what the journal says, and what the course makes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from benchkit.results.progress import Progress, read_progress
from benchkit.run.resume import order_of
from benchkit.run.steps.trial_state import trial_id_of
from benchkit.run.trial_queue import TrialQueue
from benchkit.scenario.trial_order import PlannedTrial, planned_trials

CELLS = ("a", "b", "c")
ORDER = planned_trials("blocks", CELLS, 3, 1)


def names(queue: Iterable[PlannedTrial]) -> list[str]:
    return [trial_id_of("r", planned_trial) for planned_trial in queue]


def walk(queue: TrialQueue, cut_at: str) -> tuple[list[str], tuple[str, ...] | None]:
    """What a course runs where the trial `cut_at` is cut by a pause; and the trials of the block that were over by then."""
    ran: list[str] = []
    split: tuple[str, ...] | None = None
    for planned_trial in queue:
        name = trial_id_of("r", planned_trial)
        ran.append(name)
        if name == cut_at and name not in ran[:-1]:
            over = queue.cut(planned_trial)
            split = None if over is None else tuple(trial_id_of("r", each) for each in over)
        else:
            queue.ended(planned_trial, None, 1.0)
    return ran, split


@pytest.mark.parametrize(
    ("cut_at", "split"),
    [
        ("r.b001.p001", ()),
        ("r.b002.p003", ("r.b002.p001", "r.b002.p002")),
        ("r.b003.p002", ("r.b003.p001",)),
    ],
)
def test_a_block_that_a_pause_cuts_comes_again_whole(cut_at: str, split: tuple[str, ...]) -> None:
    ran, over = walk(TrialQueue(ORDER), cut_at)
    block = cut_at.split(".")[1]
    again = [f"r.{block}r2.p{position:03}" for position in (1, 2, 3)]
    place = ran.index(cut_at) + 1
    assert ran[place : place + 3] == again
    assert [name for name in ran if "r2" not in name and name != cut_at and name not in split] == [
        name for name in names(ORDER) if not name.startswith(f"r.{block}")
    ]
    assert over == split


def test_a_block_keeps_its_order_when_it_comes_again() -> None:
    queue = TrialQueue(ORDER)
    cells: dict[int, list[str]] = {1: [], 2: []}
    for planned_trial in queue:
        if planned_trial.block == 2:
            cells[planned_trial.round].append(planned_trial.cell_id)
        if planned_trial.block == 2 and planned_trial.position == 3 and planned_trial.round == 1:
            assert len(queue.cut(planned_trial) or ()) == 2
        else:
            queue.ended(planned_trial, None, 1.0)
    assert cells[1] == cells[2]


def test_a_block_may_be_cut_more_than_once() -> None:
    queue = TrialQueue(ORDER)
    ran = []
    for planned_trial in queue:
        ran.append(trial_id_of("r", planned_trial))
        if planned_trial.block == 1 and planned_trial.position == 2 and planned_trial.round < 3:
            queue.cut(planned_trial)
        else:
            queue.ended(planned_trial, None, 1.0)
    assert ran[:7] == [
        "r.b001.p001",
        "r.b001.p002",
        "r.b001r2.p001",
        "r.b001r2.p002",
        "r.b001r3.p001",
        "r.b001r3.p002",
        "r.b001r3.p003",
    ]


def test_the_blocks_of_a_sequential_design_are_no_stretch_of_time() -> None:
    order = planned_trials("sequential", CELLS, 3, 1)
    ran, over = walk(TrialQueue(order), "r.b002.p002")
    assert over is None
    place = ran.index("r.b002.p002")
    assert ran[place + 1] == "r.b002.p002", "it goes on with the same trial"
    assert [name for i, name in enumerate(ran) if i != place] == names(order)


def test_what_is_over_does_not_come_again() -> None:
    queue = TrialQueue(ORDER)
    for planned_trial in ORDER[:4]:
        queue.already(planned_trial, None, 1.0)
    assert queue.begun() == (2,)
    assert names(queue.again(2)) == ["r.b002.p001"]
    assert names(queue) == [
        *(f"r.b002r2.p{position:03}" for position in (1, 2, 3)),
        *(f"r.b003.p{position:03}" for position in (1, 2, 3)),
    ]


@pytest.mark.parametrize("over", [0, 3, 6, 9])
def test_between_two_blocks_nothing_is_cut(over: int) -> None:
    queue = TrialQueue(ORDER)
    for planned_trial in ORDER[:over]:
        queue.already(planned_trial, None, 1.0)
    assert queue.begun() == ()
    assert names(queue) == names(ORDER[over:])


def test_the_order_is_known_by_all_that_matters_in_it() -> None:
    assert order_of(ORDER) == order_of(planned_trials("blocks", CELLS, 3, 1))
    others = [
        planned_trials("blocks", CELLS, 3, 2),
        planned_trials("blocks", CELLS, 4, 1),
        planned_trials("blocks", ("a", "b"), 3, 1),
        (*ORDER[:-1], replace(ORDER[-1], kind="control")),
    ]
    assert len({order_of(ORDER), *map(order_of, others)}) == 5
    assert order_of([replace(planned_trial, round=2) for planned_trial in ORDER]) == order_of(ORDER)


def journal(*events: tuple[str, str] | dict[str, object]) -> Progress:
    lines = []
    for event in events:
        if isinstance(event, dict):
            lines.append(event)
            continue
        name, trial = event
        line: dict[str, object] = {"event": f"trial-{name}", "trial_id": trial, "cell_id": "a", "block": 1}
        lines.append({**line, "position": 1, "round": 1, "why": "x", "wall_s": 1.5})
    return read_progress(lines)


def test_the_journal_says_what_is_settled() -> None:
    progress = journal(
        {"event": "run-started", "order": "o"},
        ("started", "t1"),
        ("ended", "t1"),
        ("started", "t2"),
        {"event": "trial-failed", "trial_id": "t2", "why": "lost", "again": True},
        ("started", "t2"),
        ("ended", "t2"),
        ("started", "t3"),
        ("failed", "t3"),
        ("skipped", "t4"),
        ("started", "t5"),
        {"event": "block-split", "block": 1, "round": 2, "trials": ["t1", "t2"]},
    )
    assert progress.order_hash == "o"
    assert progress.ended == {"t1": 1.5, "t2": 1.5}
    assert progress.failed == {"t3": "x"}
    assert progress.skipped == {"t4": "x"}
    assert progress.retries == {"t2": ["lost"]}
    assert progress.unresolved == {"t5"}
    assert progress.interrupted == {"t1", "t2"}
    assert progress.rounds == {1: 2}


def test_what_was_left_out_and_is_begun_again_is_not_settled() -> None:
    assert journal(("skipped", "t1"), ("started", "t1")).unresolved == {"t1"}
