"""Verification of stored runs: damaged files, and the repair of a journal."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchkit.errors import InputError, ParseError
from benchkit.models.rows import TABLES, TrialRow
from benchkit.models.run import Manifest
from benchkit.models.trial import TrialRecord
from benchkit.store.checksums import changed_files, read_checksums
from benchkit.store.durable_files import write_atomically
from benchkit.store.journal import (
    BlockInterrupted,
    HostFactsRead,
    JournalEvent,
    RunEnded,
    TrialEnded,
    TrialStarted,
    journal_content,
    read_journal,
    read_undamaged_lines,
)
from benchkit.store.layout import irregular_entries
from benchkit.store.parquet_files import arrow_schema, read_parquet
from benchkit.store.progress import read_progress
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store
from benchkit.store.tables import RunTables, unknown_cells
from benchkit.store.trial_tables import read_output
from benchkit.units import first_of

SHOWN = 3
"""Trials that a damage names."""

_LINK_ADVICE = "a run has no symbolic links and devices, and is not published with one: put the file itself there"


@dataclass(frozen=True)
class Damage:
    """A damaged file of a run."""

    file: str
    """Path from the folder of the store."""
    what: str
    """The damage, as a predicate: `is missing`."""
    is_repairable: bool
    """True for what raw files can give: the journal and the tables."""
    advice: str = "nothing else has its content: restore it from a backup"
    """Advice on damage that is not repairable."""


@dataclass(frozen=True)
class RunVerification:
    """The result of verifying a run."""

    damages: tuple[Damage, ...]
    checksums: int | None
    """Number of checksums verified; None for a run without, which never ended."""


def verify_run(store: Store, run: RunFolder) -> RunVerification:
    """Verify the checksums of a run, and that manifest, journal, records and tables can be read and fit together."""
    damages: dict[str, Damage] = {}
    checksums = None
    try:
        checksums = read_checksums(store, run)
        for path, what in changed_files(store, checksums or {}).items():
            damages[path] = Damage(path, what, _is_repairable(store, run, path))
    except InputError as error:
        damages["checksums"] = Damage(_relative(store, run.path), str(error.what), is_repairable=False)
    for path in irregular_entries(store.path, run.run_id):
        damages[path] = Damage(path, "is not a file", is_repairable=False, advice=_LINK_ADVICE)
    for found in _unreadable(store, run):
        damages.setdefault(found.file, found)
    if all(damage.is_repairable or "/raw/" in damage.file for damage in damages.values()):
        for found in _misfits(store, run, damages):
            damages.setdefault(found.file, found)
    return RunVerification(tuple(damages.values()), None if checksums is None else len(checksums))


def restore_journal(run: RunFolder) -> None:
    """Restore what the journal lacks from manifest and raw files.

    The run must be locked. Damaged lines are removed; the journal as it was stays beside it, as
    `journal.damaged.jsonl`.
    """
    manifest = run.manifest()
    if run.journal_file.exists():
        content = journal_content(run.journal_file)
        undamaged = read_undamaged_lines(content)
        if undamaged != content:
            write_atomically(run.path / "journal.damaged.jsonl", content)
            write_atomically(run.journal_file, undamaged)
    lost = list(_lost_events(run, manifest))
    with run.journal() as journal:
        for event in lost:
            journal.append(event)


def _lost_events(run: RunFolder, manifest: Manifest) -> Iterator[JournalEvent]:
    """Yield the events that the journal lacks although manifest and raw files show that they happened."""
    history = list(run.history())
    progress = read_progress(history)
    for host in manifest.hosts:
        if host.name not in progress.known_hosts:
            yield HostFactsRead(host=host.name, roles=host.roles, stage="start", facts=host.facts)
    records = list(_readable_records(run))
    for record in records:
        if record.trial_id not in progress.ended and record.trial_id not in progress.failed and _ended(run, record):
            if record.trial_id not in progress.positions:
                yield TrialStarted(
                    trial_id=record.trial_id,
                    cell_id=record.cell_id,
                    block=record.block,
                    round=record.round,
                    position=record.position,
                    attempt=record.attempt,
                )
            yield TrialEnded(trial_id=record.trial_id, cell_id=record.cell_id, wall_s=record.wall_s)
    rounds: dict[int, int] = {}
    for record in records:
        rounds[record.block] = max(record.round, rounds.get(record.block, 1))
    for block, latest in rounds.items():
        if latest > progress.rounds.get(block, 1):
            trials = (each.trial_id for each in records if each.block == block and each.round < latest)
            yield BlockInterrupted(block=block, round=latest, trials=tuple(trials))
    if manifest.status != "running" and progress.status is None:
        yield RunEnded(status=manifest.status)


def _readable_records(run: RunFolder) -> Iterator[TrialRecord]:
    """Yield the records of trials with complete raw files; damaged ones are named by `_unreadable`."""
    for trial_id in run.complete_trials():
        try:
            yield run.record(trial_id)
        except InputError:
            continue


def _ended(run: RunFolder, record: TrialRecord) -> bool:
    """Return True if a trial ended well: the output of its generators can be read."""
    try:
        read_output(record, partial(run.raw_file, record.trial_id))
    except ParseError:
        return False
    except InputError:  # a damaged file: the trial ended, as its record says
        return True
    return True


def _unreadable(store: Store, run: RunFolder) -> Iterator[Damage]:
    """Yield what is damaged by its content, also where there are no checksums."""
    manifest_path = _relative(store, run.manifest_file)
    try:
        manifest = run.manifest()
        tables = RunTables(store, manifest.scenario_name, run.run_id)
        folders = {table: tables.folder(table) for table in TABLES}
    except InputError as error:
        yield Damage(manifest_path, _sentence(error), is_repairable=False)
        return
    yield from _unreadable_journal(store, run, manifest)
    for trial_id in run.complete_trials():
        for path, damage in _unreadable_raw_files(run, trial_id):
            yield Damage(_relative(store, path), _sentence(damage), is_repairable=False)
    for table, folder in folders.items():
        for path in sorted(folder.glob("*.parquet")):
            try:
                read_parquet(path, arrow_schema(table))
            except InputError as error:
                yield Damage(_relative(store, path), _sentence(error), is_repairable=True)


def _unreadable_journal(store: Store, run: RunFolder, manifest: Manifest) -> Iterator[Damage]:
    path = _relative(store, run.journal_file)
    try:
        history = list(read_journal(run.journal_file)) if run.journal_file.exists() else []
    except InputError as error:
        yield Damage(path, _sentence(error), is_repairable=True)
        return
    progress = read_progress(history)
    lost = [trial for trial in run.complete_trials() if trial not in progress.positions.keys() | progress.ended.keys()]
    if lost:
        yield Damage(path, f"lacks trials whose raw files are stored: {first_of(lost, SHOWN)}", is_repairable=True)
    elif manifest.status != "running" and progress.status is None:
        yield Damage(path, f"lacks the end of the run, whose status is {manifest.status}", is_repairable=True)


def _unreadable_raw_files(run: RunFolder, trial_id: str) -> Iterator[tuple[Path, InputError]]:
    folder = run.raw(trial_id)
    try:
        record = run.record(trial_id)
    except InputError as error:
        yield folder / "trial.json", error
        return
    names = [*record.output_files]
    names += [watch.file for watch in record.watched]
    names += [profile.file for profile in record.profiles if profile.file is not None]
    for name in names:
        try:
            run.raw_file(trial_id, name)
        except InputError as error:
            yield folder / name, error


def _misfits(store: Store, run: RunFolder, damaged_files: Collection[str]) -> Iterator[Damage]:
    """Yield the manifest where it lacks cells of the table `trials`, and the table where it lacks undamaged trials."""
    manifest = run.manifest()
    tables = RunTables(store, manifest.scenario_name, run.run_id)
    damaged = {path.split("/")[3] for path in damaged_files if path.startswith(f"runs/{run.run_id}/raw/")}
    try:
        ended = read_progress(run.history()).ended
        rows = tables.rows(TrialRow.TABLE)
        stored = set(rows["trial_id"].to_pylist())
    except InputError:  # found above
        return
    if unknown := unknown_cells(manifest, rows["cell_id"].to_pylist()):
        yield Damage(
            _relative(store, run.manifest_file), f"lacks the cell {unknown[0]} of its tables", is_repairable=False
        )
    lost = sorted(set(ended) & set(run.complete_trials()) - stored - damaged)
    if lost:
        path = _relative(store, tables.folder(TrialRow.TABLE) / f"{TrialRow.TABLE}.parquet")
        yield Damage(path, f"lacks the rows of {first_of(lost, SHOWN)}", is_repairable=True)


def _is_repairable(store: Store, run: RunFolder, path: str) -> bool:
    """Return True for the journal and the tables, which can be rebuilt from raw files."""
    file = store.path / path
    return file == run.journal_file or not file.is_relative_to(run.path)


def _relative(store: Store, path: Path) -> str:
    return path.relative_to(store.path).as_posix()


def _sentence(error: InputError) -> str:
    return ": ".join(filter(None, (error.what, error.why)))
