"""Taking a run up again: the same plan, seed and order, at the first trial that is not finished."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from benchkit.analysis.adaptive import rule_of
from benchkit.analysis.ground import Change, asked_otherwise, facts_differing
from benchkit.course import Course
from benchkit.errors import InputError, ParseError
from benchkit.hosts.connect import Hosts
from benchkit.judge import reparse
from benchkit.models.run import Manifest
from benchkit.planning.plan import RunPlan
from benchkit.results.progress import ENDED, FAILED, SPLIT, Progress, progress_of
from benchkit.results.reparse import host_parts, read_generators
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.run.book import Book
from benchkit.run.manifest import facts_of, manifest_of
from benchkit.scenario.schedule import Slot
from benchkit.trial.state import trial_id_of

SHOWN = 20
"""So many differences are listed; more say no more."""


@dataclass(frozen=True)
class Resumption:
    """A stored run that may be taken up again by this plan."""

    plan: RunPlan
    run: RunFolder
    changes: tuple[Change, ...]
    """What is another than when the run began, and was said to be fine."""


def order_of(slots: Iterable[Slot]) -> str:
    """The order of a plan's trials, as a hash."""
    text = "\n".join(f"{slot.block} {slot.position} {slot.kind} {slot.cell_id}" for slot in slots)
    return hashlib.sha256(text.encode()).hexdigest()


def check_resumption(plan: RunPlan, hosts: Hosts, run: RunFolder, *, accept_changes: bool) -> Resumption:
    """Whether the run, which must be locked, may be taken up again by this plan on these hosts.

    They must be held for it: one that was left within its lease is as it was tuned until then. Raises InputError where
    nothing of it is left to do, where the plan has another order, and, unless `accept_changes`, where scenario, versions
    or hosts have changed, naming what.
    """
    before, progress = run.manifest(), progress_of(run.history())
    if progress.order not in (None, order_of(plan.slots)):
        raise InputError(
            "the plan has another order of trials than this run",
            where=run.run_id,
            why=_listed(asked_otherwise(before, manifest_of(plan, hosts))) or "another benchkit made it",
            hint="start a new run; this one keeps what it has",
        )
    left = [slot for slot in plan.slots if not _is_over(run.run_id, slot, progress)]
    if progress.closed == "done" or (not left and progress.closed is not None):
        raise InputError(
            "nothing of it is left to do", where=run.run_id, hint="`benchkit report` shows what came of it"
        )
    changes = tuple(_changes(before, plan, hosts))
    if changes and not accept_changes:
        raise InputError(
            "this is not what the run began with",
            where=run.run_id,
            why=_listed(changes),
            hint="put it back, or say --accept-changes: the differences are written down, and its trials will differ",
        )
    return Resumption(plan, run, changes if accept_changes else ())


def take_up(resumption: Resumption, store: Store, book: Book, tables: RunTables) -> Course:
    """Settle what a crash has left open, mark the blocks it has cut, rebuild the tables, and find where to go on.

    The run must be locked.
    """
    run, plan = resumption.run, resumption.plan
    book.begin(run.manifest(), plan.slots, order_of(plan.slots), progress_of(run.history()))
    book.journal.append("run-resumed", changes=[change.text for change in resumption.changes])
    _settle(run, book)
    progress = progress_of(run.history())
    for block, over in _cut(plan.slots, progress, run.run_id).items():
        trials = [trial_id_of(run.run_id, slot) for slot in over]
        book.journal.append(SPLIT, block=block, round=over[0].round + 1, trials=trials)
    progress = progress_of(run.history())
    manifest = _begin_again(run, resumption.changes)
    reparse(store, run, book.judge)
    tables.apart("hosts", host_parts(run.history()))
    rows = {row["trial_id"]: row for row in tables.rows("trials").to_pylist()}
    course = Course(_latest(plan.slots, progress), rule_of(manifest))
    for slot in _latest(plan.slots, progress):
        if _is_over(run.run_id, slot, progress):
            trial_id = trial_id_of(run.run_id, slot)
            course.already(slot, rows.get(trial_id), progress.ended.get(trial_id, 0.0), book.exclusions)
    return course


def marks_of(course: Course, run: RunFolder, tables: RunTables) -> dict[Slot, str]:
    """The trials that are over, each with its verdict, or `failed`."""
    verdicts = {row["trial_id"]: row["verdict"] for row in tables.rows("trials").to_pylist()}
    return {slot: verdicts.get(trial_id_of(run.run_id, slot)) or "failed" for slot in course.over}


def _settle(run: RunFolder, book: Book) -> None:
    """Trials whose raw files are whole ended, even where the journal was not told any more."""
    progress = progress_of(run.history())
    for trial_id in set(run.tidy()) & progress.unsettled:
        record = run.record(trial_id)
        try:
            read_generators(record, partial(run.raw_file, trial_id))
        except ParseError as error:
            book.journal.append(FAILED, trial_id=trial_id, cell_id=record.cell_id, why=str(error), again=False)
        else:
            book.journal.append(ENDED, trial_id=trial_id, cell_id=record.cell_id, wall_s=record.wall_s)


def _begin_again(run: RunFolder, changes: Collection[Change]) -> Manifest:
    manifest = run.manifest()
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    notices = (*manifest.notices, *(f"Taken up again at {at}, although {change.text}." for change in changes))
    manifest = manifest.model_copy(update={"status": "running", "ended_at": None, "notices": notices})
    run.write_manifest(manifest)
    return manifest


def _cut(slots: Sequence[Slot], progress: Progress, run_id: str) -> dict[int, tuple[Slot, ...]]:
    """The blocks of which some trials are over and others not, with those that are."""
    course = Course(_latest(slots, progress))
    for slot in _latest(slots, progress):
        if _is_over(run_id, slot, progress):
            course.already(slot, None, 0.0)
    return {block: course.again(block) for block in course.begun()}


def _latest(slots: Sequence[Slot], progress: Progress) -> tuple[Slot, ...]:
    """The order, its blocks in the round that they have come to."""
    return tuple(replace(slot, round=progress.rounds.get(slot.block, 1)) for slot in slots)


def _is_over(run_id: str, slot: Slot, progress: Progress) -> bool:
    trial_id = trial_id_of(run_id, replace(slot, round=progress.rounds.get(slot.block, 1)))
    return trial_id in progress.ended or trial_id in progress.failed


def _changes(before: Manifest, plan: RunPlan, hosts: Hosts) -> Iterable[Change]:
    now = manifest_of(plan, hosts)
    yield from asked_otherwise(before, now)
    there = {host.name: host for host in before.hosts}
    for host in now.hosts:
        known = there.pop(host.name, None)
        if known is None:
            yield Change(where=f"host {host.name}", what="host of the run", before=None, after=host.name)
        else:
            yield from facts_differing(f"host {host.name}", known.facts, facts_of(hosts[host.name]))
    for name in there:
        yield Change(where=f"host {name}", what="host of the run", before=name, after=None)


def _listed(changes: Collection[Change]) -> str:
    lines = [f"\n  {change.text}" for change in changes]
    more = f"\n  and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "".join(lines[:SHOWN]) + more
