"""Attempts at a block: its trials are run, stored and recorded, and retried where a host or a load tool failed."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchkit.errors import HostError, InputError, LoadToolHangError, ParseError
from benchkit.models.capacity import CapacityEstimate, CapacityGoal
from benchkit.models.rows import TrialRow
from benchkit.models.thresholds import thresholds_of
from benchkit.models.trial import TrialRecord
from benchkit.plan.model import PlannedCell
from benchkit.run.block import run_block
from benchkit.run.events import TrialJudged
from benchkit.run.found_loads import find_capacity, with_load
from benchkit.run.recorder import RunRecorder
from benchkit.run.retries import MAX_ATTEMPTS_OF_TOOL, Retry, TrialAttempts, cause_of
from benchkit.run.steps.state import Block, Trial, make_trial
from benchkit.run.testbed import Testbed
from benchkit.scenario.trial_order import PlannedTrial, is_of_pass
from benchkit.store.journal import FailureCause
from benchkit.store.run_folder import RunFolder
from benchkit.store.trial_tables import TrialTables, read_output
from benchkit.units import requests_per_s

logger = logging.getLogger(__name__)

MAX_PAUSE_S = 60.0
"""Longest disconnection of a host after which its block continues. After a longer one the whole block is repeated,
because the host was restored meanwhile and may have drifted."""


@dataclass(frozen=True)
class AttemptResult:
    """Result of a trial: it `ended`, it `failed`, it was `skipped`, or a pause `interrupted` its block."""

    outcome: Literal["ended", "failed", "skipped", "interrupted"]
    row: TrialRow | None = None
    """Row of the table `trials`; None unless the trial ended."""


def attempt_block(planned_trials: Sequence[PlannedTrial], testbed: Testbed) -> dict[PlannedTrial, AttemptResult]:
    """Run trials together and record the result of each; `benchkit.run.retries` decides on retries.

    All of them are retried after a lost host, a passing state of a host, or a load tool that hung. A trial that fails
    by its own fault is not retried.
    """
    results: dict[PlannedTrial, AttemptResult] = {}
    attempts = TrialAttempts(testbed.retries.pauses())
    pending = list(planned_trials)
    for attempt in itertools.count(1):
        results |= {each: AttemptResult("skipped") for each in pending if _skip(each, testbed)}
        pending = [each for each in pending if each not in results]
        if not pending:
            return results
        try:
            rows, failures = _attempt(pending, attempt, testbed)
        except (HostError, InputError) as error:
            outcome = _retry_or_end(pending, error, attempts, testbed)
            if outcome is not None:
                return results | {each: AttemptResult(outcome) for each in pending}
        else:
            for each, failure in failures.items():
                cause = cause_of(failure, is_host_lost=False)
                _record_failure(each, failure, cause, Retry(is_retried=False), testbed)
            for each in rows:
                testbed.retries.add_success(each.cell_id)
            results |= {each: AttemptResult("failed") for each in failures}
            return results | {each: AttemptResult("ended", row) for each, row in rows.items()}
    raise AssertionError


def _retry_or_end(
    pending: Sequence[PlannedTrial], error: HostError | InputError, attempts: TrialAttempts, testbed: Testbed
) -> Literal["failed", "interrupted"] | None:
    """Record the failure of a whole block; return None if it is retried, else the outcome of its trials."""
    is_host_lost = bool(testbed.hosts.unreachable())
    cause = cause_of(error, is_host_lost=is_host_lost)
    retry = attempts.decide(cause)
    if cause == "host-state" and not retry.is_retried:
        waited = f"retries failed for {attempts.waited_s:g} s; " if attempts.waited_s else ""
        resume = f"`benchkit run --resume {testbed.recorder.run.run_id} --retry-failed`"
        _add_hint(error, f"{waited}remove the cause, then repeat the failed trials with {resume}")
    for each in pending:
        _record_failure(each, error, cause, retry, testbed)
    disconnected_s = testbed.recover() if is_host_lost else 0.0
    if not retry.is_retried:
        return "failed"
    if disconnected_s > MAX_PAUSE_S:
        return "interrupted"
    time.sleep(retry.pause_s or 0.0)
    return None


def _skip(planned_trial: PlannedTrial, testbed: Testbed) -> bool:
    """Skip a trial whose cell can no longer run or has failed too often; return False if the trial can run."""
    cell = testbed.plan.cell_of(planned_trial)
    reason = testbed.why_unavailable(cell) or testbed.retries.why_skipped(cell.cell_id)
    if reason is None:
        return False
    logger.info("trial %s: skipped: %s", testbed.recorder.trial_id(planned_trial), reason)
    testbed.recorder.record_trial_skipped(planned_trial, reason)
    return True


def _attempt(
    planned_trials: Sequence[PlannedTrial], attempt: int, testbed: Testbed
) -> tuple[dict[PlannedTrial, TrialRow], dict[PlannedTrial, HostError | InputError]]:
    """Run trials once; return the rows of those that ended, and the errors of the others.

    Raises HostError or InputError where the whole block fails.
    """
    first, recorder = planned_trials[0], testbed.recorder
    for each in planned_trials:
        logger.info("trial %s: attempt %d, %s", recorder.trial_id(each), attempt, each.title)
        recorder.record_trial_started(each, attempt)
    testbed.record_block_facts(first)
    testbed.cell_tuning.switch_to(testbed.plan.cell_of(first))
    trials = {each: _make_trial(each, attempt, testbed) for each in planned_trials}
    block = Block(list(trials.values()), testbed.plan.seed, testbed.found_loads.slice_s(first, testbed.plan))
    ended = _run_and_commit(block, recorder)
    rows: dict[PlannedTrial, TrialRow] = {}
    for each, trial in trials.items():
        tables = ended.get(trial.trial_id)
        if tables is not None:
            testbed.found_loads.add(tables.trial, tables.load_curve, tables.deciding_checks)
            recorder.show(TrialJudged(each, tables.trial.rps, str(tables.trial.verdict), tuple(tables.deciding_checks)))
            rows[each] = tables.trial
    failures = {each: block.failures[trial.trial_id] for each, trial in trials.items() if each not in rows}
    return rows, failures


def _make_trial(planned_trial: PlannedTrial, attempt: int, testbed: Testbed) -> Trial:
    """Return the state of a trial before its first step; search for the capacity first if the trial runs at it.

    Raises HostError or InputError where the target rate or the capacity cannot be found.
    """
    cell, capacity = testbed.cell_of(planned_trial), None
    goal = cell.load.capacity if cell.load.searches_capacity else None
    if goal is not None and not is_of_pass(planned_trial.kind, planned_trial.cell_id):
        capacity = _find_capacity(planned_trial, cell, goal, testbed)
        cell = with_load(cell, cell.load.model_copy(update={"rate": capacity.rps}))
    trial = make_trial(testbed.plan, planned_trial, cell, testbed.recorder.run.run_id, testbed.hosts)
    trial.attempt, trial.capacity = attempt, capacity
    return trial


def _find_capacity(
    planned_trial: PlannedTrial, cell: PlannedCell, goal: CapacityGoal, testbed: Testbed
) -> CapacityEstimate:
    """Search for the capacity of a cell before its trial. Raises HostError or InputError where a probe fails."""
    recorder, earlier_probes = testbed.recorder, 0
    while recorder.run.raw(recorder.trial_id(replace(planned_trial, probe=earlier_probes + 1))).exists():
        earlier_probes += 1

    def run_probe(number: int, probed: PlannedCell) -> TrialTables:
        probe = replace(planned_trial, kind="probe", probe=earlier_probes + number)
        recorder.record_trial_started(probe, 1)
        trial = make_trial(testbed.plan, probe, probed, recorder.run.run_id, testbed.hosts)
        block = Block([trial], testbed.plan.seed)
        ended = _run_and_commit(block, recorder)
        if failure := block.failures.get(trial.trial_id):
            raise failure
        return ended[trial.trial_id]

    estimate = find_capacity(cell, goal, thresholds_of(recorder.run.manifest()), run_probe, report=recorder.notify)
    rate = requests_per_s(estimate.rps)
    logger.info("trial %s: capacity %s: %s", recorder.trial_id(planned_trial), rate, estimate.reason)
    return estimate


def _run_and_commit(block: Block, recorder: RunRecorder) -> dict[str, TrialTables]:
    """Run a block and store its trials; return the rows of those that ended, by trial id.

    The errors of the others are in `block.failures`. Raises HostError or InputError where the whole block fails.
    """
    trials = list(block.trials)
    try:
        records = run_block(block)
        hang = next((each for each in block.failures.values() if isinstance(each, LoadToolHangError)), None)
        if hang is not None and all(trial.attempt < MAX_ATTEMPTS_OF_TOOL for trial in trials):
            raise hang
    except (HostError, InputError) as error:
        for trial in trials:
            _store_logs(trial, error, recorder.run)
        raise
    ended: dict[str, TrialTables] = {}
    for trial in trials:
        if failure := block.failures.get(trial.trial_id):
            _store_logs(trial, failure, recorder.run)
            continue
        try:
            ended[trial.trial_id] = _commit(records[trial.trial_id], trial, recorder)
        except ParseError as error:
            block.failures[trial.trial_id] = error
    return ended


def _commit(record: TrialRecord, trial: Trial, recorder: RunRecorder) -> TrialTables:
    """Store the record and the files of a trial that ended, judge it, and return its rows.

    Raises ParseError where the output of the load tool cannot be read; the output is stored in any case.
    """
    raw = trial.files.__getitem__
    try:
        output = read_output(record, raw)
    except ParseError:
        recorder.run.commit_trial(record, trial.files)
        raise
    generators = [
        generator.model_copy(update={"result": parsed.result})
        for generator, parsed in zip(record.generators, output.generators, strict=True)
    ]
    record = record.model_copy(update={"generators": tuple(generators)})
    recorder.run.commit_trial(record, trial.files)
    tables = recorder.record_trial_ended(record, output, raw)
    rate, verdict = requests_per_s(output.merged.result.rps), tables.trial.verdict
    logger.info("trial %s: ended after %.3f s: %s, %s", record.trial_id, record.wall_s, rate, verdict)
    return tables


def _store_logs(trial: Trial, error: HostError | InputError, run: RunFolder) -> None:
    if folder := run.commit_failed_trial(trial.trial_id, trial.files):
        logs = ", ".join(run.raw_file_names(trial.trial_id))
        _add_hint(error, f"the complete logs of its services are in {folder}: {logs}")


def _record_failure(
    planned_trial: PlannedTrial, error: HostError | InputError, cause: FailureCause, retry: Retry, testbed: Testbed
) -> None:
    recorder = testbed.recorder
    retrying = ", retrying" if retry.is_retried else ""
    logger.info("trial %s: failed (%s)%s: %s", recorder.trial_id(planned_trial), cause, retrying, error)
    recorder.record_trial_failed(planned_trial, str(error), cause, retry)
    if not retry.is_retried:
        testbed.retries.add_failure(planned_trial.cell_id, str(error))


def _add_hint(error: HostError | InputError, hint: str) -> None:
    error.hint = "; ".join(filter(None, (error.hint, hint)))
