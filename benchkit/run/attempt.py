"""A trial carried out, again where a link was lost: tries are bounded, and each is written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from benchkit.errors import HostError, InputError, ParseError
from benchkit.load.tool import Reading
from benchkit.models.trial import TrialRecord
from benchkit.pipeline import Watcher, run_trial
from benchkit.results.reparse import read_generators, read_trial
from benchkit.results.rows import Row
from benchkit.results.store import RunFolder
from benchkit.run.book import Book
from benchkit.run.site import Site
from benchkit.scenario.schedule import Slot
from benchkit.trial.state import trial_id_of, trial_of

MOST_TRIES = 3
"""Of a trial whose hosts are lost in it. What fails while all hosts answer is a failure of what is measured: it is not
tried again, for a cell that fails now and then has to be seen to."""

PAUSE_S = 60.0
"""A block that stood still for so long is not one block any more: the hosts were put back in between, and may have drifted."""


@dataclass(frozen=True)
class Attempted:
    """What became of a trial: it `ended`, it `failed` or was `skipped`, or its block was `cut` by a pause."""

    how: Literal["ended", "failed", "skipped", "cut"]
    row: Row | None = None
    """Of `trials`, where it ended."""


def attempt_trial(slot: Slot, site: Site, book: Book, watcher: Watcher) -> Attempted:
    """Carry out a trial, at most `MOST_TRIES` times where its hosts are lost in it. A failure is written down."""
    cell, run = site.plan.cell_of(slot), book.outcome.run
    trial_id = trial_id_of(run.run_id, slot)
    for attempt in range(1, MOST_TRIES + 1):
        if (why := site.missing_for(cell)) is not None:
            book.skipped(trial_id, slot, why)
            watcher.trial_failed(slot, why)
            return Attempted("skipped")
        book.started(trial_id, slot, attempt)
        try:
            book.block(site.plan, slot, site.hosts)
            trial = trial_of(site.plan, slot, run.run_id, site.hosts)
            trial.attempt = attempt
            record, reading = _read(run_trial(trial), trial.files, run)
        except (HostError, InputError) as error:
            lost = bool(site.hosts.lost())
            again = lost and attempt < MOST_TRIES
            book.failure(trial_id, slot.cell_id, error, again=again)
            (watcher.trial_again if again else watcher.trial_failed)(slot, str(error))
            pause_s = site.recover() if lost else 0.0
            if not again:
                return Attempted("failed")
            if pause_s > PAUSE_S:
                return Attempted("cut")
        else:
            row = book.trial(record, reading, trial.files.__getitem__)
            watcher.trial_ended(slot, reading.result.rps, row["verdict"])
            return Attempted("ended", row)
    raise AssertionError


def _read(record: TrialRecord, files: Mapping[str, bytes], run: RunFolder) -> tuple[TrialRecord, Reading]:
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
    return record, read_trial(record, readings)
