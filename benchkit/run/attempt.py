"""A trial carried out, again where a link was lost: tries are bounded, and each is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchkit.errors import HostError, InputError, ParseError
from benchkit.load.tools.tool import ParsedOutput
from benchkit.models.trial import TrialRecord
from benchkit.results.reparse import merge_outputs, read_generators
from benchkit.results.rows import Row
from benchkit.results.store import RunFolder
from benchkit.run.events import RunObserver
from benchkit.run.recorder import RunRecorder
from benchkit.run.steps.trial_state import make_trial, trial_id_of
from benchkit.run.testbed import Testbed
from benchkit.run.trial import run_trial
from benchkit.scenario.trial_order import PlannedTrial

MOST_TRIES = 3
"""Of a trial whose hosts are lost in it. What fails while all hosts answer is a failure of what is measured: it is not
tried again, for a cell that fails now and then has to be seen to."""

PAUSE_S = 60.0
"""A block that stood still for so long is not one block any more: the hosts were put back in between, and may have drifted."""


@dataclass(frozen=True)
class AttemptResult:
    """What became of a trial: it `ended`, it `failed` or was `skipped`, or its block was `cut` by a pause."""

    how: Literal["ended", "failed", "skipped", "cut"]
    row: Row | None = None
    """Of `trials`, where it ended."""


def attempt_trial(
    planned_trial: PlannedTrial, testbed: Testbed, recorder: RunRecorder, observer: RunObserver
) -> AttemptResult:
    """Carry out a trial, at most `MOST_TRIES` times where its hosts are lost in it. A failure is written down."""
    cell, run = testbed.plan.cell_of(planned_trial), recorder.outcome.run
    trial_id = trial_id_of(run.run_id, planned_trial)
    for attempt in range(1, MOST_TRIES + 1):
        if (why := testbed.missing_for(cell)) is not None:
            recorder.skipped(trial_id, planned_trial, why)
            observer.trial_failed(planned_trial, why)
            return AttemptResult("skipped")
        recorder.started(trial_id, planned_trial, attempt)
        try:
            recorder.block(testbed.plan, planned_trial, testbed.hosts)
            trial = make_trial(testbed.plan, planned_trial, run.run_id, testbed.hosts)
            trial.attempt = attempt
            record, reading = _read(run_trial(trial), trial.files, run)
        except (HostError, InputError) as error:
            lost = bool(testbed.hosts.lost())
            again = lost and attempt < MOST_TRIES
            recorder.failure(trial_id, planned_trial.cell_id, error, again=again)
            (observer.trial_retrying if again else observer.trial_failed)(planned_trial, str(error))
            pause_s = testbed.recover() if lost else 0.0
            if not again:
                return AttemptResult("failed")
            if pause_s > PAUSE_S:
                return AttemptResult("cut")
        else:
            row = recorder.trial(record, reading, trial.files.__getitem__)
            observer.trial_ended(planned_trial, reading.result.rps, row["verdict"])
            return AttemptResult("ended", row)
    raise AssertionError


def _read(record: TrialRecord, files: Mapping[str, bytes], run: RunFolder) -> tuple[TrialRecord, ParsedOutput]:
    """Read what the generators left, and store it with what each of them said; also where it cannot be read.

    Raises ParseError.
    """
    try:
        readings = read_generators(record, files.__getitem__)
    except ParseError:
        run.commit_trial(record, files)
        raise
    said = [
        generator.model_copy(update={"result": reading.result})
        for generator, reading in zip(record.generators, readings, strict=True)
    ]
    record = record.model_copy(update={"generators": tuple(said)})
    run.commit_trial(record, files)
    return record, merge_outputs(record, readings)
