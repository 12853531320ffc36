"""Taking a run up again: the same plan, seed and order, at the first trial that is not finished."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from benchkit.analysis.adaptive import stop_rule
from benchkit.analysis.run_differences import FactDifference, facts_differing, settings_differing
from benchkit.errors import InputError, ParseError
from benchkit.hosts.connections import Hosts
from benchkit.models.run import Manifest
from benchkit.results.progress import BLOCK_INTERRUPTED, TRIAL_ENDED, TRIAL_FAILED, Progress, read_progress
from benchkit.results.reparse import host_parts, read_generators
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.run.judge import rebuild_tables
from benchkit.run.manifest import facts_of, make_manifest
from benchkit.run.plan.model import RunPlan
from benchkit.run.recorder import RunRecorder
from benchkit.run.steps.trial_state import trial_id_of
from benchkit.run.trial_queue import TrialQueue
from benchkit.scenario.trial_order import PlannedTrial

SHOWN = 20
"""So many differences are listed; more say no more."""


@dataclass(frozen=True)
class ResumePlan:
    """A stored run that may be taken up again by this plan."""

    plan: RunPlan
    run: RunFolder
    changes: tuple[FactDifference, ...]
    """What is another than when the run began, and was said to be fine."""


def order_of(planned_trials: Iterable[PlannedTrial]) -> str:
    """The order of a plan's trials, as a hash."""
    text = "\n".join(
        f"{planned_trial.block} {planned_trial.position} {planned_trial.kind} {planned_trial.cell_id}"
        for planned_trial in planned_trials
    )
    return hashlib.sha256(text.encode()).hexdigest()


def check_resumption(plan: RunPlan, hosts: Hosts, run: RunFolder, *, accept_changes: bool) -> ResumePlan:
    """Whether the run, which must be locked, may be taken up again by this plan on these hosts.

    They must be held for it: one that was left within its lease is as it was tuned until then. Raises InputError where
    nothing of it is left to do, where the plan has another order, and, unless `accept_changes`, where scenario, versions
    or hosts have changed, naming what.
    """
    before, progress = run.manifest(), read_progress(run.history())
    if progress.order_hash not in (None, order_of(plan.planned_trials)):
        raise InputError(
            "the plan has another order of trials than this run",
            where=run.run_id,
            why=_listed(settings_differing(before, make_manifest(plan, hosts))) or "another benchkit made it",
            hint="start a new run; this one keeps what it has",
        )
    left = [planned_trial for planned_trial in plan.planned_trials if not _is_over(run.run_id, planned_trial, progress)]
    if progress.status == "done" or (not left and progress.status is not None):
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
    return ResumePlan(plan, run, changes if accept_changes else ())


def resume_queue(resumption: ResumePlan, store: Store, recorder: RunRecorder, tables: RunTables) -> TrialQueue:
    """Settle what a crash has left open, mark the blocks it has cut, rebuild the tables, and find where to go on.

    The run must be locked.
    """
    run, plan = resumption.run, resumption.plan
    recorder.begin(run.manifest(), plan.planned_trials, order_of(plan.planned_trials), read_progress(run.history()))
    recorder.journal.append("run-resumed", changes=[change.text for change in resumption.changes])
    _settle(run, recorder)
    progress = read_progress(run.history())
    for block, over in _cut(plan.planned_trials, progress, run.run_id).items():
        trials = [trial_id_of(run.run_id, planned_trial) for planned_trial in over]
        recorder.journal.append(BLOCK_INTERRUPTED, block=block, round=over[0].round + 1, trials=trials)
    progress = read_progress(run.history())
    manifest = _begin_again(run, resumption.changes)
    rebuild_tables(store, run, recorder.judge)
    tables.apart("hosts", host_parts(run.history()))
    rows = {row["trial_id"]: row for row in tables.rows("trials").to_pylist()}
    queue = TrialQueue(_latest(plan.planned_trials, progress), stop_rule(manifest))
    for planned_trial in _latest(plan.planned_trials, progress):
        if _is_over(run.run_id, planned_trial, progress):
            trial_id = trial_id_of(run.run_id, planned_trial)
            queue.already(planned_trial, rows.get(trial_id), progress.ended.get(trial_id, 0.0), recorder.exclusions)
    return queue


def marks_of(queue: TrialQueue, run: RunFolder, tables: RunTables) -> dict[PlannedTrial, str]:
    """The trials that are over, each with its verdict, or `failed`."""
    verdicts = {row["trial_id"]: row["verdict"] for row in tables.rows("trials").to_pylist()}
    return {
        planned_trial: verdicts.get(trial_id_of(run.run_id, planned_trial)) or "failed" for planned_trial in queue.over
    }


def _settle(run: RunFolder, recorder: RunRecorder) -> None:
    """Trials whose raw files are whole ended, even where the journal was not told any more."""
    progress = read_progress(run.history())
    for trial_id in set(run.tidy()) & progress.unresolved:
        record = run.record(trial_id)
        try:
            read_generators(record, partial(run.raw_file, trial_id))
        except ParseError as error:
            recorder.journal.append(
                TRIAL_FAILED, trial_id=trial_id, cell_id=record.cell_id, why=str(error), again=False
            )
        else:
            recorder.journal.append(TRIAL_ENDED, trial_id=trial_id, cell_id=record.cell_id, wall_s=record.wall_s)


def _begin_again(run: RunFolder, changes: Collection[FactDifference]) -> Manifest:
    manifest = run.manifest()
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    notices = (*manifest.notices, *(f"Taken up again at {at}, although {change.text}." for change in changes))
    manifest = manifest.model_copy(update={"status": "running", "ended_at": None, "notices": notices})
    run.write_manifest(manifest)
    return manifest


def _cut(
    planned_trials: Sequence[PlannedTrial], progress: Progress, run_id: str
) -> dict[int, tuple[PlannedTrial, ...]]:
    """The blocks of which some trials are over and others not, with those that are."""
    queue = TrialQueue(_latest(planned_trials, progress))
    for planned_trial in _latest(planned_trials, progress):
        if _is_over(run_id, planned_trial, progress):
            queue.already(planned_trial, None, 0.0)
    return {block: queue.again(block) for block in queue.begun()}


def _latest(planned_trials: Sequence[PlannedTrial], progress: Progress) -> tuple[PlannedTrial, ...]:
    """The order, its blocks in the round that they have come to."""
    return tuple(
        replace(planned_trial, round=progress.rounds.get(planned_trial.block, 1)) for planned_trial in planned_trials
    )


def _is_over(run_id: str, planned_trial: PlannedTrial, progress: Progress) -> bool:
    trial_id = trial_id_of(run_id, replace(planned_trial, round=progress.rounds.get(planned_trial.block, 1)))
    return trial_id in progress.ended or trial_id in progress.failed


def _changes(before: Manifest, plan: RunPlan, hosts: Hosts) -> Iterable[FactDifference]:
    now = make_manifest(plan, hosts)
    yield from settings_differing(before, now)
    there = {host.name: host for host in before.hosts}
    for host in now.hosts:
        known = there.pop(host.name, None)
        if known is None:
            yield FactDifference(where=f"host {host.name}", what="host of the run", before=None, after=host.name)
        else:
            yield from facts_differing(f"host {host.name}", known.facts, facts_of(hosts[host.name]))
    for name in there:
        yield FactDifference(where=f"host {name}", what="host of the run", before=name, after=None)


def _listed(changes: Collection[FactDifference]) -> str:
    lines = [f"\n  {change.text}" for change in changes]
    more = f"\n  and {len(lines) - SHOWN} more" if len(lines) > SHOWN else ""
    return "".join(lines[:SHOWN]) + more
