"""The trial queue of several testbeds: whole blocks, waiting, lost testbeds and early stops."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from benchkit.comparison.adaptive import StopDecision, StopRule
from benchkit.models.design import StopCondition
from benchkit.run.trial_queue import TrialQueue, run_concurrently
from benchkit.scenario.trial_order import PlannedTrial, ProfilePass, calibration_trials, pass_trials, planned_trials
from benchkit.stats.cell_pairs import ComparedCells
from tests.unit.run.test_trial_queue import LONG, row

CELLS = ["a", "b"]
ORDER = planned_trials("blocks", CELLS, 4, 1)
Batches = Iterator[tuple[PlannedTrial, ...]]
PROMPTLY_S = 30.0


def queue_of(*order: PlannedTrial, rule: StopRule | None = None, together: bool = False) -> TrialQueue:
    return TrialQueue(order or ORDER, rule, together=together, testbeds=("x", "y"))


def run_next(queue: TrialQueue, batches: Batches) -> tuple[int, int]:
    """Take and finish one trial; return its block and position."""
    (trial,) = next(batches)
    queue.finish(trial, row(trial, 0.01), 1.0)
    return trial.block, trial.position


def in_background(batches: Batches) -> Future[tuple[PlannedTrial, ...] | None]:
    """Ask for the next trials in another thread, and wait until it has asked."""
    pool, asked = ThreadPoolExecutor(1), threading.Event()

    def ask() -> tuple[PlannedTrial, ...] | None:
        asked.set()
        return next(batches, None)

    future = pool.submit(ask)
    pool.shutdown(wait=False)
    assert asked.wait(PROMPTLY_S)
    return future


def test_each_block_is_whole_on_one_testbed() -> None:
    queue = queue_of()
    x, y = queue.batches("x"), queue.batches("y")
    assert [run_next(queue, x), run_next(queue, y)] == [(1, 1), (2, 1)]
    assert [run_next(queue, y), run_next(queue, y)] == [(2, 2), (3, 1)], "the faster one takes the next block"
    assert [run_next(queue, x), run_next(queue, x)] == [(1, 2), (4, 1)]
    assert [run_next(queue, y), run_next(queue, x)] == [(3, 2), (4, 2)]
    assert (next(x, None), next(y, None)) == (None, None)
    assert queue.finished == frozenset(ORDER)


def test_a_sliced_block_is_one_batch() -> None:
    queue = queue_of(*planned_trials("sliced", CELLS, 2, 1), together=True)
    batches = next(queue.batches("x")), next(queue.batches("y"))
    assert [[trial.block for trial in batch] for batch in batches] == [[1, 1], [2, 2]]


def test_the_block_of_a_lost_testbed_is_repeated_whole_by_another_that_waits_for_it() -> None:
    queue = queue_of(*ORDER[:4])
    x, y = queue.batches("x"), queue.batches("y")
    finished = run_next(queue, x)
    (trial,) = next(x)
    assert [run_next(queue, y), run_next(queue, y)] == [(2, 1), (2, 2)]
    waiting = in_background(y)
    assert not waiting.done()
    assert queue.leave("x")
    repeated = queue.finished_with(trial)
    assert [(each.block, each.position) for each in repeated or ()] == [finished]
    assert queue.interrupt(trial) == repeated
    again = waiting.result(PROMPTLY_S)
    assert again is not None
    assert [(each.block, each.position, each.round) for each in again] == [(1, 1, 2)]
    assert not queue.leave("y"), "the last testbed goes on without its lost host"


def test_a_block_given_back_does_not_split_the_one_that_another_testbed_runs() -> None:
    queue = queue_of()
    x, y = queue.batches("x"), queue.batches("y")
    (trial,) = next(x)
    assert run_next(queue, y) == (2, 1)
    queue.leave("x")
    queue.interrupt(trial)
    assert [run_next(queue, y) for _ in range(7)] == [(2, 2), (1, 1), (1, 2), (3, 1), (3, 2), (4, 1), (4, 2)]


def test_all_wait_for_the_calibrations_of_one() -> None:
    queue = queue_of(*calibration_trials(CELLS), *ORDER)
    x, y = queue.batches("x"), queue.batches("y")
    assert run_next(queue, x) == (0, 1)
    waiting = in_background(y)
    assert not waiting.done()
    assert run_next(queue, x) == (0, 2)
    first = waiting.result(PROMPTLY_S)
    assert first is not None
    assert [(trial.block, trial.position) for trial in first] == [(1, 1)]
    assert run_next(queue, x) == (2, 1)


def test_blocks_that_run_at_an_early_stop_are_finished_and_the_profile_pass_follows() -> None:
    profiled = pass_trials(ProfilePass(blocks=1), CELLS, 20, 1)
    rule = StopRule(StopCondition(precision=0.05), (("rps", ComparedCells("b", "a")),), LONG)
    queue = queue_of(*planned_trials("blocks", CELLS, 20, 1), *profiled, rule=rule)
    x, y = queue.batches("x"), queue.batches("y")
    assert run_next(queue, y) == (1, 1)
    decisions: list[StopDecision] = []
    while queue.early_stop is None:
        (trial,) = next(x)
        decision = queue.finish(trial, row(trial, 0.01), 1.0)
        decisions += [decision] if decision else []
    assert (decisions[-1].blocks, queue.early_stop.blocks) == (7, 8), "the rule looks at finished blocks only"
    assert run_next(queue, y) == (1, 2)
    assert [run_next(queue, x) for _ in profiled] == [(trial.block, trial.position) for trial in profiled]
    assert (next(x, None), next(y, None)) == (None, None)


def test_the_time_budget_counts_the_time_in_which_testbeds_run_together() -> None:
    rule = StopRule(StopCondition(precision=0.001, budget_s=6.5), (("rps", ComparedCells("b", "a")),), LONG)
    queue = queue_of(*planned_trials("blocks", CELLS, 20, 1), rule=rule)
    for (trial,) in queue.batches("x"):  # two seconds a block, in which the other testbed would run one too
        queue.finish(trial, row(trial, 0.5), 1.0)
    assert queue.early_stop is not None
    assert (queue.early_stop.blocks, queue.early_stop.reason) == (6, "the time budget is spent (6.5 s)")


def test_a_stop_ends_those_who_wait() -> None:
    queue = queue_of(*ORDER[:2])
    assert run_next(queue, queue.batches("x")) == (1, 1)
    waiting = in_background(queue.batches("y"))
    queue.stop()
    assert waiting.result(PROMPTLY_S) is None
    assert next(queue.batches("x"), None) is None


def test_after_an_error_of_one_worker_the_others_are_stopped_and_it_is_raised() -> None:
    stopped = threading.Event()

    def fail() -> None:
        raise OSError("disk full")

    def wait() -> None:
        assert stopped.wait(PROMPTLY_S)

    with pytest.raises(OSError, match="disk full"):
        run_concurrently([fail, wait], stop=stopped.set, abort=pytest.fail)
    assert stopped.is_set()


def test_a_single_worker_runs_in_the_thread_that_signals_reach() -> None:
    threads: list[threading.Thread] = []
    run_concurrently([lambda: threads.append(threading.current_thread())], stop=pytest.fail, abort=pytest.fail)
    assert threads == [threading.current_thread()]


def test_a_block_runs_on_its_assigned_testbed_alone() -> None:
    queue = TrialQueue(ORDER, testbeds=("x", "y"), assignments={1: "x", 2: "y", 3: "x", 4: "y"})
    y = queue.batches("y")
    assert [run_next(queue, y) for _ in range(4)] == [(2, 1), (2, 2), (4, 1), (4, 2)]
    assert next(y, None) is None
    assert not queue.leave("x"), "no other testbed can run its blocks"
    assert [run_next(queue, queue.batches("x")) for _ in range(4)] == [(1, 1), (1, 2), (3, 1), (3, 2)]
