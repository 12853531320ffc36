"""A run from its start to its end, to be read from top to bottom.

A run that starts and one that is resumed take the same way: record the start, make the queue of the trials still to
run, make the testbed ready, run one trial after the other, restore the hosts. What happens in a trial is in
`benchkit.run.trial`.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence

from benchkit.analysis.adaptive import stop_rule
from benchkit.hosts.connections import RECONNECT_S
from benchkit.run.attempt import AttemptResult, attempt_block, attempt_trial
from benchkit.run.events import RunObserver
from benchkit.run.opened_run import OpenedRun
from benchkit.run.recorder import RunOutcome, RunRecorder, recording
from benchkit.run.resume import finished_verdicts, resume_queue
from benchkit.run.testbed import Testbed
from benchkit.run.trial_queue import TrialQueue
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.units import counted

logger = logging.getLogger(__name__)


def execute(run: OpenedRun, observer: RunObserver, *, reconnect_s: float = RECONNECT_S) -> RunOutcome:
    """Run the trials of an opened run that are still to run, and store their results.

    A failed trial is recorded and the run continues. A lost host is reconnected for at most `reconnect_s` seconds; then
    the run continues without it.

    Raises HostError where a stack cannot be deployed; BenchkitError where the store cannot be written;
    KeyboardInterrupt passes through. With any error, services are stopped, hosts restored, and finished trials stored.
    A host that cannot be restored after the last trial raises no error: the outcome names it.
    """
    with recording(run.folder, run.store) as recorder:
        queue = _make_queue(run, recorder, observer)
        if not queue.is_empty:  # empty if the run was killed after its last trial
            testbed = Testbed(run.plan, run.hosts, recorder, observer, reconnect_s=reconnect_s)
            with testbed.ready():
                _run_trials(queue, testbed, recorder, observer)
        note_early_stop(queue, recorder, observer)
    return recorder.outcome


def _make_queue(run: OpenedRun, recorder: RunRecorder, observer: RunObserver) -> TrialQueue:
    """Record the start, and return the queue of the trials that are still to run."""
    plan, resumption, run_id = run.plan, run.resumption, run.folder.run_id
    trials = counted(len(plan.planned_trials), "trial")
    names = ", ".join(sorted({name for names in plan.roles.values() for name in names}))
    logger.info("run %s: %s: %s on %s", run_id, "start" if resumption is None else "resume", trials, names)
    recorder.record_start(plan.planned_trials)
    if resumption is None:
        return TrialQueue(plan.planned_trials, stop_rule(run.folder.manifest()), together=plan.design == "sliced")
    queue = resume_queue(plan, resumption, recorder)
    observer.run_resumed(finished_verdicts(queue, recorder))
    logger.info("run %s: %s had finished", run_id, counted(len(queue.finished), "trial"))
    return queue


def _run_trials(queue: TrialQueue, testbed: Testbed, recorder: RunRecorder, observer: RunObserver) -> None:
    """Run the queue's trials on a ready testbed, and record each; those of a sliced block run together."""
    for batch in queue.batches():
        for planned_trial in batch:
            observer.trial_started(planned_trial)
        started_s = time.monotonic()
        results = _attempt(batch, testbed, recorder, observer)
        took_s = (time.monotonic() - started_s) / len(batch)
        testbed.notice_clocks()
        first = batch[0]
        if any(result.outcome == "interrupted" for result in results.values()):
            finished = queue.interrupt(first)
            if finished is not None:
                logger.info("block %d: interrupted by a pause, repeated", first.block)
                recorder.record_interrupted_block(first.block, first.round + 1, finished)
                observer.block_interrupted(first.block)
        else:
            for planned_trial in batch:
                decision = queue.finish(planned_trial, results[planned_trial].row, took_s, recorder.exclusions)
                recorder.record_decision(decision)


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
