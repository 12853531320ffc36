"""Where a run is written down: the journal, the tables, and what has come of it so far."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchkit.analysis.adaptive import StopDecision
from benchkit.analysis.samples import Exclusion
from benchkit.errors import BenchkitError
from benchkit.hosts.connections import Hosts, RestoreOutcome
from benchkit.hosts.host import Host
from benchkit.hosts.host_changes import Leftovers
from benchkit.load.tools.tool import ParsedOutput
from benchkit.models.run import Manifest, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.results.journal import Journal
from benchkit.results.progress import (
    BLOCK_INTERRUPTED,
    TRIAL_ENDED,
    TRIAL_FAILED,
    TRIAL_SKIPPED,
    TRIAL_STARTED,
    Progress,
)
from benchkit.results.reparse import RawFile, build_trial_tables
from benchkit.results.rows import Row, factor_rows, host_rows
from benchkit.results.store import RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.run.judge import Judge, judge_stored_run, rows_of
from benchkit.run.manifest import roles_of
from benchkit.run.plan.model import RunPlan
from benchkit.scenario.trial_order import PlannedTrial
from benchkit.units import counted


@dataclass
class RunOutcome:
    """How a run ended."""

    run: RunFolder
    status: RunStatus = "running"
    trials: int = 0
    """Those that ended, but for those of blocks that were run again."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why a trial failed or was left out, by its id."""
    retries: dict[str, list[str]] = field(default_factory=dict)
    """Why a trial was tried again, each time, by its id."""
    not_restored: dict[str, str] = field(default_factory=dict)
    """Hosts that could not be put back, and why; the records are kept there."""
    restore_unconfirmed: dict[str, str] = field(default_factory=dict)
    """Hosts that were lost before they were seen to be put back, and how: their guardians do it."""

    def count(self, progress: Progress) -> None:
        """Take over what had come of the run before it was taken up again."""
        self.trials = len(progress.ended.keys() - progress.interrupted)
        self.failures = {trial: why for trial, why in progress.failed.items() if trial not in progress.interrupted}
        self.retries = {trial: list(whys) for trial, whys in progress.retries.items()}

    def part(self, parting: RestoreOutcome) -> None:
        """Take in how the hosts were left at the very end, when their agents have tried once more."""
        tried_in_vain = {host: why for host, why in self.not_restored.items() if host in parting.unseen}
        self.not_restored = {**tried_in_vain, **parting.not_restored}
        self.restore_unconfirmed.update(parting.unseen)


class RunRecorder:
    """Where a run is written down: the journal, the tables, and what has come of it so far."""

    def __init__(self, outcome: RunOutcome, tables: RunTables, journal: Journal, judge: Judge) -> None:
        """Write to these, with the verdicts of this judge."""
        self.outcome = outcome
        self.tables = tables
        self.journal = journal
        self.judge = judge
        self._looked: set[tuple[int, int]] = set()

    def begin(self, manifest: Manifest, planned_trials: Sequence[PlannedTrial], order: str, past: Progress) -> None:
        """Write down what a run begins with, as far as that is not written down yet."""
        if past.order_hash is None:
            self.journal.append(
                "run-started", run_id=manifest.run_id, seed=manifest.seed, trials=len(planned_trials), order=order
            )
        self.tables.add("factors", "factors", factor_rows(manifest.cells))
        for host in manifest.hosts:
            if host.name not in past.known_hosts:
                self.facts(host.name, host.roles, "start", host.facts)

    def facts(self, host: str, roles: tuple[str, ...], stage: str, facts: Mapping[str, Any]) -> None:
        """Write down what a host is at this stage of the run."""
        self.journal.append("host-facts", host=host, roles=roles, stage=stage, facts=facts)
        self.tables.add("hosts", f"{host}-{stage}", host_rows(host, roles, stage, facts))
        self.judge.learn(host, stage, facts)

    def block(self, plan: RunPlan, planned_trial: PlannedTrial, hosts: Hosts) -> None:
        """Before the first trial of a block: write down the ground on which it runs."""
        if (planned_trial.block, planned_trial.round) not in self._looked:
            for host in hosts:
                self.ground(plan, host, f"block {planned_trial.block}")
            self._looked.add((planned_trial.block, planned_trial.round))

    def ground(self, plan: RunPlan, host: Host, stage: str) -> None:
        """Write down what figures hang on and somebody may have changed meanwhile. Raises HostError."""
        tuned = {each.key for one in plan.tuning if one.host == host.name for each in one.settings}
        self.facts(host.name, roles_of(plan, host.name), stage, host.ground(tuned, _programs(plan, host)))

    def found(self, host: str, found: Leftovers) -> None:
        """Write down what an earlier run has left on a host: put back behind it, or put back now."""
        for report in found.reports:
            self.journal.append("put-back", host=host, by="guardian", at_s=report.at.timestamp(), text=str(report))
        for each in found.undone:
            self.journal.append("put-back", host=host, by="run", text=each.text, how=each.how)

    def lost(self, host: str, why: str) -> None:
        """Write down that a host is given up."""
        self.journal.append("host-lost", host=host, why=why)
        self.outcome.restore_unconfirmed[host] = why

    def notice(self, text: str) -> None:
        """Have the manifest say something of the run that its readers should know."""
        manifest = self.outcome.run.manifest()
        self.outcome.run.write_manifest(manifest.model_copy(update={"notices": (*manifest.notices, text)}))

    def started(self, trial_id: str, planned_trial: PlannedTrial, attempt: int) -> None:
        """Write down that a trial begins."""
        self.journal.append(TRIAL_STARTED, trial_id=trial_id, **_place(planned_trial), attempt=attempt)

    def failure(self, trial_id: str, cell_id: str, error: BenchkitError, *, again: bool = False) -> None:
        """Write down why a trial could not be carried out, and whether it is tried again."""
        self.journal.append(TRIAL_FAILED, trial_id=trial_id, cell_id=cell_id, why=str(error), again=again)
        if again:
            self.outcome.retries.setdefault(trial_id, []).append(str(error))
        else:
            self.outcome.failures[trial_id] = str(error)

    def skipped(self, trial_id: str, planned_trial: PlannedTrial, why: str) -> None:
        """Write down why a trial is left out for now."""
        self.journal.append(TRIAL_SKIPPED, trial_id=trial_id, **_place(planned_trial), why=why)
        self.outcome.failures[trial_id] = why

    def split(self, block: int, round_: int, trials: Iterable[str]) -> None:
        """Write down that a block was cut by a pause, and that it is run again as this round."""
        cut = sorted(trials)
        self.journal.append(BLOCK_INTERRUPTED, block=block, round=round_, trials=cut)
        if cut:
            self.tables.mark_split(cut)
        failed = [trial for trial in cut if self.outcome.failures.pop(trial, None) is not None]
        self.outcome.trials -= len(cut) - len(failed)

    def trial(self, record: TrialRecord, reading: ParsedOutput, raw: RawFile) -> Row:
        """Write down a trial whose raw files are stored; its row of `trials`."""
        tables = self.judge.judged(record, build_trial_tables(record, reading, raw))
        for table, rows in tables.items():
            self.tables.add(table, record.trial_id, rows)
        self.journal.append(TRIAL_ENDED, trial_id=record.trial_id, cell_id=record.cell_id, wall_s=record.wall_s)
        self.outcome.trials += 1
        (row,) = rows_of(tables, "trials")
        return row

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """The trials so far that do not count."""
        return self.judge.exclusions

    def decision(self, decision: StopDecision | None) -> None:
        """Write down what was decided of the blocks to come, where anything was."""
        if decision is not None:
            said = decision.model_dump(
                mode="json", include={"stop", "reason", "blocks", "precision", "blocks_expected"}
            )
            self.journal.append("block-ended", **said)


def _place(planned_trial: PlannedTrial) -> dict[str, Any]:
    return {
        "cell_id": planned_trial.cell_id,
        "block": planned_trial.block,
        "round": planned_trial.round,
        "position": planned_trial.position,
    }


def _programs(plan: RunPlan, host: Host) -> dict[str, str]:
    """The programs of the host's own that the run starts there, name → path; nobody upgrades what benchkit brings."""
    started = {
        word
        for cell in plan.cells
        for where, argv in (
            *((service.host, service.process.argv) for service in cell.services),
            *((generator.host, generator.argv) for generator in cell.generators),
        )
        if where == host.name
        for word in argv
    }
    known = host.facts.programs.items()
    return {name: fact.path for name, fact in known if not started.isdisjoint((name, fact.path))}


@contextmanager
def closing(outcome: RunOutcome, store: Store, tables: RunTables, journal: Journal) -> Iterator[None]:
    """Whatever happens: the tables joined, trials judged beside each other, manifest and journal saying how it ended.

    Raises BenchkitError where the store cannot be written, saying how to go on.
    """
    status: RunStatus = "failed"
    unwritten: list[OSError] = []
    try:
        yield
        status = outcome.status
    except KeyboardInterrupt:
        status = "interrupted"
        kept = counted(outcome.trials, "trial")
        again = f"`benchkit run --resume {outcome.run.run_id}` goes on"
        raise KeyboardInterrupt(f"run {outcome.run.run_id} keeps {kept}; {again}") from None
    except OSError as error:  # of this machine: what goes wrong on hosts is a HostError
        raise _unwritable(error, outcome.run) from error
    finally:
        outcome.status = status
        ended = {"status": status, "trials": outcome.trials, "failed": len(outcome.failures)}
        last: tuple[Callable[[], object], ...] = (
            tables.join,
            lambda: judge_stored_run(store, outcome.run),
            lambda: outcome.run.finish(status),
            lambda: journal.append("run-ended", **ended),
        )
        for step in last:
            try:
                step()
            except OSError as error:
                unwritten.append(error)
    for failure in unwritten:  # not reached where something was raised before: that is the cause then
        raise _unwritable(failure, outcome.run) from failure


def _unwritable(error: OSError, run: RunFolder) -> BenchkitError:
    return BenchkitError(
        f"cannot write {error.filename or run.path}",
        why=error.strerror,
        hint=f"what finished is stored; when that is mended, `benchkit run --resume {run.run_id}` goes on",
    )
