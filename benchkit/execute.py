"""A run from its first step to its last: hosts tuned, stacks deployed, trials in order, everything put back."""

from __future__ import annotations

import platform
import secrets
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from benchkit import __version__
from benchkit.analysis.adaptive import StopDecision, rule_of
from benchkit.analysis.samples import Exclusion
from benchkit.course import Course
from benchkit.errors import BenchkitError, HostError, InputError, ParseError
from benchkit.hosts.connect import Hosts
from benchkit.hosts.facts import SYSCTLS
from benchkit.hosts.files import Placed
from benchkit.hosts.host import Host
from benchkit.judge import Judge, judge_stored, rows_of
from benchkit.load.registry import get_tool
from benchkit.load.tool import Reading
from benchkit.models.run import CellRecord, HostRecord, Manifest, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.pipeline import Watcher, run_trial
from benchkit.planning.plan import RunPlan
from benchkit.planning.tuning import nofile_on
from benchkit.results.journal import Journal
from benchkit.results.reparse import RawFile, read_generators, read_trial, trial_tables
from benchkit.results.rows import Row, factor_rows, host_rows
from benchkit.results.store import TRIAL_ENDED, RunFolder, Store
from benchkit.results.tables import RunTables
from benchkit.scenario.schedule import Slot
from benchkit.stack import deploy
from benchkit.stack.backend import File
from benchkit.trial.state import trial_of
from benchkit.tune import tuned
from benchkit.units import counted


@dataclass
class Outcome:
    """How a run ended."""

    run: RunFolder
    status: RunStatus = "running"
    trials: int = 0
    failures: dict[str, str] = field(default_factory=dict)
    """Why a trial failed, by its id."""


def execute(plan: RunPlan, hosts: Hosts, store: Store, watcher: Watcher) -> Outcome:
    """Carry out a plan and store what comes of it.

    A failed trial is recorded and the run goes on. Raises HostError where a host is lost or lacks something, or a stack
    cannot be deployed; KeyboardInterrupt passes through. Whatever is raised, services are stopped, hosts put back, and
    what finished is stored.
    """
    for obstacle in plan.obstacles:
        raise obstacle
    manifest = manifest_of(plan, hosts)
    outcome = Outcome(store.create(manifest))
    tables = RunTables(store, plan.experiment.scenario.name, manifest.run_id)
    with outcome.run.journal() as journal, _closing(outcome, store, tables, journal):
        book = Book(outcome, tables, journal, Judge(manifest))
        journal.append("run-started", run_id=manifest.run_id, seed=plan.seed, trials=len(plan.slots))
        tables.add("factors", "factors", factor_rows(manifest.cells))
        for host in manifest.hosts:
            book.facts(host.name, host.roles, "start", host.facts)
        with tuned(plan, hosts, journal) as became:
            if plan.tuning:
                _sysctls(plan, hosts, "tuned", book, became)
            watcher.stage("building and deploying")
            _deploy(plan, hosts, journal)
            course = Course(plan.slots, rule_of(manifest))
            for slot in course:
                watcher.trial_started(slot)
                book.ground(plan, slot, hosts)
                began = time.monotonic()
                row = _carry_out(plan, slot, hosts, book, watcher)
                book.decision(course.ended(slot, row, time.monotonic() - began, book.exclusions))
            if course.early is not None:
                _end_early(outcome.run, course.early, watcher)
        if plan.tuning:
            _sysctls(plan, hosts, "restored", book)
        outcome.status = "failed" if outcome.failures else "done"
    return outcome


def _end_early(run: RunFolder, decision: StopDecision, watcher: Watcher) -> None:
    """Have the manifest say how many blocks there were in the end, and why."""
    manifest = run.manifest()
    said = f"Ended after {decision.blocks} of at most {manifest.blocks} blocks: {decision.reason}."
    run.write_manifest(manifest.model_copy(update={"blocks": decision.blocks, "notices": (*manifest.notices, said)}))
    watcher.stage(said)


def manifest_of(plan: RunPlan, hosts: Hosts) -> Manifest:
    """The manifest that a run of the plan begins with."""
    now = datetime.now(UTC)
    used = sorted({name for names in plan.roles.values() for name in names})
    return Manifest(
        run_id=f"r{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}",
        scenario=plan.experiment.document.data,
        scale=plan.experiment.scale,
        settings=plan.experiment.settings,
        seed=plan.seed,
        blocks=plan.blocks,
        cells=tuple(
            CellRecord(cell_id=cell.cell_id, levels=cell.cell.levels, unsupported=cell.unsupported)
            for cell in plan.cells
        ),
        hosts=tuple(HostRecord(name=name, roles=_roles(plan, name), facts=_facts(hosts[name])) for name in used),
        versions={"benchkit": __version__, "python": platform.python_version(), **_versions(hosts), **_built(plan)},
        thresholds=plan.experiment.scenario.thresholds.model_dump(),
        notices=plan.notices,
        started_at=now,
    )


def _facts(host: Host) -> dict[str, Any]:
    """What the host is, with the cap of its link where its inventory knows one."""
    cap = host.spec.link_bps
    return host.facts.model_dump(mode="json") | ({} if cap is None else {"link_bps": cap})


def _versions(hosts: Hosts) -> dict[str, str]:
    return {
        f"{host.name}.{program}": fact.version
        for host in hosts
        for program, fact in sorted(host.facts.programs.items())
        if fact.version is not None
    }


def _built(plan: RunPlan) -> dict[str, str]:
    """The versions of load tools that benchkit builds, in the place of those that hosts may have."""
    programs = [(each.host, get_tool(each.tool)) for cell in plan.cells for each in cell.generators]
    return {f"{host}.{tool.binary}": tool.program.version for host, tool in programs if tool.program is not None}


def _roles(plan: RunPlan, host: str) -> tuple[str, ...]:
    return tuple(role for role, names in plan.roles.items() if host in names)


@contextmanager
def _closing(outcome: Outcome, store: Store, tables: RunTables, journal: Journal) -> Iterator[None]:
    """Whatever happens: the tables joined, trials judged beside each other, manifest and journal saying how it ended."""
    status: RunStatus = "failed"
    try:
        yield
        status = outcome.status
    except KeyboardInterrupt:
        status = "interrupted"
        kept = counted(outcome.trials, "trial")
        raise KeyboardInterrupt(f"run {outcome.run.run_id} keeps {kept}") from None
    finally:
        outcome.status = status
        tables.join()
        judge_stored(store, outcome.run)
        outcome.run.finish(status)
        journal.append("run-ended", status=status, trials=outcome.trials, failed=len(outcome.failures))


class Book:
    """Where a run is written down: the journal, the tables, and what has come of it so far."""

    def __init__(self, outcome: Outcome, tables: RunTables, journal: Journal, judge: Judge) -> None:
        """Write to these, with the verdicts of this judge."""
        self.outcome = outcome
        self.tables = tables
        self.journal = journal
        self._judge = judge
        self._looked: set[int] = set()

    def facts(self, host: str, roles: tuple[str, ...], stage: str, facts: Mapping[str, Any]) -> None:
        """Write down what a host is at this stage of the run."""
        self.journal.append("host-facts", host=host, roles=roles, stage=stage, facts=facts)
        self.tables.add("hosts", f"{host}-{stage}", host_rows(host, roles, stage, facts))
        self._judge.learn(host, stage, facts)

    def ground(self, plan: RunPlan, slot: Slot, hosts: Hosts) -> None:
        """Before the first trial of a block: write down what figures hang on and somebody may have changed meanwhile."""
        if slot.block not in self._looked:
            self._looked.add(slot.block)
            for host in hosts:
                self.facts(host.name, _roles(plan, host.name), f"block {slot.block}", host.ground())

    def failure(self, trial_id: str, cell_id: str, error: BenchkitError) -> None:
        """Write down why a trial could not be carried out."""
        self.journal.append("trial-failed", trial_id=trial_id, cell_id=cell_id, why=str(error))
        self.outcome.failures[trial_id] = str(error)

    def trial(self, record: TrialRecord, reading: Reading, raw: RawFile) -> Row:
        """Write down a trial whose raw files are stored; its row of `trials`."""
        tables = self._judge.judged(record, trial_tables(record, reading, raw))
        for table, rows in tables.items():
            self.tables.add(table, record.trial_id, rows)
        self.journal.append(TRIAL_ENDED, trial_id=record.trial_id, cell_id=record.cell_id, wall_s=record.wall_s)
        self.outcome.trials += 1
        (row,) = rows_of(tables, "trials")
        return row

    @property
    def exclusions(self) -> tuple[Exclusion, ...]:
        """The trials so far that do not count."""
        return self._judge.exclusions

    def decision(self, decision: StopDecision | None) -> None:
        """Write down what was decided of the blocks to come, where anything was."""
        if decision is not None:
            said = decision.model_dump(
                mode="json", include={"stop", "reason", "blocks", "precision", "blocks_expected"}
            )
            self.journal.append("block-ended", **said)


def _sysctls(
    plan: RunPlan, hosts: Hosts, stage: str, book: Book, became: Mapping[str, Mapping[str, str]] | None = None
) -> None:
    """Write down the kernel settings that the tuning may have changed, and what became of each of its own."""
    for host in hosts:
        keys = {*SYSCTLS, *(s.key for planned in plan.tuning if planned.host == host.name for s in planned.settings)}
        found = host.changes.read(sorted(keys))
        facts: dict[str, Any] = {"sysctls": {key: s.value for key, s in found.items()}}
        if became is not None:
            facts |= {"tuning": became.get(host.name, {}), "nofile": nofile_on(host.name, plan.tuning)}
        book.facts(host.name, _roles(plan, host.name), stage, facts)


def _deploy(plan: RunPlan, hosts: Hosts, journal: Journal) -> None:
    for host, placed in place_programs(plan, hosts).items():
        journal.append("programs-placed", host=host, changed=placed.changed, sent_bytes=placed.sent_bytes)
    for cell in plan.cells:
        if cell.unsupported is None:
            for host, services in deploy.by_host(cell.services).items():
                placed = deploy.deploy(hosts[host], services)
                journal.append(
                    "deployed",
                    cell_id=cell.cell_id,
                    host=host,
                    changed=placed.changed,
                    sent_bytes=placed.sent_bytes,
                )


def place_programs(plan: RunPlan, hosts: Hosts) -> dict[str, Placed]:
    """Build what generators need, and have it stand on their hosts; what that took, by host.

    Raises HostError, or BenchkitError where a program does not build.
    """
    wanted: dict[str, list[File]] = {}
    for cell in plan.cells:
        for generator in cell.generators if cell.unsupported is None else ():
            mine = wanted.setdefault(generator.host, [])
            mine += [program for program in generator.programs if program not in mine]
    return {host: deploy.place(hosts[host], programs) for host, programs in wanted.items() if programs}


def _carry_out(plan: RunPlan, slot: Slot, hosts: Hosts, book: Book, watcher: Watcher) -> Row | None:
    """One trial, and its row of `trials`. A failure is written down, and ends the run only where a host is lost."""
    run = book.outcome.run
    trial = trial_of(plan, slot, run.run_id, hosts)
    where = {"trial_id": trial.trial_id, "cell_id": slot.cell_id}
    book.journal.append("trial-started", **where, block=slot.block, position=slot.position)
    try:
        record, reading = _read(run_trial(trial), trial.files, run)
    except (HostError, InputError) as error:
        book.failure(trial.trial_id, slot.cell_id, error)
        watcher.trial_failed(slot, str(error))
        for host in hosts:
            host.compare_clocks()  # raises where the link is dead: then there is nothing to go on with
        return None
    row = book.trial(record, reading, trial.files.__getitem__)
    watcher.trial_ended(slot, reading.result.rps, row["verdict"])
    return row


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
