"""A store away from this machine, read through a copy of those files that a command needs.

The copy is a temporary folder with the layout of a store: everything that reads a folder reads it too. It is filled as
files are needed, each verified against its checksum, and is removed with the store. A run is there once it has its
manifest, which `benchkit.store.transfer` writes last; its checksums name all its files, so that one run is read
without listing any folder.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchkit.errors import InputError
from benchkit.models.run import Manifest, RunId
from benchkit.models.trial import TrialRecord
from benchkit.store.checksums import Checksums, checksums_path, file_sha256, parse_checksums
from benchkit.store.journal import JournalEvent
from benchkit.store.remote_files import RemoteFiles
from benchkit.store.store import COMPRESSED, RECORD, Part, RunFolder, Store
from benchkit.validation import is_valid_name


def mending(run_id: str, url: str) -> str:
    """Return the advice on a damaged file of a published run."""
    return f"`benchkit results push {run_id} {url}` writes it again, from a folder that has the run"


class RemoteStore(Store):
    """A store below a URL. It is only read; `benchkit.store.transfer` publishes runs to it."""

    def __init__(self, url: str) -> None:
        """Use the store at `url`; nothing is read yet. Raises InputError for a URL that cannot be used."""
        self.files = RemoteFiles(url)
        copy = tempfile.mkdtemp(prefix="benchkit-store-")
        weakref.finalize(self, shutil.rmtree, copy, ignore_errors=True)
        super().__init__(Path(copy))
        self._checksums: dict[str, Checksums] = {}

    @property
    def location(self) -> str:
        """URL of the store."""
        return self.files.url

    @property
    def absolute_location(self) -> str:
        """URL of the store."""
        return self.location

    @property
    def filesystem(self) -> Any:  # noqa: ANN401 - of fsspec
        """The file system of fsspec with the store's files."""
        return self.files.filesystem

    @property
    def site(self) -> Path:
        """Default folder of a site of all runs, in the working directory."""
        return Path("site")

    def folder(self, run_id: str) -> RemoteRun:
        """Return the run of exactly this id, which must be there."""
        return RemoteRun(self, run_id)

    def run(self, run_id: str) -> RunFolder:
        """Return the run of that id, or of the only id with that prefix; `latest` is the newest. Raises InputError."""
        return self.folder(run_id) if self.has(run_id) else super().run(run_id)

    def has(self, run_id: str) -> bool:
        """Return True if the store has a run of exactly this id."""
        if is_valid_name(run_id, RunId):
            self._copy_manifests([run_id])
        return super().has(run_id)

    def parts(
        self, table: str, *, runs: Collection[str] | None = None, scenario: str | None = None
    ) -> dict[Part, tuple[Path, ...]]:
        """Return the files of a table by run, as in a folder, after copying them from the store."""
        beginning = self.table_path(table, scenario)
        self.require(self._existing(runs), lambda path: path.startswith(beginning))
        return super().parts(table, runs=runs, scenario=scenario)

    def part_locations(
        self, table: str, *, runs: Collection[str] | None = None, scenario: str | None = None
    ) -> dict[Part, tuple[str, ...]]:
        """Return the URLs of the files of a table by run, as checksums name them; none is copied."""
        beginning = self.table_path(table, scenario)
        found: dict[Part, tuple[str, ...]] = {}
        for checksums in self.checksums(self._existing(runs)).values():
            for path in sorted(path for path in checksums if path.startswith(beginning)):
                part = self.part_of(path)
                found[part] = (*found.get(part, ()), f"{self.location}/{path}")
        return dict(sorted(found.items()))

    def table_scenarios(self) -> set[str]:
        """Return the scenarios that have rows of trials."""
        self.checksums(self._names())
        return super().table_scenarios()

    def table_folders(self, table: str, run_id: str) -> list[Path]:
        """Return the folders with a run's rows of a table: one, as a run belongs to one scenario."""
        if self.has(run_id):
            self.checksums([run_id])
        return super().table_folders(table, run_id)

    def checksums(self, runs: Iterable[str]) -> dict[str, Checksums]:
        """Return the checksums of runs, which name all their files. Raises InputError where a run has none."""
        wanted = list(runs)
        paths = {checksums_path(run_id): run_id for run_id in wanted if run_id not in self._checksums}
        for path, content in self.files.read(paths).items():
            checksums = parse_checksums(self, paths[path], content.decode(errors="replace"))
            self._write(path, content)
            for folder in {(self.path / each).parent for each in checksums if each.startswith("tables/")}:
                folder.mkdir(parents=True, exist_ok=True)
            self._checksums[paths[path]] = checksums
        for run_id in wanted:
            if run_id not in self._checksums:
                raise InputError(
                    "the run has no checksums, which name its files",
                    where=f"{self.location}/{checksums_path(run_id)}",
                    hint="publish it with `benchkit results push`, which writes them",
                )
        return {run_id: self._checksums[run_id] for run_id in wanted}

    def require(self, runs: Iterable[str], is_wanted: Callable[[str], bool]) -> None:
        """Copy those files of runs that are wanted and not here yet; `is_wanted` gets paths from the store's folder.

        Raises InputError for a missing file, and for one that differs from its checksum.
        """
        missing = {
            path: (run_id, checksum)
            for run_id, checksums in self.checksums(runs).items()
            for path, checksum in checksums.items()
            if is_wanted(path) and not (self.path / path).exists()
        }
        if not missing:
            return
        self.files.fetch({path: self.path / path for path in missing})
        for path, (run_id, checksum) in missing.items():
            if file_sha256(self.path / path) != checksum:
                (self.path / path).unlink()
                raise InputError(
                    "the file differs from its checksum",
                    where=f"{self.location}/{path}",
                    hint=mending(run_id, self.location),
                )

    def _existing(self, runs: Collection[str] | None) -> list[str]:
        """Return those of these runs that are there, or all runs that are."""
        if runs is None:
            return self._names()
        self._copy_manifests(run_id for run_id in runs if is_valid_name(run_id, RunId))
        return [run_id for run_id in runs if super(RemoteStore, self).has(run_id)]

    def _names(self, beginning: str = "") -> list[str]:
        """Return the ids of the runs with a manifest that begin so, sorted."""
        listed = self.files.names("runs")
        if not listed:
            raise InputError(
                "there is no store here",
                where=self.location,
                hint="`benchkit results push` creates one; on a web server that lists no folders, name a run's whole id",
            )
        self._copy_manifests(name for name in listed if name.startswith(beginning) and is_valid_name(name, RunId))
        return super()._names(beginning)

    def _copy_manifests(self, runs: Iterable[str]) -> None:
        missing = [self.manifest_path(run_id) for run_id in runs if not super(RemoteStore, self).has(run_id)]
        for path, content in self.files.read(missing).items():
            self._write(path, content)

    def _write(self, path: str, content: bytes) -> None:
        target = self.path / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)


class RemoteRun(RunFolder):
    """A run of a remote store: its files are copied as they are read."""

    def __init__(self, store: RemoteStore, run_id: str) -> None:
        """Read the run of this id."""
        super().__init__(store.path / "runs" / run_id)
        self._store = store

    @property
    def location(self) -> str:
        """URL of the run's folder."""
        return f"{self._store.location}/runs/{self.run_id}"

    @property
    def report(self) -> Path:
        """Default folder of the report of the run, in the working directory."""
        return Path(f"report-{self.run_id}")

    def manifest(self) -> Manifest:
        """Read the manifest. Raises InputError as for a folder, with the URL of the store."""
        self._store.has(self.run_id)
        try:
            return super().manifest()
        except InputError as error:
            where = (error.where or "").replace(str(self._store.path), self._store.location)
            raise InputError(error.what, where=where, why=error.why, hint=error.hint) from None

    def history(self) -> Iterator[JournalEvent]:
        """Iterate over the events of the journal."""
        self._require(lambda path: self._store.path / path == self.journal_file)
        return super().history()

    def is_locked(self) -> bool:
        """Return False: only runs that have ended are published."""
        return False

    def complete_trials(self) -> list[str]:
        """Return the ids of the trials with complete raw files, sorted."""
        self._require(lambda path: path.endswith(f"/{RECORD}"))
        return super().complete_trials()

    def record(self, trial_id: str) -> TrialRecord:
        """Read the record of a stored trial. Raises InputError if it is missing or damaged."""
        self._require(lambda path: self._store.path / path == self.raw(trial_id) / RECORD)
        return super().record(trial_id)

    def records(self) -> Iterator[TrialRecord]:
        """Iterate over the records of all trials that ended, in the order of execution; they are copied at once."""
        self._require(lambda path: path.endswith(f"/{RECORD}"))
        return super().records()

    def raw_file_names(self, trial_id: str) -> list[str]:
        """Return the names of a trial's raw files; none where it has no folder."""
        folder = self.raw(trial_id)
        paths = map(self._store.path.joinpath, self._store.checksums([self.run_id])[self.run_id])
        return sorted(path.name for path in paths if path.parent == folder)

    def raw_file(self, trial_id: str, name: str) -> bytes:
        """Read one of a trial's raw files. Raises InputError if it is missing."""
        folder = self.raw(trial_id)
        wanted = {folder / name, folder / f"{name}{COMPRESSED}"}
        self._require(lambda path: self._store.path / path in wanted)
        return super().raw_file(trial_id, name)

    @contextlib.contextmanager
    def all_files(self) -> Iterator[None]:
        """Have all files of the run below `path` and in the tables during the block, as they are there: not verified.

        Missing ones stay missing.
        """
        store = self._store
        paths = store.checksums([self.run_id])[self.run_id]
        folders = {path.rpartition("/")[0] for path in paths if path.startswith("tables/")}
        there = [path for folder in (f"runs/{self.run_id}", *sorted(folders)) for path in store.files.listing(folder)]
        store.files.fetch({path: store.path / path for path in there if path in paths})
        try:
            yield
        finally:
            for path in paths:
                (store.path / path).unlink(missing_ok=True)

    def _require(self, is_wanted: Callable[[str], bool]) -> None:
        self._store.require([self.run_id], is_wanted)
