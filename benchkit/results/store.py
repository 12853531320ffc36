"""The store: which file is where. The only place that knows the layout.

    runs/<run_id>/manifest.json, journal.jsonl, raw/<trial_id>/…
    tables/<table>/scenario=<name>/run_id=<id>/*.parquet

A file or a trial's folder appears whole or not at all: it is written under another name, synced, then renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
from pydantic import BaseModel, ValidationError

from benchkit.errors import InputError
from benchkit.models.run import SCHEMA_VERSION, Manifest, RunStatus
from benchkit.models.trial import TrialRecord
from benchkit.results.journal import Journal, read_journal

ENVIRONMENT = "BENCHKIT_STORE"
DEFAULT = Path("results")

TRIAL_ENDED = "trial-ended"
"""The journal's word for a trial that is stored and counts."""

LARGE_BYTES = 64 << 10
"""Raw files beyond this are compressed."""

_COMPRESSED = ".zst"
_PACKED = ".gz"
"""What comes packed stays as it is: profiles, which their own tools read so."""
_MANIFEST, _JOURNAL, _RECORD = "manifest.json", "journal.jsonl", "trial.json"


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

    def history(self) -> Iterator[dict[str, object]]:
        """What the journal says, line by line."""
        return read_journal(self.path / _JOURNAL)

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
        partial = final.with_name(f".{record.trial_id}.partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        for name, content in {**files, _RECORD: record.model_dump_json(indent=2).encode() + b"\n"}.items():
            if len(content) > LARGE_BYTES and name != _RECORD and not name.endswith(_PACKED):
                write_synced(partial / f"{name}{_COMPRESSED}", _compressed(content))
            else:
                write_synced(partial / name, content)
        sync_folder(partial)
        partial.rename(final)
        sync_folder(final.parent)

    def raw(self, trial_id: str) -> Path:
        """The folder of a trial's raw files."""
        return self.path / "raw" / trial_id

    def raw_file(self, trial_id: str, name: str) -> bytes:
        """The content of one of a trial's raw files. Raises InputError where it is not there."""
        path = self.raw(trial_id) / name
        compressed = path.with_name(f"{name}{_COMPRESSED}")
        try:
            return path.read_bytes() if path.exists() else _uncompressed(compressed)
        except FileNotFoundError:
            raise InputError("a raw file is missing", where=str(path)) from None

    def records(self) -> Iterator[TrialRecord]:
        """The records of all trials that the journal says ended, in the order in which they ran."""
        for event in self.history():
            if event["event"] == TRIAL_ENDED:
                yield TrialRecord.model_validate_json((self.raw(str(event["trial_id"])) / _RECORD).read_bytes())


class Store:
    """A folder of runs and tables."""

    def __init__(self, path: Path) -> None:
        """Take the store at `path`; it need not exist yet."""
        self.path = path

    def create(self, manifest: Manifest) -> RunFolder:
        """Begin a run: its folder, with the manifest in it."""
        folder = self.path / "runs" / manifest.run_id
        (folder / "raw").mkdir(parents=True)
        run = RunFolder(folder)
        run.write_manifest(manifest)
        return run

    def runs(self) -> list[RunFolder]:
        """All runs, oldest first."""
        folders = (self.path / "runs").glob(f"*/{_MANIFEST}")
        return sorted((RunFolder(manifest.parent) for manifest in folders), key=lambda run: run.manifest().started_at)

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

    def remove(self, run: RunFolder) -> None:
        """Delete a run: its rows first, so that no table speaks of a run that is gone."""
        scenario = run.manifest().scenario["name"]
        for table in (self.path / "tables").glob("*"):
            shutil.rmtree(self.table_folder(table.name, scenario, run.run_id), ignore_errors=True)
        shutil.rmtree(run.path)

    def table(self, table: str) -> Path:
        """The folder of a table, over all runs."""
        return self.path / "tables" / table

    def table_folder(self, table: str, scenario: str, run_id: str) -> Path:
        """The folder of a run's rows of a table."""
        return self.table(table) / f"scenario={scenario}" / f"run_id={run_id}"

    def scratch(self, name: str) -> Path:
        """An empty folder on the store's own file system, for what is to be renamed into place."""
        folder = self.path / "tmp" / f"{name}.{os.getpid()}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder


def refuse_newer(version: int, where: str) -> None:
    """Raise InputError for a schema version that this benchkit does not know yet."""
    if version > SCHEMA_VERSION:
        raise InputError(
            f"written with schema version {version}, this benchkit reads up to {SCHEMA_VERSION}",
            where=where,
            hint="update benchkit",
        )


def _compressed(content: bytes) -> bytes:
    """Content as the `zstd` program writes it."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def _uncompressed(path: Path) -> bytes:
    with path.open("rb") as file, pa.CompressedInputStream(file, "zstd") as stream:
        return bytes(stream.read())


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all, synced."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    write_synced(partial, content)
    partial.replace(path)
    sync_folder(path.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
