"""Resumption of an interrupted run: the checks before it, and the queue of the remaining trials."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Literal

from benchkit.comparison.adaptive import stop_rule
from benchkit.errors import InputError, ParseError
from benchkit.hosts.connections import Hosts
from benchkit.judge.run_differences import FactDifference, fact_differences, setting_differences
from benchkit.models.run import Manifest
from benchkit.plan.model import RunPlan, inventory_facts, used_programs
from benchkit.run.judge import rebuild_tables
from benchkit.run.manifest import make_manifest
from benchkit.run.recorder import RunRecorder
from benchkit.run.steps.state import trial_id_of
from benchkit.run.trial_queue import TrialQueue, hash_order, interrupted_blocks
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.journal import BlockInterrupted, RunProgress, RunResumed, TrialEnded, TrialFailed, read_progress
from benchkit.store.run_folder import RunFolder
from benchkit.store.trial_tables import read_output
from benchkit.units import counted

logger = logging.getLogger(__name__)

MAX_LISTED = 20
"""Most differences that an error lists; it states the number of the others."""


@dataclass(frozen=True)
class Resumption:
    """Options of a resumed run that has passed the checks."""

    changes: tuple[FactDifference, ...]
    """Accepted differences from the start of the run."""
    retry_failed: bool = False
    """True to repeat the blocks with failed trials."""


def require_unfinished(run: RunFolder, *, retry_failed: bool = False) -> None:
    """Raise InputError if the journal of a run says that it is finished.

    This check comes first, because it needs no hosts and ignores changes since the start.
    """
    progress = read_progress(run.history())
    if progress.status == "done":
        raise _finished_error(run, progress, retry_failed=retry_failed)


def check_resumption(
    plan: RunPlan, hosts: Hosts, run: RunFolder, *, accept_changes: bool, retry_failed: bool = False
) -> Resumption:
    """Check that a run can be resumed by this plan on these hosts; return the options.

    The run must be locked and its hosts held: an abandoned host stays tuned until its lease ends. Raises InputError
    where the run is finished, the plan has another order, or scenario, versions or hosts have changed. With
    `accept_changes` these changes are returned instead. With `retry_failed` a run with failed trials is not finished.
    """
    before, progress = run.manifest(), read_progress(run.history())
    require_unfinished(run, retry_failed=retry_failed)
    if progress.order_hash not in (None, hash_order(plan.planned_trials)):
        raise InputError(
            "the plan has another order of trials than this run",
            where=run.run_id,
            why=_listed(setting_differences(before, make_manifest(plan, hosts)))
            or "another version of benchkit planned the run",
            hint="start a new run; this one keeps its results",
        )
    is_complete = all(_is_finished(run.run_id, trial, progress) for trial in plan.planned_trials)
    if is_complete and progress.status is not None and not (retry_failed and _failed_trials(progress)):
        raise _finished_error(run, progress, retry_failed=retry_failed)
    changes = tuple(_changes(before, plan, hosts))
    if changes and not accept_changes:
        raise InputError(
            "scenario, versions or hosts have changed since the run started",
            where=run.run_id,
            why=_listed(changes),
            hint="undo the changes, or resume with --accept-changes: the run records them, and later trials may differ",
        )
    return Resumption(changes if accept_changes else (), retry_failed)


def resume_queue(plan: RunPlan, resumption: Resumption, recorder: RunRecorder) -> TrialQueue:
    """Complete the journal after a crash, rebuild the tables, and return the queue of the remaining trials.

    Trials with complete raw files have ended. Blocks with both finished and pending trials are repeated; with
    `retry_failed` also blocks with failed trials. The run must be locked.
    """
    run = recorder.run
    recorder.journal.append(RunResumed(changes=tuple(change.text for change in resumption.changes)))
    _resolve_unfinished_trials(run, recorder)
    _repeat_blocks(plan.planned_trials, recorder, retry_failed=resumption.retry_failed)
    progress = read_progress(run.history())
    manifest = _reopen_manifest(run, resumption.changes)
    rebuild_tables(recorder.store, run, recorder.judge)
    recorder.outcome.count_finished_trials(progress)
    rows = {row.trial_id: row for row in recorder.tables.trials()}
    order = _latest_rounds(plan.planned_trials, progress)
    queue = TrialQueue(order, stop_rule(manifest), together=plan.design == "sliced")
    for trial in order:
        if _is_finished(run.run_id, trial, progress):
            trial_id = recorder.trial_id(trial)
            duration_s = progress.ended.get(trial_id, 0.0)
            queue.skip_finished(trial, rows.get(trial_id), duration_s, recorder.judge.exclusions)
    return queue


def _resolve_unfinished_trials(run: RunFolder, recorder: RunRecorder) -> None:
    progress = read_progress(run.history())
    for trial_id in sorted(set(run.remove_partial_trials()) & progress.unresolved):
        record = run.record(trial_id)
        try:
            read_output(record, partial(run.raw_file, trial_id))
        except ParseError as error:
            recorder.journal.append(TrialFailed(trial_id=trial_id, cell_id=record.cell_id, why=str(error)))
        else:
            recorder.journal.append(TrialEnded(trial_id=trial_id, cell_id=record.cell_id, wall_s=record.wall_s))
        logger.info("trial %s: raw files complete; its end is added to the journal", trial_id)


def _repeat_blocks(planned_trials: Sequence[PlannedTrial], recorder: RunRecorder, *, retry_failed: bool) -> None:
    """Record the blocks that are repeated as a whole, so that all cells of a block run under the same conditions."""
    progress = read_progress(recorder.run.history())
    order = _latest_rounds(planned_trials, progress)
    finished = {trial for trial in order if _is_finished(recorder.run.run_id, trial, progress)}
    interrupted = interrupted_blocks(order, finished)
    failed = {trial.block for trial in order if retry_failed and recorder.trial_id(trial) in progress.failed}
    for block in dict.fromkeys(trial.block for trial in order):
        if block in failed or block in interrupted:
            of_block = [trial for trial in order if trial.block == block]
            trials = sorted(recorder.trial_id(trial) for trial in of_block if trial in finished)
            why: Literal["retry-failed", "pause"] = "retry-failed" if block in failed else "pause"
            next_round = of_block[0].round + 1
            recorder.journal.append(BlockInterrupted(block=block, round=next_round, trials=tuple(trials), why=why))
            logger.info(
                "block %d %s and is repeated", block, "has failed trials" if block in failed else "was interrupted"
            )


def _failed_trials(progress: RunProgress) -> set[str]:
    return progress.failed.keys() - progress.interrupted


def _finished_error(run: RunFolder, progress: RunProgress, *, retry_failed: bool) -> InputError:
    failed = len(_failed_trials(progress))
    hint = "`benchkit report` shows its results; start a new run for more trials"
    if failed:
        hint = f"`benchkit run --resume {run.run_id} --retry-failed` repeats the {counted(failed, 'failed trial')}"
    return InputError(
        "this run is finished: nothing is left to do",
        where=run.run_id,
        why="no trial of it failed" if retry_failed else f"its status is {progress.status}",
        hint=hint,
    )


def _reopen_manifest(run: RunFolder, changes: Collection[FactDifference]) -> Manifest:
    manifest = run.manifest()
    at = f"{datetime.now(UTC):%Y-%m-%d %H:%M} UTC"
    notes = (*manifest.notes, *(f"Resumed at {at} despite a change: {change.text}." for change in changes))
    manifest = manifest.model_copy(update={"status": "running", "ended_at": None, "notes": notes})
    run.write_manifest(manifest)
    return manifest


def _latest_rounds(planned_trials: Sequence[PlannedTrial], progress: RunProgress) -> tuple[PlannedTrial, ...]:
    return tuple(replace(trial, round=progress.rounds.get(trial.block, 1)) for trial in planned_trials)


def _is_finished(run_id: str, trial: PlannedTrial, progress: RunProgress) -> bool:
    trial_id = trial_id_of(run_id, replace(trial, round=progress.rounds.get(trial.block, 1)))
    return trial_id in progress.ended or trial_id in progress.failed


def _changes(before: Manifest, plan: RunPlan, hosts: Hosts) -> Iterable[FactDifference]:
    now = make_manifest(plan, hosts)
    yield from setting_differences(before, now)
    hosts_before = {host.name: host for host in before.hosts}
    for host in now.hosts:
        known = hosts_before.pop(host.name, None)
        if known is None:
            yield FactDifference(where=f"host {host.name}", what="host of the run", before=None, after=host.name)
        else:
            used = used_programs(plan, hosts[host.name])
            readings = (facts.with_programs(used) for facts in (known.facts, inventory_facts(hosts[host.name])))
            yield from fact_differences(f"host {host.name}", *readings)
    for name in hosts_before:
        yield FactDifference(where=f"host {name}", what="host of the run", before=name, after=None)


def _listed(changes: Collection[FactDifference]) -> str:
    lines = [f"\n  {change.text}" for change in changes]
    more = f"\n  and {len(lines) - MAX_LISTED} more" if len(lines) > MAX_LISTED else ""
    return "".join(lines[:MAX_LISTED]) + more
