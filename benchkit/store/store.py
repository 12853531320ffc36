"""The store: the only module that knows its layout of files.

    runs/<run_id>/manifest.json, journal.jsonl, run.log, raw/<trial_id>/…
    tables/<table>/scenario=<name>/run_id=<id>/*.parquet
    compact/<table>.parquet                                copies, see `benchkit.store.tables`
    compact/history/<scenario>/<metric>.jsonl              estimates of runs, see `benchkit.run_history.estimates`

A file or a trial's folder appears complete or not at all: it is written under another name, synced, then renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from benchkit.errors import BenchkitError, InputError
from benchkit.files import read_regular
from benchkit.models.base import Name
from benchkit.models.run import Manifest, RunId, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.safe_text import redacted_bytes
from benchkit.store.durable_files import (
    BY_UMASK,
    PARTIAL,
    PRIVATE,
    compress,
    decompress,
    is_locked,
    make_folders,
    sync_folder,
    try_lock,
    write_atomically,
    write_synced,
)
from benchkit.store.journal import Journal, JournalEvent, TrialEnded, read_journal
from benchkit.store.parquet_files import current_files, refuse_newer
from benchkit.store.remote_files import is_url
from benchkit.store.run_files import JOURNAL, LOCK, LOG, MANIFEST, REPORT, table_folders
from benchkit.validation import first_fault, is_valid_name

ENVIRONMENT = "BENCHKIT_STORE"
DEFAULT = Path("results")

LARGE_BYTES = 64 << 10
"""Size above which raw files are compressed."""

COMPRESSED = ".zst"
"""Suffix of raw files that benchkit compressed."""
_PACKED = ".gz"
"""Suffix of files that are compressed already and stay so: profiles, which their own tools read in this form."""
RECORD = "trial.json"
"""Name of the record among the raw files of a trial."""

Part = tuple[str, str]
"""A run's part of a table: (scenario, run_id)."""


def store_path(option: str | Path | None = None) -> Path:
    """Return the folder to store in: the option, else BENCHKIT_STORE, else ./results.

    Raises InputError if it is no folder: a store below a URL is only read (`benchkit.store.store_choice`).
    """
    text = str(option or os.environ.get(ENVIRONMENT) or DEFAULT)
    if is_url(text):
        raise InputError(
            "this needs a store that is a folder: one below a URL is only read",
            where=text,
            hint="name a folder with --store; `benchkit results push` publishes its runs, `pull` fetches them",
        )
    path = Path(text)
    if path.exists() and not path.is_dir():
        raise InputError(
            "the store is not a folder", where=str(path), hint="name a folder with --store or BENCHKIT_STORE"
        )
    return path


def existing_store(option: str | Path | None = None) -> Path:
    """Return the folder to use, which must exist. Raises InputError if there is none."""
    path = store_path(option)
    if not path.is_dir():
        raise InputError(
            "there is no store here",
            where=str(path),
            hint="`benchkit run` creates one; --store or BENCHKIT_STORE names another",
        )
    return path


class _Versioned(BaseModel):
    """The part of a manifest that all versions share: read first, so that a newer version is recognised."""

    schema_version: int


class RunFolder:
    """The folder of one run: its manifest, its journal and the raw files of its trials."""

    def __init__(self, path: Path) -> None:
        """Use the existing folder at `path`."""
        self.path = path

    @property
    def run_id(self) -> str:
        """Id of the run."""
        return self.path.name

    @property
    def location(self) -> str:
        """Folder or URL of the run, as messages name it."""
        return str(self.path)

    @property
    def report(self) -> Path:
        """Default folder of the report of the run."""
        return self.path / REPORT

    @property
    def manifest_file(self) -> Path:
        """File with the manifest."""
        return self.path / MANIFEST

    @property
    def journal_file(self) -> Path:
        """File with the journal, which is missing before the first step."""
        return self.path / JOURNAL

    @property
    def log(self) -> Path:
        """Log file of the run, which may be missing."""
        return self.path / LOG

    def manifest(self) -> Manifest:
        """Read the manifest. Raises InputError if it cannot be read, is damaged, or was written by a newer benchkit."""
        path = self.manifest_file
        try:
            text = read_regular(path)
        except OSError as error:
            raise InputError(
                "cannot read the manifest of the run",
                where=str(path),
                why=error.strerror,
                hint="`benchkit results list` shows the runs of the store",
            ) from None
        try:
            refuse_newer(_Versioned.model_validate_json(text).schema_version, str(path))
            manifest = Manifest.model_validate_json(text)
        except ValidationError as error:
            raise InputError(
                "the manifest of the run is damaged",
                where=str(path),
                why=first_fault(error, Manifest),
                hint=f"restore the file from a backup, or remove the run: `benchkit results rm {self.run_id}`",
            ) from None
        if manifest.run_id != self.run_id:
            raise InputError(
                f"the manifest is that of another run, {manifest.run_id}",
                where=str(path),
                why="the folder of a run has its id as name",
                hint="give the folder its name back, or restore the file from a backup",
            )
        return manifest

    def is_stored(self) -> bool:
        """Return True if the folder is in its place, with the journal that every started run has."""
        return self.journal_file.exists()

    def journal(self) -> Journal:
        """Open the journal for appending."""
        return Journal(self.journal_file)

    def history(self) -> Iterator[JournalEvent]:
        """Iterate over the events of the journal; there are none if the run ended before its first step."""
        return read_journal(self.journal_file) if self.journal_file.exists() else iter(())

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        write_atomically(self.manifest_file, manifest.model_dump_json(indent=2).encode() + b"\n", PRIVATE)

    def finish(self, status: RunStatus) -> Manifest:
        """Record in the manifest when and with which status the run ended."""
        manifest = self.manifest().model_copy(update={"status": status, "ended_at": datetime.now(UTC)})
        self.write_manifest(manifest)
        return manifest

    def commit_trial(self, record: TrialRecord, files: Mapping[str, bytes]) -> None:
        """Store the record and the raw files of a trial, all of them or none."""
        self._commit(record.trial_id, {**files, RECORD: record.model_dump_json(indent=2).encode() + b"\n"})

    def commit_failed_trial(self, trial_id: str, files: Mapping[str, bytes]) -> Path | None:
        """Store the raw files of a failed trial, instead of those of an earlier attempt; return their folder.

        There is no record, so that no table is built of them. None where there are no files.
        """
        if not files:
            return None
        self._commit(trial_id, files)
        return self.raw(trial_id)

    def _commit(self, trial_id: str, files: Mapping[str, bytes]) -> None:
        final = self.raw(trial_id)
        partial = final.with_name(f".{trial_id}{PARTIAL}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()  # without parents: a store that was deleted during a run is not created again
        try:
            for name, content in ((name, redacted_bytes(content)) for name, content in files.items()):
                if len(content) > LARGE_BYTES and name != RECORD and not name.endswith(_PACKED):
                    write_synced(partial / f"{name}{COMPRESSED}", compress(content))
                else:
                    write_synced(partial / name, content, PRIVATE if name == RECORD else BY_UMASK)
            sync_folder(partial)
            if final.exists() and not (final / RECORD).exists():  # of an attempt that failed
                shutil.rmtree(final)
            partial.rename(final)
        except OSError:  # such as a full disk
            shutil.rmtree(partial)
            raise
        sync_folder(final.parent)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run during the block, as its only writer.

        Raises InputError where another process does.
        """
        with self.try_lock() as is_ours:
            if not is_ours:
                raise InputError(
                    "another benchkit process writes to this run",
                    where=self.run_id,
                    hint="wait until it ends, then try again",
                )
            yield

    @contextlib.contextmanager
    def try_lock(self) -> Iterator[bool]:
        """Hold the lock of the run during the block; yield False where another process holds it."""
        with try_lock(self.path / LOCK) as is_ours:
            yield is_ours

    def is_locked(self) -> bool:
        """Return True while a process writes to the run."""
        return is_locked(self.path / LOCK)

    def status(self, manifest: Manifest) -> str:
        """Return the status of the run; `stopped` where its manifest says that it runs, and no process writes to it."""
        return "stopped" if manifest.status == "running" and not self.is_locked() else manifest.status

    def remove_partial_trials(self) -> list[str]:
        """Remove the incomplete raw files that a crash has left, and return the ids of trials with complete ones."""
        for partial in (self.path / "raw").glob(f".*{PARTIAL}"):
            shutil.rmtree(partial)
        return self.complete_trials()

    def complete_trials(self) -> list[str]:
        """Return the ids of the trials with complete raw files, sorted."""
        return sorted(record.parent.name for record in (self.path / "raw").glob(f"[!.]*/{RECORD}"))

    def record(self, trial_id: str) -> TrialRecord:
        """Read the record of a stored trial. Raises InputError if it is missing or damaged."""
        path = self.raw(trial_id) / RECORD
        try:
            record = TrialRecord.model_validate_json(read_regular(path))
        except OSError as error:
            raise _unreadable_raw_file(path, error) from None
        except ValidationError as error:
            raise InputError(
                "the record of a trial is damaged",
                where=str(path),
                why=first_fault(error, TrialRecord),
                hint="restore the file from a backup",
            ) from None
        if record.trial_id != trial_id:
            raise InputError(
                f"the record is that of another trial, {record.trial_id}",
                where=str(path),
                hint="restore the file from a backup",
            )
        return record

    def raw(self, trial_id: str) -> Path:
        """Return the folder of a trial's raw files."""
        return self.path / "raw" / trial_id

    def raw_file_names(self, trial_id: str) -> list[str]:
        """Return the names of a trial's raw files on disk; none where it has no folder."""
        folder = self.raw(trial_id)
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def raw_file(self, trial_id: str, name: str) -> bytes:
        """Read one of a trial's raw files. Raises InputError if it is missing or cannot be read."""
        path = self.raw(trial_id) / name
        try:
            return read_regular(path) if path.exists() else decompress(path.with_name(f"{name}{COMPRESSED}"))
        except OSError as error:
            raise _unreadable_raw_file(path, error) from None

    @contextlib.contextmanager
    def all_files(self) -> Iterator[None]:
        """Have all files of the run below `path` and in the tables during the block; in a folder they always are."""
        yield

    def records(self) -> Iterator[TrialRecord]:
        """Iterate over the records of all trials that ended according to the journal, in the order of execution."""
        for event in self.history():
            if isinstance(event, TrialEnded):
                yield self.record(event.trial_id)


class Store:
    """A folder of runs and tables."""

    def __init__(self, path: Path) -> None:
        """Use the folder at `path`; it need not exist yet."""
        self.path = path

    @property
    def location(self) -> str:
        """Folder or URL of the store, as messages name it."""
        return str(self.path)

    @property
    def absolute_location(self) -> str:
        """The same for a process in another folder."""
        return str(self.path.resolve())

    @property
    def filesystem(self) -> Any:  # noqa: ANN401 - of fsspec, which only `remote_files` knows
        """The file system of fsspec with the store's files; None for a folder."""
        return None

    @property
    def site(self) -> Path:
        """Default folder of a site of all runs."""
        return self.path / "site"

    def folder(self, run_id: str) -> RunFolder:
        """Return the run of exactly this id, which must be there."""
        return RunFolder(self.path / "runs" / run_id)

    def create(self, manifest: Manifest) -> RunFolder:
        """Create the folder of a new run, with its manifest.

        Raises BenchkitError, and leaves none, if it cannot be written.
        """
        folder = self.path / "runs" / manifest.run_id
        run = RunFolder(folder)
        try:
            make_folders(folder.parent)
            folder.mkdir()
            try:
                make_folders(folder / "raw")
                run.write_manifest(manifest)
                sync_folder(folder.parent)
            except OSError:  # such as a full disk
                shutil.rmtree(folder)
                raise
        except OSError as error:
            raise BenchkitError(
                f"cannot write {error.filename or folder}",
                where="this machine",
                why=error.strerror,
                hint="nothing has run yet; fix this, then start the run again",
            ) from error
        return run

    def runs(self) -> list[RunFolder]:
        """Return all runs with readable manifests, oldest first."""
        return [run for run, _ in self.survey()[0]]

    def survey(self) -> tuple[list[tuple[RunFolder, Manifest]], dict[str, InputError]]:
        """Return all runs with their manifests, oldest first, and errors of the unreadable ones, by run id."""
        readable: list[tuple[RunFolder, Manifest]] = []
        unreadable: dict[str, InputError] = {}
        for name in self._names():
            run = self.folder(name)
            try:
                _check_run_id(run)
                readable.append((run, run.manifest()))
            except InputError as error:
                unreadable[run.run_id] = error
        return sorted(readable, key=lambda pair: pair[1].started_at), unreadable

    def run(self, run_id: str) -> RunFolder:
        """Return the run of that id, or of the only id with that prefix; `latest` is the newest. Raises InputError."""
        if not run_id.strip():
            raise InputError("the run's name is empty", hint="`benchkit results list` shows the runs of the store")
        if run_id == "latest" and (runs := self.runs()):
            return runs[-1]
        names = self._names(run_id)
        matching = [run_id] if run_id in names else names
        if len(matching) != 1:
            why = f"{len(matching)} runs have this prefix: {', '.join(matching)}" if matching else None
            raise InputError(
                f"no run {run_id!r}" if not matching else f"run {run_id!r} is ambiguous",
                where=f"store {self.location}",
                why=why,
                hint="`benchkit results list` shows the runs of the store",
            )
        run = self.folder(matching[0])
        _check_run_id(run)
        return run

    def _names(self, beginning: str = "") -> list[str]:
        """Return the names of the folders with a manifest that begin so, sorted."""
        names = (manifest.parent.name for manifest in (self.path / "runs").glob(f"[!.]*/{MANIFEST}"))
        return sorted(name for name in names if name.startswith(beginning))

    def leftovers(self) -> list[Path]:
        """Return the folders among the runs without a manifest: their writing or removal was interrupted."""
        folders = sorted(path for path in (self.path / "runs").glob("*") if path.is_dir())
        return [folder for folder in folders if not os.path.lexists(folder / MANIFEST)]

    def has(self, run_id: str) -> bool:
        """Return True if the store has a run of exactly this id."""
        return (self.path / "runs" / run_id / MANIFEST).is_file()

    def knows(self, run_id: str) -> bool:
        """Return True if the store has a run of exactly this id, or rows of one in a table."""
        if not is_valid_name(run_id, RunId):
            return False
        return self.has(run_id) or any((self.path / "tables").glob(f"*/scenario=*/run_id={run_id}"))

    def table_scenarios(self) -> set[str]:
        """Return the scenarios that have rows of trials."""
        return {folder.name.removeprefix("scenario=") for folder in self.table("trials").glob("scenario=*")}

    def manifest_path(self, run_id: str) -> str:
        """Return the path of a run's manifest from the folder of the store."""
        return f"runs/{run_id}/{MANIFEST}"

    def table_path(self, table: str, scenario: str | None = None) -> str:
        """Return the beginning of the paths of a table from the folder of the store, of one scenario or of all."""
        return f"tables/{table}/" + (f"scenario={scenario}/" if scenario is not None else "")

    def part_of(self, path: str) -> Part:
        """Return scenario and run of the path of a table's file from the folder of the store."""
        _, _, scenario, run_id, _ = path.split("/")
        return scenario.removeprefix("scenario="), run_id.removeprefix("run_id=")

    def table_folders(self, table: str, run_id: str) -> list[Path]:
        """Return the folders with a run's rows of a table: one, as a run belongs to one scenario."""
        return table_folders(self.path, table, run_id)

    def remove(self, run: RunFolder) -> None:
        """Delete a run: its rows first, so that no table has rows of a run that does not exist.

        Raises InputError where another process writes to it.
        """
        with run.locked():
            for table in (self.path / "tables").glob("*"):
                for folder in self.table_folders(table.name, run.run_id):
                    shutil.rmtree(folder)
            removed = run.path.with_name(f".{run.run_id}{PARTIAL}")  # nobody writes a report into it any more
            if removed.exists():  # left by a process that was killed
                shutil.rmtree(removed)
            run.path.rename(removed)
            shutil.rmtree(removed)

    def table(self, table: str) -> Path:
        """Return the folder of a table, over all runs."""
        return self.path / "tables" / table

    def table_folder(self, table: str, scenario: str, run_id: str) -> Path:
        """Return the folder of a run's rows of a table. Raises InputError for names that benchkit gives to none."""
        for key, value, kind in (("scenario", scenario, Name), ("run_id", run_id, RunId)):
            if not is_valid_name(value, kind):
                raise InputError(
                    f"no table may have {value!r} as {key}",
                    where=str(self.path / "runs" / run_id),
                    why="names become folders, and this one may lead out of the store",
                    hint="the manifest was changed: restore it from a backup, or remove the run",
                )
        return self.table(table) / f"scenario={scenario}" / f"run_id={run_id}"

    def parts(
        self, table: str, *, runs: Collection[str] | None = None, scenario: str | None = None
    ) -> dict[Part, tuple[Path, ...]]:
        """Return the files of a table by run, sorted by path; runs without files are omitted.

        `runs` and `scenario` select these runs or that scenario only.
        """
        found: dict[Part, tuple[Path, ...]] = {}
        for of_scenario in sorted(_partitions(self.table(table), "scenario", None if scenario is None else [scenario])):
            for of_run in sorted(_partitions(of_scenario, "run_id", runs)):
                if files := _parquet_files(of_run, table):
                    found[_partition(of_scenario, "scenario", Name), _partition(of_run, "run_id", RunId)] = files
        return found

    def part_locations(
        self, table: str, *, runs: Collection[str] | None = None, scenario: str | None = None
    ) -> dict[Part, tuple[str, ...]]:
        """Return the paths or URLs of the same files, without those whose rows a merged file has; none is copied."""
        parts = self.parts(table, runs=runs, scenario=scenario)
        return {part: tuple(map(str, current_files(table, files))) for part, files in parts.items()}

    def compact_file(self, table: str) -> Path:
        """Return the file with a copy of the rows of all runs."""
        return self.path / "compact" / f"{table}.parquet"

    def history_file(self, scenario: str, metric: str) -> Path:
        """Return the file with the estimates of a metric of all runs of a scenario."""
        return self.path / "compact" / "history" / scenario / f"{metric}.jsonl"


def _parquet_files(folder: Path, table: str) -> tuple[Path, ...]:
    """Return the Parquet files of a run's part of a table, sorted.

    The merged file takes its name before the files that it replaces are deleted. If that happened during the listing,
    the listing may lack files of both kinds, and is repeated.
    """
    files = sorted(folder.glob("*.parquet"))
    merged = folder / f"{table}.parquet"
    return tuple(files if merged in files or not merged.exists() else sorted(folder.glob("*.parquet")))


def _partitions(path: Path, key: str, values: Collection[str] | None) -> list[Path]:
    """Return the folders of a partition key: those of the values, or all of them where these are None."""
    if values is not None:
        return [folder for folder in (path / f"{key}={value}" for value in values) if folder.is_dir()]
    if not path.is_dir():
        return []
    return [Path(entry.path) for entry in os.scandir(path) if entry.name.startswith(f"{key}=") and entry.is_dir()]


def _unreadable_raw_file(path: Path, error: OSError) -> InputError:
    is_missing = isinstance(error, FileNotFoundError)
    return InputError(
        "a raw file of the run is missing" if is_missing else "cannot read a raw file of the run",
        where=str(path),
        why=None if is_missing else error.strerror,
        hint="restore the file from a backup, or remove the run",
    )


def _check_run_id(run: RunFolder) -> None:
    if not is_valid_name(run.run_id, RunId):
        raise InputError(
            f"the folder is no run: {run.run_id!r} is no id of one",
            where=str(run.path),
            why="ids have letters, digits, dots, dashes and underscores, and begin with a letter",
            hint="remove the folder from the store, or give it its name back",
        )


def _partition(folder: Path, key: str, kind: Any) -> str:  # noqa: ANN401 - an annotated type
    """Return the value of a partition key in the name of a folder. Raises InputError where benchkit gives none such."""
    value = folder.name.removeprefix(f"{key}=")
    if not is_valid_name(value, kind):
        raise InputError(
            f"the folder of a table has a name that benchkit gives to none: {value!r} as {key}",
            where=str(folder),
            hint="remove the folder from the store, or give it its name back",
        )
    return value
