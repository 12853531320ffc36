"""A run from its start to its end, to be read from top to bottom.

A run that starts and one that is resumed take the same way: record the start, make the queue of the trials still to
run, make the testbeds ready, run one trial after the other on each, restore the hosts. What happens in a trial is in
`benchkit.run.trial`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial

from benchkit.comparison.adaptive import stop_rule
from benchkit.hosts.connections import RECONNECT_S
from benchkit.hosts.cpu_affinity import pinned
from benchkit.run.attempt import AttemptResult, attempt_block, attempt_trial
from benchkit.run.events import RunObserver, SharedObserver
from benchkit.run.manifest import controller_placement
from benchkit.run.opened_run import OpenedRun
from benchkit.run.recorder import RunOutcome, RunRecorder, recording
from benchkit.run.resume import finished_verdicts, resume_queue
from benchkit.run.target_rates import TargetRates
from benchkit.run.testbed import Testbed
from benchkit.run.trial_queue import TrialQueue
from benchkit.run.workers import run_concurrently
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.stats.samples import Exclusion
from benchkit.store.run_folder import RunFolder
from benchkit.units import counted

logger = logging.getLogger(__name__)

FirstBlockReview = Callable[[RunFolder, Sequence[Exclusion]], str | None]
"""Function of a run and of the exclusions in its first block: the reason to end the run after it, or None."""


def execute(
    run: OpenedRun,
    observer: RunObserver,
    *,
    reconnect_s: float = RECONNECT_S,
    review: FirstBlockReview | None = None,
) -> RunOutcome:
    """Run the trials of an opened run that are still to run, and store their results.

    A run with a rule for its end also ends after its first block where the `review` of that has a reason.

    A failed trial is recorded and the run continues. A lost host is reconnected for at most `reconnect_s` seconds; then
    the run continues without it, or without its testbed where there are others.

    Raises HostError where a stack cannot be deployed; BenchkitError where the store cannot be written;
    KeyboardInterrupt passes through. With any error, services are stopped, hosts restored, and finished trials stored.
    A host that cannot be restored after the last trial raises no error: the outcome names it.
    """
    observer = SharedObserver(observer)
    with recording(run.folder, run.store) as recorder:
        queue = _make_queue(run, recorder, observer, review)
        if not queue.is_empty:  # empty if the run was killed after its last trial
            rates = TargetRates(recorder.tables.trials())
            testbeds = [
                Testbed(plan, run.hosts.of_testbed(plan.testbed), rates, recorder, observer, reconnect_s=reconnect_s)
                for plan in run.plan.by_testbed
            ]
            with ExitStack() as ready:
                for testbed in testbeds:
                    ready.enter_context(testbed.ready())
                with pinned(controller_placement(run.plan, run.hosts)):
                    run_concurrently(
                        [partial(_run_trials, queue, testbed, recorder, observer) for testbed in testbeds],
                        stop=queue.stop,
                        abort=run.hosts.abort,
                    )
        note_early_stop(queue, recorder, observer)
    return recorder.outcome


def _make_queue(
    run: OpenedRun, recorder: RunRecorder, observer: RunObserver, review: FirstBlockReview | None
) -> TrialQueue:
    """Record the start, and return the queue of the trials that are still to run."""
    plan, resumption, run_id = run.plan, run.resumption, run.folder.run_id
    trials = counted(len(plan.planned_trials), "trial")
    names = ", ".join(sorted({name for names in plan.roles.values() for name in names}))
    logger.info("run %s: %s: %s on %s", run_id, "start" if resumption is None else "resume", trials, names)
    recorder.record_start(plan.planned_trials)
    if resumption is None:
        return TrialQueue(
            plan.planned_trials,
            stop_rule(run.folder.manifest(), None if review is None else partial(review, run.folder)),
            together=plan.design == "sliced",
            testbeds=[each.testbed for each in plan.by_testbed],
            homes=plan.homes,
        )
    queue = resume_queue(plan, resumption, recorder)
    observer.run_resumed(finished_verdicts(queue, recorder))
    logger.info("run %s: %s had finished", run_id, counted(len(queue.finished), "trial"))
    return queue


def _run_trials(queue: TrialQueue, testbed: Testbed, recorder: RunRecorder, observer: RunObserver) -> None:
    """Run the trials that the queue has for a ready testbed, and record each; those of a sliced block run together."""
    for batch in queue.batches(testbed.name):
        for planned_trial in batch:
            observer.trial_started(planned_trial, testbed.name)
        started_s = time.monotonic()
        results = _attempt(batch, testbed, recorder, observer)
        took_s = (time.monotonic() - started_s) / len(batch)
        testbed.notice_clocks()
        testbed.notice_programs(batch[0].block, [each.row for each in results.values() if each.row is not None])
        is_given_up = bool(testbed.lost_hosts) and queue.leave(testbed.name)
        if is_given_up:
            observer.notify(recorder.record_lost_testbed(str(testbed.name), "; ".join(testbed.lost_hosts.values())))
        if is_given_up or any(result.outcome == "interrupted" for result in results.values()):
            _repeat_block(batch, results, queue, recorder, observer)
        else:
            for planned_trial in batch:
                decision = queue.finish(planned_trial, results[planned_trial].row, took_s, recorder.exclusions)
                recorder.record_decision(decision)
        if is_given_up:
            return


def _repeat_block(
    batch: Sequence[PlannedTrial],
    results: Mapping[PlannedTrial, AttemptResult],
    queue: TrialQueue,
    recorder: RunRecorder,
    observer: RunObserver,
) -> None:
    """Record that the block of these trials is repeated whole, and then queue it again."""
    first = batch[0]
    finished = queue.finished_with(first)
    if finished is not None:
        logger.info("block %d: interrupted, repeated", first.block)
        recorded = [planned_trial for planned_trial in batch if results[planned_trial].outcome != "interrupted"]
        recorder.record_interrupted_block(first.block, first.round + 1, (*finished, *recorded))
        observer.block_interrupted(first.block)
    queue.interrupt(first)


def _attempt(
    batch: Sequence[PlannedTrial], testbed: Testbed, recorder: RunRecorder, observer: RunObserver
) -> Mapping[PlannedTrial, AttemptResult]:
    if len(batch) == 1:
        return {batch[0]: attempt_trial(batch[0], testbed, recorder, observer)}
    return attempt_block(batch, testbed, recorder, observer)


def note_early_stop(queue: TrialQueue, recorder: RunRecorder, observer: RunObserver) -> None:
    """Record and report that the run needed fewer blocks than planned, unless a resumed run had recorded it already."""
    decision, planned_blocks = queue.early_stop, recorder.run.manifest().blocks
    if decision is not None and decision.blocks < planned_blocks:
        text = f"Ended after {decision.blocks} of at most {planned_blocks} blocks: {decision.reason}."
        recorder.record_early_stop(decision.blocks, text)
        observer.notify(text)
