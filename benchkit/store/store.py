"""The store: the only module that knows its layout of files.

    runs/<run_id>/manifest.json, journal.jsonl, run.log, raw/<trial_id>/…
    tables/<table>/scenario=<name>/run_id=<id>/*.parquet

A file or a trial's folder appears complete or not at all: it is written under another name, synced, then renamed.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection
from pathlib import Path

from benchkit.errors import BenchkitError, InputError
from benchkit.models.run import Manifest, RunId
from benchkit.store.durable_files import PARTIAL, fsync, make_folders
from benchkit.store.layout import MANIFEST, Partition, part_of, table_files
from benchkit.store.remote_store import RemoteStore, is_url
from benchkit.store.run_folder import RunFolder
from benchkit.validation import is_valid_name

ENVIRONMENT = "BENCHKIT_STORE"
DEFAULT = Path("results")


def store_path(option: str | Path | None = None) -> Path:
    """Return the folder to store in: the option, else BENCHKIT_STORE, else ./results.

    Raises InputError if it is not a folder: a store at a URL is only read (`benchkit.store.store`).
    """
    text = str(option or os.environ.get(ENVIRONMENT) or DEFAULT)
    if is_url(text):
        raise InputError(
            "this needs a store that is a folder: one at a URL can only be read",
            where=text,
            hint="name a folder with --store; `benchkit results push` publishes its runs, `pull` fetches them",
        )
    path = Path(text)
    if path.exists() and not path.is_dir():
        hint = "name a folder with --store or BENCHKIT_STORE"
        raise InputError("the store is not a folder", where=str(path), hint=hint)
    return path


def existing_store(option: str | Path | None = None) -> Path:
    """Return the folder to use, which must exist. Raises InputError if there is none."""
    path = store_path(option)
    if not path.is_dir():
        hint = "`benchkit run` creates one; --store or BENCHKIT_STORE names another"
        raise InputError("there is no store here", where=str(path), hint=hint)
    return path


class Store:
    """A folder of runs and tables, or the local copy of one at a URL."""

    def __init__(self, where: Path | RemoteStore) -> None:
        """Use a folder, which need not exist yet, or a store at a URL, which is only read."""
        self._where = where
        self._remote = where if isinstance(where, RemoteStore) else None
        self.path = where if isinstance(where, Path) else where.copy
        """Folder from which files are read."""
        self.location = str(where) if isinstance(where, Path) else where.url
        """Folder or URL of the store, as messages name it."""
        self.absolute_location = str(where.resolve()) if isinstance(where, Path) else where.url
        """The same location for a process in another folder."""

    def folder(self, run_id: str) -> RunFolder:
        """Return the run of exactly this id, which must be there."""
        return RunFolder(self._where, run_id)

    def create(self, manifest: Manifest) -> RunFolder:
        """Create the folder of a new run, with its manifest.

        Raises BenchkitError, and leaves none, if it cannot be written.
        """
        run = self.folder(manifest.run_id)
        folder = run.path
        try:
            make_folders(folder.parent)
            folder.mkdir()
            try:
                make_folders(folder / "raw")
                run.write_manifest(manifest)
                fsync(folder.parent)
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
                readable.append((run, run.manifest()))
            except InputError as error:
                unreadable[run.run_id] = error
        return sorted(readable, key=lambda pair: pair[1].started_at), unreadable

    def run(self, run_id: str) -> RunFolder:
        """Return the run of that id, or of the only id with that prefix; `latest` is the newest but calibrations.

        Raises InputError.
        """
        if not run_id.strip():
            raise InputError("the run's name is empty", hint="`benchkit results list` shows the runs of the store")
        if run_id == "latest" and (found := self.survey()[0]):
            return ([run for run, manifest in found if not manifest.is_calibration] or [found[-1][0]])[-1]
        # A web server that lists no folders knows whole ids.
        is_there = is_valid_name(run_id, RunId) and self.has(run_id)
        names = [] if is_there else self._names(run_id)
        matching = [run_id] if is_there or run_id in names else names
        if len(matching) != 1:
            why = f"{len(matching)} runs have this prefix: {', '.join(matching)}" if matching else None
            raise InputError(
                f"no run {run_id!r}" if not matching else f"run {run_id!r} is ambiguous",
                where=f"store {self.location}",
                why=why,
                hint="`benchkit results list` shows the runs of the store",
            )
        return self.folder(matching[0])

    def _names(self, beginning: str = "") -> list[str]:
        if self._remote is not None:
            self._remote.fetch_manifests(self._remote.run_ids(beginning))
        names = (manifest.parent.name for manifest in (self.path / "runs").glob(f"[!.]*/{MANIFEST}"))
        return sorted(name for name in names if name.startswith(beginning) and is_valid_name(name, RunId))

    def leftovers(self) -> list[Path]:
        """Return the folders among the runs without a manifest: their writing or removal was interrupted."""
        folders = sorted(path for path in (self.path / "runs").glob("*") if path.is_dir())
        return [folder for folder in folders if not os.path.lexists(folder / MANIFEST)]

    def has(self, run_id: str) -> bool:
        """Return True if the store has a run of exactly this id."""
        if self._remote is not None:
            self._remote.fetch_manifests([run_id])
        return self.folder(run_id).manifest_file.is_file()

    def knows(self, run_id: str) -> bool:
        """Return True if the store has a run of exactly this id, or rows of one in a table."""
        if not is_valid_name(run_id, RunId):
            return False
        return self.has(run_id) or any((self.path / "tables").glob(f"*/scenario=*/run_id={run_id}"))

    def remove(self, run: RunFolder) -> None:
        """Delete a run: its rows first, so that no table has rows of a run that does not exist.

        Raises InputError where another process writes to it.
        """
        with run.locked():
            for folder in (self.path / "tables").glob(f"*/scenario=*/run_id={run.run_id}"):
                shutil.rmtree(folder)
            removed = run.path.with_name(f".{run.run_id}{PARTIAL}")  # nobody writes a report into it any more
            shutil.rmtree(removed, ignore_errors=True)  # left by a process that was killed
            run.path.rename(removed)
            shutil.rmtree(removed)

    def table(self, table: str) -> Path:
        """Return the folder of a table, over all runs."""
        return self.path / "tables" / table

    def table_folder(self, table: str, scenario: str, run_id: str) -> Path:
        """Return the folder of a run's rows of a table."""
        return self.table(table) / f"scenario={scenario}" / f"run_id={run_id}"

    def partitions(self, table: str, runs: Collection[str] | None, scenario: str | None) -> list[Partition]:
        """Return scenario and run of the parts of a table: of these runs or all, of that scenario or any (None)."""
        if self._remote is None:
            return list(table_files(self.path, table, runs, scenario))
        beginning = f"tables/{table}/" + ("" if scenario is None else f"scenario={scenario}/")
        checksums = self._remote.checksums(self._remote.run_ids() if runs is None else runs)
        return sorted({part_of(path) for paths in checksums.values() for path in paths if path.startswith(beginning)})

    def parts(
        self, table: str, *, runs: Collection[str] | None = None, scenario: str | None = None
    ) -> dict[Partition, tuple[Path, ...]]:
        """Return the files of a table by run, sorted by path; runs without files are omitted.

        `runs` and `scenario` select these runs or that scenario only.
        """
        if self._remote is not None:
            wanted = [run_id for _, run_id in self.partitions(table, runs, scenario)]
            self._remote.fetch(wanted, lambda path: path.startswith(f"tables/{table}/"))
        return table_files(self.path, table, runs, scenario)


def open_store(option: str | Path | Store | None = None, *, must_exist: bool = False) -> Store:
    """Return the store to read: the option, else BENCHKIT_STORE, else ./results.

    Raises InputError for what is neither a folder nor a usable URL, and with `must_exist` for a missing folder. A store
    at a URL is accessed at the first read.
    """
    if isinstance(option, Store):
        return option
    text = str(option) if option is not None else os.environ.get(ENVIRONMENT, "")
    if is_url(text):
        return Store(RemoteStore(text))
    return Store(existing_store(option) if must_exist else store_path(option))
