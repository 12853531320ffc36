"""The attempts at a trial: retries where a host was lost or a state of it has to pass, each recorded."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchkit.errors import HostError, InputError, ParseError
from benchkit.load.tools.tool import ParsedOutput
from benchkit.models.rows import TrialRow
from benchkit.models.trial import TrialRecord
from benchkit.results.store import RunFolder
from benchkit.results.trial_tables import merge_outputs, read_generators
from benchkit.run.events import RunObserver
from benchkit.run.recorder import RunRecorder
from benchkit.run.retries import MAX_ATTEMPTS, cause_of
from benchkit.run.steps.trial_state import Trial, make_trial
from benchkit.run.testbed import Testbed
from benchkit.run.trial import run_trial
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.units import requests_per_s

logger = logging.getLogger(__name__)

MAX_PAUSE_S = 60.0
"""Longest disconnection of a host within a block. After a longer one the block is repeated: its hosts were restored
meanwhile, and may have drifted."""


@dataclass(frozen=True)
class AttemptResult:
    """The result of a trial: it `ended`, `failed`, or was `skipped`, or a pause `interrupted` its block."""

    how: Literal["ended", "failed", "skipped", "interrupted"]
    row: TrialRow | None = None
    """Its row of `trials`, where it ended."""


def attempt_trial(
    planned_trial: PlannedTrial, testbed: Testbed, recorder: RunRecorder, observer: RunObserver
) -> AttemptResult:
    """Run a trial and record its result; retry it as `benchkit.run.retries` says."""
    cell, run = testbed.plan.cell_of(planned_trial), recorder.run
    trial_id = recorder.trial_id(planned_trial)
    retries, pauses = testbed.retries, testbed.retries.pauses()
    losses, waited_s = 0, 0.0
    for attempt in itertools.count(1):
        why_skipped = testbed.why_unavailable(cell) or retries.why_skipped(cell.cell_id)
        if why_skipped is not None:
            logger.info("trial %s: skipped: %s", trial_id, why_skipped)
            recorder.record_trial_skipped(planned_trial, why_skipped)
            observer.trial_failed(planned_trial, why_skipped)
            return AttemptResult("skipped")
        logger.info("trial %s: attempt %d, %s", trial_id, attempt, planned_trial.title)
        recorder.record_trial_started(planned_trial, attempt)
        try:
            testbed.record_block_facts(planned_trial)
            trial = make_trial(testbed.plan, planned_trial, run.run_id, testbed.hosts)
            trial.attempt = attempt
            record, output = _read_and_store(_run(trial, run), trial.files, run)
        except (HostError, InputError) as error:
            is_host_lost = bool(testbed.hosts.unreachable())
            losses += is_host_lost
            cause = cause_of(error, is_host_lost=is_host_lost)
            pause_s = next(pauses, None) if cause == "host-state" else None
            is_retried = pause_s is not None or (is_host_lost and losses < MAX_ATTEMPTS)
            if cause == "host-state" and not is_retried:
                error.hint = "; ".join(filter(None, (error.hint, _how_to_repeat(run, waited_s))))
            logger.info("trial %s: failed (%s)%s: %s", trial_id, cause, ", retrying" if is_retried else "", error)
            recorder.record_trial_failed(planned_trial, str(error), cause, is_retried=is_retried, pause_s=pause_s)
            if not is_retried:
                observer.trial_failed(planned_trial, str(error))
                retries.add_failure(cell.cell_id, str(error))
            else:
                when = f", in {pause_s:g} s" if pause_s else ""
                observer.trial_retrying(planned_trial, f"{error}{when}")
            disconnected_s = testbed.recover() if is_host_lost else 0.0
            if not is_retried:
                return AttemptResult("failed")
            if disconnected_s > MAX_PAUSE_S:
                return AttemptResult("interrupted")
            time.sleep(pause_s or 0.0)
            waited_s += pause_s or 0.0
        else:
            tables = recorder.record_trial_ended(record, output, trial.files.__getitem__)
            verdict, rps = str(tables.trial.verdict), output.result.rps
            logger.info("trial %s: ended after %.3f s: %s, %s", trial_id, record.wall_s, requests_per_s(rps), verdict)
            observer.trial_ended(planned_trial, rps, verdict, tables.deciding_checks)
            retries.add_success(cell.cell_id)
            return AttemptResult("ended", tables.trial)
    raise AssertionError


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
        if folder := run.commit_failed_trial(trial.trial_id, trial.files):
            logs = f"the whole logs of its services are in {folder}: {', '.join(run.raw_file_names(trial.trial_id))}"
            error.hint = "; ".join(filter(None, (error.hint, logs)))
        raise


def _read_and_store(
    record: TrialRecord, files: Mapping[str, bytes], run: RunFolder
) -> tuple[TrialRecord, ParsedOutput]:
    """Read the output of the generators, and store it with the result of each, also where it cannot be read.

    Raises ParseError.
    """
    try:
        outputs = read_generators(record, files.__getitem__)
    except ParseError:
        run.commit_trial(record, files)
        raise
    generators = [
        generator.model_copy(update={"result": output.result})
        for generator, output in zip(record.generators, outputs, strict=True)
    ]
    record = record.model_copy(update={"generators": tuple(generators)})
    run.commit_trial(record, files)
    return record, merge_outputs(record, outputs)
