"""The recorder of a run: it writes the journal and the tables, and keeps the outcome so far."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchkit.comparison.adaptive import StopDecision
from benchkit.errors import BenchkitError, InputError
from benchkit.hosts.connections import RestoreOutcome
from benchkit.hosts.host import Leftovers
from benchkit.models.facts import RecordedFacts
from benchkit.models.run import BuildRecord, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.plan.adaptation import Adaptation
from benchkit.run.events import (
    BlockRepeated,
    Notice,
    Show,
    TrialRetried,
    TrialWithoutResult,
    show_nothing,
)
from benchkit.run.judge import Judge, judge_stored_run
from benchkit.run.retries import Retry
from benchkit.run.steps.state import trial_id_of
from benchkit.run.trial_queue import hash_order
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.store.journal import (
    BlockInterrupted,
    FailureCause,
    HostFactsRead,
    Journal,
    RunEnded,
    RunProgress,
    RunStarted,
    TrialEnded,
    TrialFailed,
    TrialSkipped,
    TrialStarted,
    read_progress,
)
from benchkit.store.row_builders import factor_rows, host_rows_of
from benchkit.store.run_folder import RunFolder
from benchkit.store.run_log import run_log
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from benchkit.store.trial_tables import RawFile, TrialOutput, TrialTables, build_trial_tables
from benchkit.store.verification import remove_checksums, write_checksums
from benchkit.units import counted

logger = logging.getLogger(__name__)


@dataclass
class RunOutcome:
    """Outcome of a run so far."""

    run: RunFolder
    status: RunStatus = "running"
    trials: int = 0
    """Number of trials that ended, without those of repeated blocks."""
    failures: dict[str, str] = field(default_factory=dict)
    """Reasons why trials failed or were skipped, by trial id."""
    causes: dict[str, FailureCause | None] = field(default_factory=dict)
    """Causes of the failures in this process, by trial id; skipped trials have none."""
    retries: dict[str, list[str]] = field(default_factory=dict)
    """Reasons of the retries of each trial, by trial id."""
    adaptation: Adaptation | None = None
    """The change of load or design for which a comparison ended early."""
    not_restored: dict[str, str] = field(default_factory=dict)
    """Hosts that could not be restored, each with the reason; they keep records of the changes."""
    restore_unconfirmed: dict[str, str] = field(default_factory=dict)
    """Hosts lost before benchkit saw them restored, each with the reason; their watchdogs restore them."""

    def count_finished_trials(self, progress: RunProgress) -> None:
        """Count the trials that finished before the run was resumed."""
        self.trials = len(progress.ended.keys() - progress.interrupted)
        self.failures = {
            trial: reason for trial, reason in progress.failed.items() if trial not in progress.interrupted
        }
        self.retries = {trial: list(reasons) for trial, reasons in progress.retries.items()}

    def add_restore_outcome(self, restored: RestoreOutcome) -> None:
        """Add the reports of the released hosts, whose agents have tried again to restore them."""
        still_unconfirmed = {host: reason for host, reason in self.not_restored.items() if host in restored.unconfirmed}
        self.not_restored = {**still_unconfirmed, **restored.not_restored}
        self.restore_unconfirmed.update(restored.unconfirmed)


class RunRecorder:
    """Recorder of one run: each method stores an event on disk before it returns, and shows it."""

    def __init__(self, run: RunFolder, store: Store, journal: Journal, show: Show = show_nothing) -> None:
        manifest = run.manifest()
        self.run = run
        self.store = store
        self.journal = journal
        self.show = show
        self.tables = RunTables(store, manifest.scenario_name, run.run_id)
        self.judge = Judge(manifest)
        self.outcome = RunOutcome(run)

    def trial_id(self, planned_trial: PlannedTrial) -> str:
        """Return the id of a trial of this run."""
        return trial_id_of(self.run.run_id, planned_trial)

    def record_start(self, planned_trials: Sequence[PlannedTrial]) -> None:
        """Record the order, factors and hosts of the plan; a resumed run has recorded order and hosts already."""
        manifest, progress = self.run.manifest(), read_progress(self.run.history())
        if progress.order_hash is None:
            order = hash_order(planned_trials)
            self.journal.append(
                RunStarted(run_id=manifest.run_id, seed=manifest.seed, trials=len(planned_trials), order=order)
            )
        self.tables.replace("factors", factor_rows(manifest.cells))
        for host in manifest.hosts:
            if host.name not in progress.known_hosts:
                self.record_host_facts(host.name, host.roles, "start", host.facts)
        self.write_host_facts()

    def record_host_facts(self, host: str, roles: tuple[str, ...], stage: str, facts: RecordedFacts) -> None:
        """Record the facts of a host at a stage of the run; `write_host_facts` adds them to the tables.

        Raises BenchkitError where the folder of the run was deleted or moved.
        """
        self._require_store()
        self.journal.append(HostFactsRead(host=host, roles=roles, stage=stage, facts=facts))
        self.judge.add_host_facts(host, stage, facts)

    def write_host_facts(self) -> None:
        """Write the table `hosts` from the journal: at the start, when the hosts are tuned, and at the end.

        Each call reads the whole journal, so the table of an unfinished run lacks the facts of single blocks.
        """
        self.tables.replace("hosts", host_rows_of(self.run.history()))

    def record_leftovers(self, host: str, leftovers: Leftovers) -> None:
        """Record the changes of an earlier run on a host, all restored by now."""
        for report in leftovers.reports:
            self.journal.record("put-back", host=host, by="watchdog", text=str(report), at_s=report.at_s)
        for change in leftovers.restored:
            self.journal.record("put-back", host=host, by="run", text=change.text, how=change.how)

    def record_lost_host(self, host: str, reason: str) -> None:
        """Record that a host is lost and no longer used."""
        logger.info("%s: lost: %s", host, reason)
        self.journal.record("host-lost", host=host, why=reason)
        self.outcome.restore_unconfirmed[host] = reason

    def add_note(self, text: str) -> bool:
        """Add a note to the manifest; return False if it is there already."""
        manifest = self.run.manifest()
        if text in manifest.notes:
            return False
        self.run.write_manifest(manifest.model_copy(update={"notes": (*manifest.notes, text)}))
        return True

    def show_note(self, text: str) -> None:
        """Add a note to the manifest, and show it if it is new."""
        if self.add_note(text):
            logger.info("%s", text)
            self.notify(text)

    def notify(self, text: str) -> None:
        """Show a message about the whole run."""
        self.show(Notice(text))

    def record_pulled_image(self, cell_id: str, service: str, build: BuildRecord) -> None:
        """Record the image that a host pulled in the manifest; if it has changed, a note states both ids."""
        manifest = self.run.manifest()
        cells = {cell.cell_id: cell for cell in manifest.cells}
        before = cells[cell_id].builds.get(service)
        builds = {**cells[cell_id].builds, service: build}
        cells[cell_id] = cells[cell_id].model_copy(update={"builds": builds})
        if before != build:
            self.run.write_manifest(manifest.model_copy(update={"cells": tuple(cells.values())}))
        if before is not None and before.output_sha256 != build.output_sha256:
            ids = f"{before.output_sha256[:12]} to {build.output_sha256[:12]}"
            self.add_note(f"The id of image {build.image} changed during the run, from {ids}.")

    def record_trial_started(self, planned_trial: PlannedTrial, attempt: int) -> None:
        """Record the start of an attempt at a trial. Raises BenchkitError where the run's folder was deleted."""
        self._require_store()
        self.journal.append(
            TrialStarted(
                trial_id=self.trial_id(planned_trial),
                cell_id=planned_trial.cell_id,
                block=planned_trial.block,
                round=planned_trial.round,
                position=planned_trial.position,
                attempt=attempt,
            )
        )

    def record_trial_ended(self, record: TrialRecord, output: TrialOutput, raw: RawFile) -> TrialTables:
        """Record a trial whose raw files are stored; return its rows with the verdict."""
        tables = build_trial_tables(record, output, raw)
        tables = self.judge.add_verdict(record, tables)
        for table, rows in tables.by_table().items():
            self.tables.add(table, record.trial_id, rows)
        self.journal.append(TrialEnded(trial_id=record.trial_id, cell_id=record.cell_id, wall_s=record.wall_s))
        self.outcome.trials += 1
        return tables

    def record_trial_failed(self, planned_trial: PlannedTrial, reason: str, cause: FailureCause, retry: Retry) -> None:
        """Record the failure of a trial, and its retry if there is one."""
        trial_id = self.trial_id(planned_trial)
        self.journal.append(
            TrialFailed(
                trial_id=trial_id,
                cell_id=planned_trial.cell_id,
                why=reason,
                will_retry=retry.is_retried,
                cause=cause,
                pause_s=retry.pause_s,
            )
        )
        if retry.is_retried:
            self.outcome.retries.setdefault(trial_id, []).append(reason)
            self.show(TrialRetried(planned_trial, reason, retry.pause_s or 0))
        else:
            self.show(TrialWithoutResult(planned_trial, reason))
            self.outcome.failures[trial_id] = reason
            self.outcome.causes[trial_id] = cause

    def record_trial_skipped(self, planned_trial: PlannedTrial, reason: str) -> None:
        """Record why a trial is skipped, and show each reason once; a resumed run attempts the trial again."""
        trial_id = self.trial_id(planned_trial)
        self.journal.append(
            TrialSkipped(
                trial_id=trial_id,
                cell_id=planned_trial.cell_id,
                block=planned_trial.block,
                round=planned_trial.round,
                position=planned_trial.position,
                why=reason,
            )
        )
        is_new = reason not in self.outcome.failures.values()
        self.outcome.failures[trial_id] = reason
        self.show(TrialWithoutResult(planned_trial, reason if is_new else None))

    def record_interrupted_block(self, block: int, next_round: int, finished: Iterable[PlannedTrial]) -> None:
        """Record that a pause interrupted a block, and that its `finished` trials are repeated."""
        logger.info("block %d: interrupted, repeated", block)
        trials = sorted(map(self.trial_id, finished))
        self.journal.append(BlockInterrupted(block=block, round=next_round, trials=tuple(trials)))
        if trials:
            self.tables.mark_interrupted(trials)
        failed = [trial for trial in trials if self.outcome.failures.pop(trial, None) is not None]
        self.outcome.trials -= len(trials) - len(failed)
        self.show(BlockRepeated(block))

    def record_decision(self, decision: StopDecision | None) -> None:
        """Record the decision of the stop rule after a block, if there is one."""
        if decision is not None:
            logger.info("after %s: %s", counted(decision.blocks, "block"), decision.reason)
            self.journal.record("block-ended", **decision.model_dump())

    def _require_store(self) -> None:
        if not self.run.is_stored():
            raise _store_lost(self.outcome)

    def record_early_stop(self, decision: StopDecision | None) -> None:
        """Record that the run needed fewer blocks than planned, unless this is recorded already."""
        manifest = self.run.manifest()
        if decision is not None and decision.blocks < manifest.blocks:
            note = f"Ended after {decision.blocks} of at most {manifest.blocks} blocks: {decision.reason}."
            update = {"blocks": decision.blocks, "notes": (*manifest.notes, note)}
            self.run.write_manifest(manifest.model_copy(update=update))
            self.notify(note)


@contextmanager
def recording(run: RunFolder, store: Store, show: Show = show_nothing) -> Iterator[RunRecorder]:
    """Open the journal, tables and log of a run, and close them however it ends.

    At the end the tables are merged, the trials judged together, and the status is written to manifest and journal.
    Raises BenchkitError, with a hint on how to resume, where the store cannot be written.
    """
    with run_log(run.log), run.journal() as journal:
        remove_checksums(run)
        recorder = RunRecorder(run, store, journal, show)
        outcome = recorder.outcome
        outcome.status = "failed"
        try:
            yield recorder
            outcome.status = "failed" if outcome.failures else "done"
        except KeyboardInterrupt:
            outcome.status = "interrupted"
            raise KeyboardInterrupt(f"run {run.run_id} keeps {counted(outcome.trials, 'trial')}") from None
        except (OSError, InputError) as error:
            if not run.is_stored():
                raise _store_lost(outcome) from error
            if isinstance(error, OSError):  # of this machine: failures on hosts are HostErrors
                raise _write_failure(error, run) from error
            raise
        finally:
            write_error = _finish(recorder) if run.is_stored() else None
            ended = f"{counted(outcome.trials, 'trial')}, {len(outcome.failures)} failed"
            logger.info("run %s: %s: %s", run.run_id, outcome.status, ended)
        # Not reached where an earlier error was raised: that one is the cause.
        if not run.is_stored():
            raise _store_lost(outcome)
        if write_error is not None:
            raise _write_failure(write_error, run) from write_error


def _finish(recorder: RunRecorder) -> OSError | None:
    """Merge and judge the stored trials, and record the end of the run; return an error of the store."""
    run, outcome = recorder.run, recorder.outcome
    try:
        recorder.write_host_facts()
        recorder.tables.merge()
        judge_stored_run(recorder.store, run)
        run.finish(outcome.status)
        ended = RunEnded(status=outcome.status, trials=outcome.trials, failed=len(outcome.failures))
        recorder.journal.append(ended)
        write_checksums(recorder.store, run)
    except OSError as error:
        return error
    return None


def _store_lost(outcome: RunOutcome) -> BenchkitError:
    is_restored = not (outcome.not_restored or outcome.restore_unconfirmed)
    return BenchkitError(
        "the run stopped: its folder in the store was deleted or moved",
        where=str(outcome.run.path),
        why="later trials could not be stored" + ("; services are stopped and hosts restored" if is_restored else ""),
        hint=f"put the folder back and resume the run with `benchkit run --resume {outcome.run.run_id}`, or start a new run",
    )


def _write_failure(error: OSError, run: RunFolder) -> BenchkitError:
    return BenchkitError(
        f"cannot write {error.filename or run.path}",
        why=error.strerror,
        hint=f"finished trials are stored; fix this, then resume the run with `benchkit run --resume {run.run_id}`",
    )
