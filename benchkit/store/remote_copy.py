"""A local copy of those files of a store below a URL that a command needs, which `Store` then reads like any folder.

The copy is a temporary folder with the layout of a store. It is filled as files are needed, each verified against its
checksum, and removed when its `RemoteCopy` is deleted. A run is there once it has its manifest, which
`benchkit.store.transfer` writes last. Its checksums name all its files: one run is read without listing any folder.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path

from benchkit.errors import InputError
from benchkit.files import file_sha256
from benchkit.models.run import RunId
from benchkit.store.layout import (
    Checksums,
    Partition,
    checksums_path,
    manifest_path,
    parse_checksums,
    part_of,
    table_path,
)
from benchkit.store.remote_files import RemoteFiles
from benchkit.validation import is_valid_name


def push_advice(run_id: str, url: str) -> str:
    """Return the advice on a damaged file of a published run."""
    return f"`benchkit results push {run_id} {url}` writes it again, from a folder that has the run"


class RemoteCopy:
    """The files of a store below a URL, fetched into a folder as they are asked for.

    Its methods are those of `benchkit.store.local_files.LocalFiles`.
    """

    def __init__(self, url: str) -> None:
        """Use the store at `url`; nothing is read yet. Raises InputError for a URL that cannot be used."""
        self.remote = RemoteFiles(url)
        self.location = self.absolute_location = self.remote.url
        """URL of the store."""
        self.filesystem = self.remote.filesystem
        folder = tempfile.mkdtemp(prefix="benchkit-store-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder)
        """Folder of the copy."""
        self._checksums: dict[str, Checksums] = {}

    def report(self, run_id: str) -> Path:
        """Return the default folder of the report of a run, in the working directory."""
        return Path(f"report-{run_id}")

    def locate(self, path: Path) -> str:
        """Return the URL of a file or folder of the copy."""
        return f"{self.location}/{path.relative_to(self.path).as_posix()}"

    def fetch_listed_manifests(self, beginning: str) -> None:
        """Fetch the manifests of all runs whose ids have this prefix. Raises InputError for an empty store."""
        self.fetch_manifests(self._run_names(beginning))

    def _run_names(self, beginning: str = "") -> list[str]:
        listed = self.remote.names("runs")
        if not listed:
            raise InputError(
                "there is no store here",
                where=self.location,
                hint="`benchkit results push` creates one; on a web server that lists no folders, name a run's whole id",
            )
        return [name for name in listed if name.startswith(beginning)]

    def raw_file_names(self, run_id: str, trial_id: str) -> list[str]:
        """Return the names of a trial's raw files as they are stored; none is fetched."""
        beginning = f"runs/{run_id}/raw/{trial_id}/"
        paths = self.checksums([run_id])[run_id]
        return sorted(path.removeprefix(beginning) for path in paths if path.startswith(beginning))

    def table_scenarios(self) -> set[str]:
        """Return the scenarios that have rows of trials."""
        return {scenario for scenario, _ in self.table_files("trials", None, None)}

    def table_files(
        self, table: str, runs: Collection[str] | None, scenario: str | None
    ) -> dict[Partition, tuple[Path, ...]]:
        """Return the files of a table in the copy by run, as checksums name them; none is fetched."""
        wanted = self._run_names() if runs is None else runs
        self.fetch_manifests(wanted)
        beginning = table_path(table, scenario)
        found: dict[Partition, tuple[Path, ...]] = {}
        for checksums in self.checksums(run_id for run_id in wanted if self._has(manifest_path(run_id))).values():
            for path in sorted(path for path in checksums if path.startswith(beginning)):
                part = part_of(path)
                found[part] = (*found.get(part, ()), self.path / path)
        return dict(sorted(found.items()))

    def fetch_manifests(self, runs: Iterable[str]) -> None:
        """Fetch the manifests of these runs, as far as they exist."""
        paths = (manifest_path(run_id) for run_id in runs if is_valid_name(run_id, RunId))
        for path, content in self.remote.read(path for path in paths if not self._has(path)).items():
            target = self.path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)

    def fetch(self, runs: Iterable[str], is_wanted: Callable[[str], bool]) -> None:
        """Fetch the wanted files of runs that the copy lacks; `is_wanted` gets paths from the store's folder.

        Raises InputError for a missing file, and for one that differs from its checksum.
        """
        missing = {
            path: (run_id, checksum)
            for run_id, checksums in self.checksums(runs).items()
            for path, checksum in checksums.items()
            if is_wanted(path) and not self._has(path)
        }
        if not missing:
            return
        self.remote.fetch({path: self.path / path for path in missing})
        for path, (run_id, checksum) in missing.items():
            if file_sha256(self.path / path) != checksum:
                (self.path / path).unlink()
                raise InputError(
                    "the file differs from its checksum",
                    where=f"{self.location}/{path}",
                    hint=push_advice(run_id, self.location),
                )

    def checksums(self, runs: Iterable[str]) -> dict[str, Checksums]:
        """Return the checksums of runs, which name all their files. Raises InputError where a run has none."""
        wanted = list(runs)
        paths = {checksums_path(run_id): run_id for run_id in wanted if run_id not in self._checksums}
        for path, content in self.remote.read(paths).items():
            self._checksums[paths[path]] = parse_checksums(self.location, paths[path], content.decode(errors="replace"))
        for run_id in wanted:
            if run_id not in self._checksums:
                raise InputError(
                    "the run has no checksums, which name its files",
                    where=f"{self.location}/{checksums_path(run_id)}",
                    hint="publish it with `benchkit results push`, which writes them",
                )
        return {run_id: self._checksums[run_id] for run_id in wanted}

    @contextlib.contextmanager
    def unverified(self, run_id: str) -> Iterator[Path]:
        """Yield a separate folder with the existing files of a run, unverified."""
        paths = {*self.checksums([run_id])[run_id], checksums_path(run_id)}
        folders = {path.rpartition("/")[0] for path in paths if path.startswith("tables/")}
        there = [path for folder in (f"runs/{run_id}", *sorted(folders)) for path in self.remote.listing(folder)]
        with tempfile.TemporaryDirectory(prefix="benchkit-run-") as folder:
            self.remote.fetch({path: Path(folder, path) for path in there if path in paths})
            yield Path(folder)

    def _has(self, path: str) -> bool:
        return (self.path / path).is_file()
