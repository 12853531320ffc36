"""The attempts at a trial: retries where a host was lost or a state of it has to pass, each recorded."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from benchkit.errors import HostError, InputError, ParseError
from benchkit.models.capacity import CapacityEstimate, CapacityGoal
from benchkit.models.rows import TrialRow
from benchkit.models.thresholds import thresholds_of
from benchkit.models.trial import TrialRecord
from benchkit.plan.model import PlannedCell
from benchkit.run.capacity import Report, find_capacity
from benchkit.run.events import RunObserver
from benchkit.run.recorder import RunRecorder
from benchkit.run.retries import Retry, TrialAttempts, cause_of
from benchkit.run.sliced_block import run_sliced_block
from benchkit.run.steps.trial_state import Trial, make_trial
from benchkit.run.target_rates import with_load
from benchkit.run.testbed import Testbed
from benchkit.run.trial import run_trial
from benchkit.scenario.trial_order import PlannedTrial, is_profile_pass
from benchkit.store.run_folder import RunFolder
from benchkit.store.trial_tables import TrialOutput, TrialTables, read_output
from benchkit.units import requests_per_s

logger = logging.getLogger(__name__)

MAX_PAUSE_S = 60.0
"""Longest disconnection of a host within a block. After a longer one the block is repeated: its hosts were restored
meanwhile, and may have drifted."""


@dataclass(frozen=True)
class AttemptResult:
    """The result of a trial: it `ended`, `failed`, or was `skipped`, or a pause `interrupted` its block."""

    outcome: Literal["ended", "failed", "skipped", "interrupted"]
    row: TrialRow | None = None
    """Its row of `trials`, where it ended."""


def attempt_trial(
    planned_trial: PlannedTrial, testbed: Testbed, recorder: RunRecorder, observer: RunObserver
) -> AttemptResult:
    """Run a trial and record its result; `benchkit.run.retries` decides whether a failed one is retried."""
    cell = testbed.plan.cell_of(planned_trial)
    attempts = TrialAttempts(testbed.retries.pauses())
    for attempt in itertools.count(1):
        if _skip(planned_trial, testbed, recorder, observer):
            return AttemptResult("skipped")
        try:
            row = _attempt(planned_trial, attempt, testbed, recorder, observer)
        except (HostError, InputError) as error:
            testbed.hosts.raise_if_aborted()
            is_host_lost = bool(testbed.hosts.unreachable())
            retry = _decide(error, attempts, recorder, is_host_lost=is_host_lost)
            _record_failure(
                planned_trial, error, retry, testbed, recorder, observer=observer, is_host_lost=is_host_lost
            )
            disconnected_s = testbed.recover() if is_host_lost else 0.0
            if not retry.is_retried:
                return AttemptResult("failed")
            if disconnected_s > MAX_PAUSE_S:
                return AttemptResult("interrupted")
            testbed.hosts.pause(retry.pause_s or 0.0)
        else:
            testbed.retries.add_success(cell.cell_id)
            return AttemptResult("ended", row)
    raise AssertionError


def attempt_block(
    planned_trials: Sequence[PlannedTrial], testbed: Testbed, recorder: RunRecorder, observer: RunObserver
) -> dict[PlannedTrial, AttemptResult]:
    """Run the trials of a sliced block together and record their results.

    A trial that fails by its own fault is not retried; where a host was lost or a state of it has to pass, all are.
    """
    results: dict[PlannedTrial, AttemptResult] = {}
    attempts = TrialAttempts(testbed.retries.pauses())
    pending = tuple(planned_trials)
    for attempt in itertools.count(1):
        results |= {each: AttemptResult("skipped") for each in pending if _skip(each, testbed, recorder, observer)}
        pending = tuple(each for each in pending if each not in results)
        if not pending:
            return results
        try:
            rows, failures = _attempt_together(pending, attempt, testbed, recorder, observer)
        except (HostError, InputError) as error:
            testbed.hosts.raise_if_aborted()
            is_host_lost = bool(testbed.hosts.unreachable())
            retry = _decide(error, attempts, recorder, is_host_lost=is_host_lost)
            for each in pending:
                _record_failure(each, error, retry, testbed, recorder, observer=observer, is_host_lost=is_host_lost)
            disconnected_s = testbed.recover() if is_host_lost else 0.0
            if not retry.is_retried:
                return results | {each: AttemptResult("failed") for each in pending}
            if disconnected_s > MAX_PAUSE_S:
                return results | {each: AttemptResult("interrupted") for each in pending}
            testbed.hosts.pause(retry.pause_s or 0.0)
        else:
            for each, failure in failures.items():
                _record_failure(
                    each, failure, Retry(is_retried=False), testbed, recorder, observer=observer, is_host_lost=False
                )
                results[each] = AttemptResult("failed")
            for each, row in rows.items():
                testbed.retries.add_success(each.cell_id)
                results[each] = AttemptResult("ended", row)
            return results
    raise AssertionError


def _skip(planned_trial: PlannedTrial, testbed: Testbed, recorder: RunRecorder, observer: RunObserver) -> bool:
    """Skip a trial whose cell cannot run any more, or has failed too often; return False where it can run."""
    cell = testbed.plan.cell_of(planned_trial)
    reason = testbed.why_unavailable(cell) or testbed.retries.why_skipped(cell.cell_id)
    if reason is None:
        return False
    logger.info("trial %s: skipped: %s", recorder.trial_id(planned_trial), reason)
    recorder.record_trial_skipped(planned_trial, reason)
    observer.trial_failed(planned_trial, reason if testbed.retries.is_new(reason) else None)
    return True


def _attempt_together(
    planned_trials: Sequence[PlannedTrial],
    attempt: int,
    testbed: Testbed,
    recorder: RunRecorder,
    observer: RunObserver,
) -> tuple[dict[PlannedTrial, TrialRow], dict[PlannedTrial, HostError | InputError]]:
    """Run the trials of a block once; return the rows of those that ended, and the errors of the others.

    Raises HostError or InputError where the block as a whole fails.
    """
    plan, run = testbed.plan, recorder.run
    trials: dict[PlannedTrial, Trial] = {}
    for each in planned_trials:
        logger.info("trial %s: attempt %d, %s", recorder.trial_id(each), attempt, each.title)
        recorder.record_trial_started(each, attempt)
        trials[each] = make_trial(plan, each, testbed.cell_of(each), run.run_id, testbed.hosts)
        trials[each].attempt = attempt
    testbed.record_block_facts(planned_trials[0])
    testbed.tune_for(plan.cell_of(planned_trials[0]))
    block = run_sliced_block(trials.values(), plan.experiment.scenario.slice_s, plan.seed)
    rows: dict[PlannedTrial, TrialRow] = {}
    failures: dict[PlannedTrial, HostError | InputError] = {}
    for each, trial in trials.items():
        if trial.trial_id in block.failures:
            failures[each] = _with_stored_logs(block.failures[trial.trial_id], trial, run)
            continue
        try:
            tables = _record_end(block.records[trial.trial_id], trial.files, recorder)
        except ParseError as error:
            failures[each] = error
        else:
            _report_end(each, tables, observer)
            rows[each] = tables.trial
    return rows, failures


def _attempt(
    planned_trial: PlannedTrial, attempt: int, testbed: Testbed, recorder: RunRecorder, observer: RunObserver
) -> TrialRow:
    """Run a trial once and record its end. Raises HostError or InputError if it fails."""
    trial_id = recorder.trial_id(planned_trial)
    logger.info("trial %s: attempt %d, %s", trial_id, attempt, planned_trial.title)
    recorder.record_trial_started(planned_trial, attempt)
    testbed.record_block_facts(planned_trial)
    testbed.tune_for(testbed.plan.cell_of(planned_trial))
    cell, capacity = testbed.cell_of(planned_trial), None
    goal = cell.load.capacity if cell.load.searches_capacity else None
    if goal is not None and not is_profile_pass(planned_trial.kind, planned_trial.cell_id):
        capacity = _find_capacity(planned_trial, cell, goal, testbed, recorder, report=observer.notify)
        cell = with_load(cell, cell.load.model_copy(update={"rate": capacity.rps}))
    trial = make_trial(testbed.plan, planned_trial, cell, recorder.run.run_id, testbed.hosts)
    trial.attempt, trial.capacity = attempt, capacity
    tables = _run_and_record(trial, recorder)
    testbed.rates.add(tables.trial)
    _report_end(planned_trial, tables, observer)
    return tables.trial


def _find_capacity(
    planned_trial: PlannedTrial,
    cell: PlannedCell,
    goal: CapacityGoal,
    testbed: Testbed,
    recorder: RunRecorder,
    *,
    report: Report,
) -> CapacityEstimate:
    """Search for the capacity of a cell before its trial. Raises HostError or InputError where a probe fails."""
    made = 0
    while recorder.run.raw(recorder.trial_id(replace(planned_trial, probe=made + 1))).exists():
        made += 1  # probes of an earlier attempt

    def run_probe(number: int, probed: PlannedCell) -> TrialTables:
        probe = replace(planned_trial, kind="probe", probe=made + number)
        recorder.record_trial_started(probe, 1)
        return _run_and_record(make_trial(testbed.plan, probe, probed, recorder.run.run_id, testbed.hosts), recorder)

    found = find_capacity(cell, goal, thresholds_of(recorder.run.manifest()), run_probe, report=report)
    logger.info("trial %s: capacity %s: %s", recorder.trial_id(planned_trial), requests_per_s(found.rps), found.reason)
    return found


def _run_and_record(trial: Trial, recorder: RunRecorder) -> TrialTables:
    return _record_end(_run(trial, recorder.run), trial.files, recorder)


def _record_end(record: TrialRecord, files: Mapping[str, bytes], recorder: RunRecorder) -> TrialTables:
    """Store a trial that ended, judge it, and return its rows. Raises ParseError."""
    record, output = _read_and_store(record, files, recorder.run)
    tables = recorder.record_trial_ended(record, output, files.__getitem__)
    rate, verdict = requests_per_s(output.merged.result.rps), tables.trial.verdict
    logger.info("trial %s: ended after %.3f s: %s, %s", record.trial_id, record.wall_s, rate, verdict)
    return tables


def _report_end(planned_trial: PlannedTrial, tables: TrialTables, observer: RunObserver) -> None:
    row = tables.trial
    observer.trial_ended(planned_trial, row.rps, str(row.verdict), tables.deciding_checks)


def _decide(
    error: HostError | InputError, attempts: TrialAttempts, recorder: RunRecorder, *, is_host_lost: bool
) -> Retry:
    """Return whether another attempt follows a failed one; where a state of the host did not pass, say what to do."""
    cause = cause_of(error, is_host_lost=is_host_lost)
    retry = attempts.decide(cause)
    if cause == "host-state" and not retry.is_retried:
        error.hint = "; ".join(filter(None, (error.hint, _how_to_repeat(recorder.run, attempts.waited_s))))
    return retry


def _record_failure(
    planned_trial: PlannedTrial,
    error: HostError | InputError,
    retry: Retry,
    testbed: Testbed,
    recorder: RunRecorder,
    *,
    observer: RunObserver,
    is_host_lost: bool,
) -> None:
    """Record a failed attempt with its cause, and whether the trial is retried."""
    cause = cause_of(error, is_host_lost=is_host_lost)
    retrying = ", retrying" if retry.is_retried else ""
    logger.info("trial %s: failed (%s)%s: %s", recorder.trial_id(planned_trial), cause, retrying, error)
    recorder.record_trial_failed(planned_trial, str(error), cause, is_retried=retry.is_retried, pause_s=retry.pause_s)
    if retry.is_retried:
        observer.trial_retrying(planned_trial, str(error), retry.pause_s or 0)
    else:
        observer.trial_failed(planned_trial, str(error))
        testbed.retries.add_failure(planned_trial.cell_id, str(error))


def _how_to_repeat(run: RunFolder, waited_s: float) -> str:
    waited = f"it did not pass within {waited_s:g} s; " if waited_s else ""
    return (
        f"{waited}change that, then repeat the failed trials with `benchkit run --resume {run.run_id} --retry-failed`"
    )


def _run(trial: Trial, run: RunFolder) -> TrialRecord:
    """Run a trial; where it fails, store the logs of its services and name their folder in the error."""
    try:
        return run_trial(trial)
    except (HostError, InputError) as error:
        raise _with_stored_logs(error, trial, run)  # noqa: B904 - it is the same error


def _with_stored_logs(error: HostError | InputError, trial: Trial, run: RunFolder) -> HostError | InputError:
    """Store the logs of a failed trial's services, and name their folder in its error."""
    if folder := run.commit_failed_trial(trial.trial_id, trial.files):
        logs = f"the whole logs of its services are in {folder}: {', '.join(run.raw_file_names(trial.trial_id))}"
        error.hint = "; ".join(filter(None, (error.hint, logs)))
    return error


def _read_and_store(record: TrialRecord, files: Mapping[str, bytes], run: RunFolder) -> tuple[TrialRecord, TrialOutput]:
    """Read the output of the generators, and store it with the result of each, also where it cannot be read.

    Raises ParseError.
    """
    try:
        output = read_output(record, files.__getitem__)
    except ParseError:
        run.commit_trial(record, files)
        raise
    generators = [
        generator.model_copy(update={"result": parsed.result})
        for generator, parsed in zip(record.generators, output.generators, strict=True)
    ]
    record = record.model_copy(update={"generators": tuple(generators)})
    run.commit_trial(record, files)
    return record, output
