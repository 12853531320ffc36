"""The queue of a resumed run, and the progress that a journal describes; on values."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from benchkit.run.steps.state import trial_id_of
from benchkit.run.trial_queue import TrialQueue, hash_order, interrupted_blocks
from benchkit.scenario.trial_order import PlannedTrial, planned_trials
from benchkit.store.journal import (
    BlockInterrupted,
    JournalEvent,
    RunStarted,
    TrialEnded,
    TrialFailed,
    TrialSkipped,
    TrialStarted,
    read_progress,
)

CELLS = ("a", "b", "c")
ORDER = planned_trials("blocks", CELLS, 3, 1)


def trial_ids(trials: Iterable[PlannedTrial]) -> list[str]:
    return [trial_id_of("r", trial) for trial in trials]


def run_with_pause(queue: TrialQueue, paused_in: str) -> tuple[list[str], list[str] | None]:
    """Run a queue with a pause in one trial; return the trials that ran, and those of the block that had finished."""
    ran: list[str] = []
    finished: list[str] | None = None
    for (trial,) in queue.batches():
        trial_id = trial_id_of("r", trial)
        ran.append(trial_id)
        if trial_id == paused_in and trial_id not in ran[:-1]:
            repeated = queue.interrupt(trial)
            finished = None if repeated is None else trial_ids(repeated)
        else:
            queue.finish(trial, None, 1.0)
    return ran, finished


@pytest.mark.parametrize(
    ("paused_in", "finished"),
    [
        ("r.b001.p001", []),
        ("r.b002.p003", ["r.b002.p001", "r.b002.p002"]),
        ("r.b003.p002", ["r.b003.p001"]),
    ],
)
def test_a_block_that_a_pause_interrupts_is_repeated_whole(paused_in: str, finished: list[str]) -> None:
    ran, finished_in_block = run_with_pause(TrialQueue(ORDER), paused_in)
    block = paused_in.split(".")[1]
    repeated = [f"r.{block}r2.p{position:03}" for position in (1, 2, 3)]
    index = ran.index(paused_in) + 1
    assert ran[index : index + 3] == repeated
    assert [trial for trial in ran if "r2" not in trial and trial != paused_in and trial not in finished] == [
        trial for trial in trial_ids(ORDER) if not trial.startswith(f"r.{block}")
    ]
    assert finished_in_block == finished


def test_a_block_may_be_interrupted_more_than_once() -> None:
    queue = TrialQueue(ORDER)
    ran = []
    for (trial,) in queue.batches():
        ran.append(trial_id_of("r", trial))
        if trial.block == 1 and trial.position == 2 and trial.round < 3:
            queue.interrupt(trial)
        else:
            queue.finish(trial, None, 1.0)
    assert ran[:7] == [
        "r.b001.p001",
        "r.b001.p002",
        "r.b001r2.p001",
        "r.b001r2.p002",
        "r.b001r3.p001",
        "r.b001r3.p002",
        "r.b001r3.p003",
    ]


def test_the_blocks_of_a_sequential_design_are_not_contiguous_so_the_trial_alone_is_repeated() -> None:
    order = planned_trials("sequential", CELLS, 3, 1)
    ran, finished = run_with_pause(TrialQueue(order), "r.b002.p002")
    assert finished is None
    index = ran.index("r.b002.p002")
    assert ran[index + 1] == "r.b002.p002", "it continues with the same trial"
    assert [trial for i, trial in enumerate(ran) if i != index] == trial_ids(order)


def test_a_resumed_queue_repeats_an_interrupted_block_and_no_finished_one() -> None:
    queue = TrialQueue(ORDER)
    for trial in ORDER[:4]:
        queue.skip_finished(trial, None, 1.0)
    assert interrupted_blocks(ORDER, ORDER[:4]) == {2}
    assert trial_ids(queue.interrupt(ORDER[4]) or ()) == ["r.b002.p001"]
    assert trial_ids(trial for (trial,) in queue.batches()) == [
        *(f"r.b002r2.p{position:03}" for position in (1, 2, 3)),
        *(f"r.b003.p{position:03}" for position in (1, 2, 3)),
    ]


@pytest.mark.parametrize("finished", [0, 3, 6, 9])
def test_an_interruption_between_two_blocks_interrupts_none(finished: int) -> None:
    queue = TrialQueue(ORDER)
    for trial in ORDER[:finished]:
        queue.skip_finished(trial, None, 1.0)
    assert interrupted_blocks(ORDER, ORDER[:finished]) == set()
    assert queue.is_empty == (finished == len(ORDER))
    assert trial_ids(trial for (trial,) in queue.batches()) == trial_ids(ORDER[finished:])


def test_the_hash_of_an_order_depends_on_everything_but_the_round() -> None:
    assert hash_order(ORDER) == hash_order(planned_trials("blocks", CELLS, 3, 1))
    others = [
        planned_trials("blocks", CELLS, 3, 2),
        planned_trials("blocks", CELLS, 4, 1),
        planned_trials("blocks", ("a", "b"), 3, 1),
        (*ORDER[:-1], replace(ORDER[-1], kind="control")),
    ]
    assert len({hash_order(ORDER), *map(hash_order, others)}) == 5
    assert hash_order([replace(trial, round=2) for trial in ORDER]) == hash_order(ORDER)


def started(trial_id: str) -> TrialStarted:
    return TrialStarted(trial_id=trial_id, cell_id="a", block=1, position=1)


def skipped(trial_id: str) -> TrialSkipped:
    return TrialSkipped(trial_id=trial_id, cell_id="a", block=1, position=1, why="host lost")


def test_the_progress_of_a_journal_is_the_outcome_of_each_trial() -> None:
    events: list[JournalEvent] = [
        RunStarted(order="o"),
        started("t1"),
        TrialEnded(trial_id="t1", wall_s=1.5),
        started("t2"),
        TrialFailed(trial_id="t2", why="connection lost", will_retry=True),
        started("t2"),
        TrialEnded(trial_id="t2", wall_s=1.5),
        started("t3"),
        TrialFailed(trial_id="t3", why="crashed"),
        skipped("t4"),
        started("t5"),
        BlockInterrupted(block=1, round=2, trials=("t1", "t2")),
    ]
    progress = read_progress(events)
    assert progress.order_hash == "o"
    assert progress.ended == {"t1": 1.5, "t2": 1.5}
    assert progress.failed == {"t3": "crashed"}
    assert progress.skipped == {"t4": "host lost"}
    assert progress.retries == {"t2": ["connection lost"]}
    assert progress.unresolved == {"t5"}
    assert progress.interrupted == {"t1", "t2"}
    assert progress.rounds == {1: 2}
