"""The folder of one run: its manifest, its journal and the raw files of its trials."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.models.run import Manifest, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.safe_text import redacted_bytes
from benchkit.store.durable_files import (
    BY_UMASK,
    PARTIAL,
    PRIVATE,
    compress,
    decompress,
    fsync,
    is_locked,
    try_lock,
    write_atomically,
    write_synced,
)
from benchkit.store.journal import Journal, JournalEvent, TrialEnded, read_journal
from benchkit.store.layout import JOURNAL, LOCK, LOG, MANIFEST, REPORT
from benchkit.store.parquet_files import refuse_newer
from benchkit.store.remote_store import RemoteStore
from benchkit.validation import first_fault

LARGE_BYTES = 64 << 10
"""Size above which raw files are compressed."""

COMPRESSED = ".zst"
"""Suffix of raw files that benchkit compressed."""
_PACKED = ".gz"
"""Suffix of files that are compressed already and stay so: profiles, which their own tools read in this form."""
RECORD = "trial.json"
"""Name of the record among the raw files of a trial."""

ModelT = TypeVar("ModelT", bound=BaseModel)


class _Versioned(BaseModel):
    """The part of a manifest that all versions share: read first, so that a newer version is recognised."""

    schema_version: int


class RunFolder:
    """The folder of one run: its manifest, its journal and the raw files of its trials."""

    def __init__(self, where: Path | RemoteStore, run_id: str) -> None:
        """Use the run of this id, of a store that is a folder or at a URL."""
        self._remote = where if isinstance(where, RemoteStore) else None
        self.run_id = run_id
        """Id of the run."""
        self.path = (where if isinstance(where, Path) else where.copy) / "runs" / run_id
        """Its folder; of a store at a URL, in the local copy."""
        self.location = str(self.path) if self._remote is None else f"{self._remote.url}/runs/{run_id}"
        """Folder or URL of the run, as messages name it."""
        self.report = self.path / REPORT if self._remote is None else Path(f"report-{run_id}")
        """Default folder of the report of the run; of a run at a URL, one in the working directory."""
        self.manifest_file = self.path / MANIFEST
        self.journal_file = self.path / JOURNAL
        """File with the journal, which is missing before the first step."""
        self.log = self.path / LOG
        """Log file of the run, which may be missing."""

    def manifest(self) -> Manifest:
        """Read the manifest. Raises InputError if it cannot be read, is damaged, or was written by a newer benchkit."""
        if self._remote is not None:
            self._remote.fetch_manifests([self.run_id])
        refuse_newer(self._read(_Versioned, MANIFEST).schema_version, f"{self.location}/{MANIFEST}")
        manifest = self._read(Manifest, MANIFEST)
        if manifest.run_id != self.run_id:
            raise _damaged(f"{self.location}/{MANIFEST}", f"it belongs to another run, {manifest.run_id}")
        return manifest

    def is_stored(self) -> bool:
        """Return True if the folder is in its place, with the journal that every started run has."""
        return self.journal_file.exists()

    def journal(self) -> Journal:
        """Open the journal for appending."""
        return Journal(self.journal_file)

    def history(self) -> Iterator[JournalEvent]:
        """Iterate over the events of the journal; there are none if the run ended before its first step."""
        self._fetch(lambda name: name == JOURNAL)
        return read_journal(self.journal_file) if self.journal_file.exists() else iter(())

    def write_manifest(self, manifest: Manifest) -> None:
        """Replace the manifest."""
        write_atomically(self.manifest_file, manifest.model_dump_json(indent=2).encode() + b"\n", PRIVATE)

    def finish(self, status: RunStatus) -> None:
        """Record in the manifest when and with which status the run ended."""
        self.write_manifest(self.manifest().model_copy(update={"status": status, "ended_at": datetime.now(UTC)}))

    def commit_trial(self, record: TrialRecord, files: Mapping[str, bytes]) -> None:
        """Store the record and the raw files of a trial, all of them or none."""
        self._commit(record.trial_id, {**files, RECORD: record.model_dump_json(indent=2).encode() + b"\n"})

    def commit_failed_trial(self, trial_id: str, files: Mapping[str, bytes]) -> Path | None:
        """Store the raw files of a failed trial in place of an earlier attempt's; return their folder, if any.

        They have no record, so that no table is built from them.
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
            fsync(partial)
            if final.exists() and not (final / RECORD).exists():  # of an attempt that failed
                shutil.rmtree(final)
            partial.rename(final)
        except OSError:  # such as a full disk
            shutil.rmtree(partial)
            raise
        fsync(final.parent)

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the lock of the run during the block, as its only writer.

        Raises InputError where another process holds it.
        """
        with try_lock(self.path / LOCK) as is_ours:
            if not is_ours:
                raise InputError(
                    "another benchkit process writes to this run",
                    where=self.run_id,
                    hint="wait until it ends, then try again",
                )
            yield

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
        self._fetch(lambda name: name.endswith(f"/{RECORD}"))
        return sorted(record.parent.name for record in (self.path / "raw").glob(f"[!.]*/{RECORD}"))

    def record(self, trial_id: str) -> TrialRecord:
        """Read the record of a stored trial. Raises InputError if it is missing or damaged."""
        name = f"raw/{trial_id}/{RECORD}"
        self._fetch(lambda path: path == name)
        record = self._read(TrialRecord, name)
        if record.trial_id != trial_id:
            raise _damaged(f"{self.location}/{name}", f"it belongs to another trial, {record.trial_id}")
        return record

    def records(self) -> Iterator[TrialRecord]:
        """Iterate over the records of all trials that ended according to the journal, in the order of execution."""
        self._fetch(lambda name: name.endswith(f"/{RECORD}"))
        for event in self.history():
            if isinstance(event, TrialEnded):
                yield self.record(event.trial_id)

    def raw(self, trial_id: str) -> Path:
        """Return the folder of a trial's raw files."""
        return self.path / "raw" / trial_id

    def raw_file_names(self, trial_id: str) -> list[str]:
        """Return the names of a trial's raw files as they are stored; none where it has no folder."""
        self._fetch(lambda name: name.startswith(f"raw/{trial_id}/"))
        folder = self.raw(trial_id)
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def raw_file(self, trial_id: str, name: str) -> bytes:
        """Read one of a trial's raw files. Raises InputError if it is missing or cannot be read."""
        path = self.raw(trial_id) / name
        self._fetch(lambda wanted: wanted in {f"raw/{trial_id}/{name}", f"raw/{trial_id}/{name}{COMPRESSED}"})
        try:
            return read_regular(path) if path.exists() else decompress(path.with_name(f"{name}{COMPRESSED}"))
        except OSError as error:
            raise _unreadable(f"{self.location}/raw/{trial_id}/{name}", error) from None

    def _read(self, model: type[ModelT], name: str) -> ModelT:
        """Read a file of the run as a model. Raises InputError if it cannot be read or is damaged."""
        where = f"{self.location}/{name}"
        try:
            return model.model_validate_json(read_regular(self.path / name))
        except OSError as error:
            raise _unreadable(where, error) from None
        except ValidationError as error:
            raise _damaged(where, first_fault(error, model)) from None

    def _fetch(self, is_wanted: Callable[[str], bool]) -> None:
        """Fetch the wanted files of the run that are missing locally; `is_wanted` gets paths from `path`."""
        if self._remote is not None:
            beginning = f"runs/{self.run_id}/"
            self._remote.fetch(
                [self.run_id], lambda path: path.startswith(beginning) and is_wanted(path.removeprefix(beginning))
            )


def _damaged(where: str, why: str) -> InputError:
    hint = "restore the file from a backup, or remove the run with `benchkit results rm`"
    return InputError("a file of the run is damaged", where=where, why=why, hint=hint)


def _unreadable(where: str, error: OSError) -> InputError:
    hint = "restore the file from a backup, or remove the run with `benchkit results rm`"
    if isinstance(error, FileNotFoundError):
        return InputError("a file of the run is missing", where=where, hint=hint)
    return InputError("cannot read a file of the run", where=where, why=error.strerror, hint=hint)
