"""All tables of a run, rebuilt from its raw files alone; where these are damaged, undamaged rows stay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from benchkit.errors import InputError, ParseError
from benchkit.models.rows import FactorRow, HostRow, TrialRow
from benchkit.models.run import Manifest
from benchkit.models.trial import TrialRecord
from benchkit.run.judge import Judge, judge_together
from benchkit.store.checksums import damaged_trials, update_checksums
from benchkit.store.journal import HostFactsRead, JournalEvent, TrialEnded
from benchkit.store.parquet_files import Rows, concat_rows
from benchkit.store.progress import RunProgress, read_progress
from benchkit.store.row_builders import INTERRUPTED, factor_rows, host_rows, host_rows_of
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables
from benchkit.store.trial_tables import TRIAL_TABLES, TrialTables, build_trial_tables, read_output


@dataclass(frozen=True)
class RebuiltRun:
    """The result of rebuilding the tables of a run."""

    trials: int
    """Number of trials whose rows were built from raw files."""
    damaged: Mapping[str, InputError]
    """Trials whose raw files are damaged, each with the damage; their undamaged rows stay as they were."""


def rebuild_run(store: Store, run: RunFolder) -> int:
    """Rebuild all tables of a run that no other process writes to; return the number of its trials.

    Raises InputError, and replaces nothing, where raw files are damaged.
    """
    with run.locked():
        return rebuild_tables(store, run).trials


def rebuild_tables(
    store: Store, run: RunFolder, judge: Judge | None = None, *, keep_damaged: bool = False
) -> RebuiltRun:
    """Rebuild all tables of a run from its raw files alone, verdicts included. The run must be locked.

    All trials with complete raw files are read, whatever the journal says of them, except those that failed. Readers
    see the old tables until all trials are judged. A given `judge` judges all of the trials.

    Raises InputError, and replaces nothing, where raw files are missing or damaged; with `keep_damaged`, the rows of
    such trials stay as they are.
    """
    manifest = run.manifest()
    judge = judge or Judge(manifest)
    tables = RunTables(store, manifest.scenario_name, run.run_id)
    history = list(run.history())
    for event in history:
        if isinstance(event, HostFactsRead):
            judge.add_host_facts(event.host, event.stage, event.facts)
    built, damaged = _read_raw_files(store, run, history, tables, judge)
    if damaged and not keep_damaged:
        raise next(iter(damaged.values()))
    content = {table: concat_rows(table, *(trial[table] for trial in built)) for table in TRIAL_TABLES}
    if damaged:
        ids = pa.array(damaged, pa.string())
        for table in TRIAL_TABLES:
            if (rows := _stored_rows(tables, table)) is not None:
                content[table] = concat_rows(table, content[table], rows.filter(pc.is_in(rows["trial_id"], ids)))
    content[HostRow.TABLE] = _host_rows(manifest, history, _stored_rows(tables, HostRow.TABLE))
    content |= judge_together(manifest, content, run)
    tables.replace(FactorRow.TABLE, factor_rows(manifest.cells))
    for table in sorted(content, key=lambda table: table == TrialRow.TABLE):  # verdicts of trials last
        tables.replace(table, content[table])
    update_checksums(store, run)
    return RebuiltRun(len(built), damaged)


def _read_raw_files(
    store: Store, run: RunFolder, history: Sequence[JournalEvent], tables: RunTables, judge: Judge
) -> tuple[list[Mapping[str, Rows]], dict[str, InputError]]:
    """Return the rows of each trial by table, and the trials that cannot be read, each with the damage."""
    progress = read_progress(history)
    trials = _stored_rows(tables, TrialRow.TABLE)
    stored_ids = [] if trials is None else trials["trial_id"].to_pylist()
    ended = [event.trial_id for event in history if isinstance(event, TrialEnded)]
    complete = [trial_id for trial_id in run.complete_trials() if trial_id not in progress.failed]
    damaged: dict[str, InputError] = {}
    altered = damaged_trials(store, run)
    records: dict[str, TrialRecord] = {}
    for trial_id in dict.fromkeys((*ended, *complete, *stored_ids)):
        try:
            if trial_id in altered:
                raise altered[trial_id]
            records[trial_id] = run.record(trial_id)
        except InputError as error:
            damaged[trial_id] = error
    interrupted = _interrupted_trials(progress, records.values(), trials)
    built = []
    for trial_id, record in records.items():
        try:
            rows = _read_trial(run, record, interrupted=trial_id in interrupted)
        except InputError as error:
            # The output of a failed trial cannot be read either, and an incomplete journal may lack its failure.
            if trial_id in ended or trial_id in stored_ids or not isinstance(error, ParseError):
                damaged[trial_id] = error
        else:
            built.append(judge.add_verdict(record, rows).by_table())
    return built, damaged


def _interrupted_trials(
    progress: RunProgress, records: Iterable[TrialRecord], stored_trials: pa.Table | None
) -> frozenset[str]:
    """Return the trials of interrupted blocks: by the journal, a later round of their block, or the stored rows."""
    records = list(records)
    rounds = dict(progress.rounds)
    for record in records:
        rounds[record.block] = max(record.round, rounds.get(record.block, 1))
    earlier = {record.trial_id for record in records if record.round < rounds[record.block]}
    marked: set[str] = set()
    if stored_trials is not None:
        marked = set(stored_trials.filter(pc.equal(stored_trials["kind"], INTERRUPTED))["trial_id"].to_pylist())
    return frozenset(progress.interrupted | earlier | marked)


def _host_rows(manifest: Manifest, history: Iterable[JournalEvent], stored: pa.Table | None) -> pa.Table:
    """Return the rows of `hosts` by journal and manifest; of stages that a damaged journal lacks, the stored rows."""
    history = list(history)
    rows = host_rows_of(history)
    known = {(event.host, event.stage) for event in history if isinstance(event, HostFactsRead)}
    for host in manifest.hosts:
        if (host.name, "start") not in known:
            rows += host_rows(host.name, host.roles, "start", host.facts)
            known.add((host.name, "start"))
    parts: list[Rows] = [rows]
    if stored is not None:
        stages = zip(stored["host"].to_pylist(), stored["at"].to_pylist(), strict=True)
        parts.append(stored.filter(pa.array([stage not in known for stage in stages], pa.bool_())))
    return concat_rows(HostRow.TABLE, *parts)


def _stored_rows(tables: RunTables, table: str) -> pa.Table | None:
    """Return the stored rows of a table; None where a file of it is damaged."""
    try:
        return tables.rows(table)
    except InputError:
        return None


def _read_trial(run: RunFolder, record: TrialRecord, *, interrupted: bool) -> TrialTables:
    raw = partial(run.raw_file, record.trial_id)
    try:
        return build_trial_tables(record, read_output(record, raw), raw, interrupted=interrupted)
    except ParseError as error:
        names = ", ".join(record.output_files)
        raise ParseError(
            error.what,
            where=f"{run.raw(record.trial_id)} ({names})",
            why=error.why,
            hint=f"restore these raw files from a backup; `benchkit results check {run.run_id} --repair` rebuilds the tables "
            "of the other trials and keeps the rows of this one",
        ) from None
