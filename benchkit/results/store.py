"""The store: which file is where. The only place that knows the layout.

    runs/<run_id>/manifest.json, journal.jsonl, raw/<trial_id>/…
    tables/<table>/scenario=<name>/run_id=<id>/*.parquet
    tmp/…                                                  what is to be exchanged with something above

A file or a trial's folder appears whole or not at all: it is written under another name, synced, then renamed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ValidationError

from benchkit.errors import InputError
from benchkit.models.run import SCHEMA_VERSION, Manifest, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.results.compression import compressed, uncompressed
from benchkit.results.durable_files import locked, make_folders, sync_folder, write_synced, write_whole
from benchkit.results.folder_swap import Scratch
from benchkit.results.journal import Journal, read_journal
from benchkit.results.journal_events import JournalEvent, TrialEnded

ENVIRONMENT = "BENCHKIT_STORE"
DEFAULT = Path("results")

LARGE_BYTES = 64 << 10
"""Raw files beyond this are compressed."""

_COMPRESSED = ".zst"
_PACKED = ".gz"
"""What comes packed stays as it is: profiles, which their own tools read so."""
_MANIFEST, _JOURNAL, _RECORD = "manifest.json", "journal.jsonl", "trial.json"
_LOCK = ".lock"
_PARTIAL = ".partial"
_SCRATCH = "tmp"


def store_path(option: Path | None = None) -> Path:
    """The store asked for: the option, else BENCHKIT_STORE, else ./results. Raises InputError for what is no folder."""
    path = option or Path(os.environ.get(ENVIRONMENT) or DEFAULT)
    if path.exists() and not path.is_dir():
        raise InputError("a store is a folder, and this is none", where=str(path))
    return path


class _Versioned(BaseModel):
    """What every manifest has, of whichever version: read first, so that a newer one is known as such."""

    schema_version: int


class RunFolder:
    """The folder of one run: its manifest, its journal and the raw files of its trials."""

    def __init__(self, path: Path) -> None:
        """Take the folder at `path`; it must exist."""
        self.path = path

    @property
    def run_id(self) -> str:
        """The name of the run."""
        return self.path.name

    @property
    def report(self) -> Path:
        """Where the report of the run stands, unless another place is asked for."""
        return self.path / "report"

    def manifest(self) -> Manifest:
        """The manifest. Raises InputError for one that a newer benchkit wrote, or none of ours."""
        path = self.path / _MANIFEST
        try:
            text = path.read_bytes()
        except OSError as error:
            raise InputError("cannot read the manifest", where=str(path), why=error.strerror) from None
        try:
            refuse_newer(_Versioned.model_validate_json(text).schema_version, str(path))
            return Manifest.model_validate_json(text)
        except ValidationError as error:
            fault = error.errors()[0]
            raise InputError(f"not a manifest: {fault['loc']}: {fault['msg']}", where=str(path)) from None

    def journal(self) -> Journal:
        """The journal, open for appending."""
        return Journal(self.path / _JOURNAL)

    def history(self) -> Iterator[JournalEvent]:
        """What the journal says, line by line; nothing where the run ended before its first step did."""
        path = self.path / _JOURNAL
        return read_journal(path) if path.exists() else iter(())

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        write_whole(self.path / _MANIFEST, manifest.model_dump_json(indent=2).encode() + b"\n")

    def finish(self, status: RunStatus) -> Manifest:
        """Note in the manifest how and when the run ended."""
        manifest = self.manifest().model_copy(update={"status": status, "ended_at": datetime.now(UTC)})
        self.write_manifest(manifest)
        return manifest

    def commit_trial(self, record: TrialRecord, files: Mapping[str, bytes]) -> None:
        """Store a trial's record and raw files, all together or not at all."""
        final = self.raw(record.trial_id)
        partial = final.with_name(f".{record.trial_id}{_PARTIAL}")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        try:
            for name, content in {**files, _RECORD: record.model_dump_json(indent=2).encode() + b"\n"}.items():
                if len(content) > LARGE_BYTES and name != _RECORD and not name.endswith(_PACKED):
                    write_synced(partial / f"{name}{_COMPRESSED}", compressed(content))
                else:
                    write_synced(partial / name, content)
            sync_folder(partial)
            partial.rename(final)
        except OSError:  # a full disk, above all
            shutil.rmtree(partial)
            raise
        sync_folder(final.parent)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Be the only process that writes to the run. Raises InputError where another one does."""
        with locked(self.path / _LOCK) as is_ours:
            if not is_ours:
                raise InputError("another benchkit works on this run", where=self.run_id, hint="wait for its end")
            yield

    def is_locked(self) -> bool:
        """Whether a process writes to it now."""
        with locked(self.path / _LOCK) as is_free:
            return not is_free

    def tidy(self) -> list[str]:
        """Remove what a crash has left half done; the ids of trials whose raw files are whole."""
        for partial in (self.path / "raw").glob(f".*{_PARTIAL}"):
            shutil.rmtree(partial)
        return sorted(record.parent.name for record in (self.path / "raw").glob(f"*/{_RECORD}"))

    def record(self, trial_id: str) -> TrialRecord:
        """The record of a trial whose raw files are there. Raises InputError where it is not one."""
        path = self.raw(trial_id) / _RECORD
        try:
            return TrialRecord.model_validate_json(path.read_bytes())
        except FileNotFoundError:
            raise InputError("a raw file is missing", where=str(path)) from None
        except ValidationError as error:
            fault = error.errors()[0]
            raise InputError(f"no record of a trial: {fault['loc']}: {fault['msg']}", where=str(path)) from None

    def raw(self, trial_id: str) -> Path:
        """The folder of a trial's raw files."""
        return self.path / "raw" / trial_id

    def raw_file(self, trial_id: str, name: str) -> bytes:
        """The content of one of a trial's raw files. Raises InputError where it is not there."""
        path = self.raw(trial_id) / name
        compressed = path.with_name(f"{name}{_COMPRESSED}")
        try:
            return path.read_bytes() if path.exists() else uncompressed(compressed)
        except FileNotFoundError:
            raise InputError("a raw file is missing", where=str(path)) from None

    def records(self) -> Iterator[TrialRecord]:
        """The records of all trials that the journal says ended, in the order in which they ran."""
        for event in self.history():
            if isinstance(event, TrialEnded):
                yield self.record(event.trial_id)


class Store:
    """A folder of runs and tables."""

    def __init__(self, path: Path) -> None:
        """Take the store at `path`; it need not exist yet."""
        self.path = path

    def create(self, manifest: Manifest) -> RunFolder:
        """Begin a run: its folder, with the manifest in it."""
        self.tidy()
        folder = self.path / "runs" / manifest.run_id
        make_folders(folder.parent)
        folder.mkdir()
        make_folders(folder / "raw")
        run = RunFolder(folder)
        run.write_manifest(manifest)
        sync_folder(folder.parent)
        return run

    def runs(self) -> list[RunFolder]:
        """All runs whose manifests can be read, oldest first."""
        return [run for run, _ in self.survey()[0]]

    def survey(self) -> tuple[list[tuple[RunFolder, Manifest]], dict[str, InputError]]:
        """All runs with their manifests, oldest first; and those that cannot be read, with why, by their ids."""
        found: list[tuple[RunFolder, Manifest]] = []
        unreadable: dict[str, InputError] = {}
        for path in sorted((self.path / "runs").glob(f"*/{_MANIFEST}")):
            run = RunFolder(path.parent)
            try:
                found.append((run, run.manifest()))
            except InputError as error:
                unreadable[run.run_id] = error
        return sorted(found, key=lambda pair: pair[1].started_at), unreadable

    def run(self, run_id: str) -> RunFolder:
        """The run of that id, or of the only id that starts so; `latest` is the newest. Raises InputError."""
        if run_id == "latest" and (runs := self.runs()):
            return runs[-1]
        names = sorted(manifest.parent.name for manifest in (self.path / "runs").glob(f"*/{_MANIFEST}"))
        matching = [run_id] if run_id in names else [name for name in names if name.startswith(run_id)]
        if len(matching) != 1:
            why = f"{len(matching)} runs start so: {', '.join(matching)}" if matching else f"the store is {self.path}"
            raise InputError(f"no run {run_id!r}", why=why, hint="`benchkit results list` shows the runs there are")
        return RunFolder(self.path / "runs" / matching[0])

    def has(self, run_id: str) -> bool:
        """Return whether the store has a run of exactly this id."""
        return (self.path / "runs" / run_id / _MANIFEST).is_file()

    def remove(self, run: RunFolder) -> None:
        """Delete a run: its rows first, so that no table speaks of a run that is gone.

        Raises InputError where another process works on it.
        """
        self.tidy()
        with run.locked():
            for table in (self.path / "tables").glob("*"):
                for folder in table.glob(f"scenario=*/run_id={run.run_id}"):
                    shutil.rmtree(folder)
            shutil.rmtree(run.path)

    def table(self, table: str) -> Path:
        """The folder of a table, over all runs."""
        return self.path / "tables" / table

    def table_folder(self, table: str, scenario: str, run_id: str) -> Path:
        """The folder of a run's rows of a table."""
        return self.table(table) / f"scenario={scenario}" / f"run_id={run_id}"

    def parts(self, table: str, *, run_id: str = "", scenario: str = "") -> list[tuple[str, str, tuple[Path, ...]]]:
        """The files of a table by run: (scenario, run_id, files), in the order of their paths; runs without any left out.

        All of them, or those of the run or the scenario that is named.
        """
        found = []
        for of in sorted(_folders(self.table(table), f"scenario={scenario}", whole=bool(scenario))):
            for run in sorted(_folders(of, f"run_id={run_id}", whole=bool(run_id))):
                if files := tuple(sorted(run.glob("*.parquet"))):
                    key = of.name.removeprefix("scenario="), run.name.removeprefix("run_id=")
                    found.append((*key, files))
        return found

    def compact_file(self, table: str) -> Path:
        """The file with a copy of what all runs have of a table."""
        return self.path / "compact" / f"{table}.parquet"

    @property
    def scratch(self) -> Scratch:
        """Where folders are made that are to be put in the place of others."""
        return Scratch(self.path, self.path / _SCRATCH)

    def tidy(self) -> None:
        """Clear away what processes that are gone have left half done."""
        self.scratch.tidy()


def _folders(path: Path, prefix: str, *, whole: bool) -> list[Path]:
    """The folders in `path` whose names begin so; `whole`: the one that is called so."""
    if whole:
        return [path / prefix] if (path / prefix).is_dir() else []
    if not path.is_dir():
        return []
    return [Path(entry.path) for entry in os.scandir(path) if entry.name.startswith(prefix) and entry.is_dir()]


def refuse_newer(version: int, where: str) -> None:
    """Raise InputError for a schema version that this benchkit does not know yet."""
    if version > SCHEMA_VERSION:
        raise InputError(
            f"written with schema version {version}, this benchkit reads up to {SCHEMA_VERSION}",
            where=where,
            hint="update benchkit",
        )
