"""A local copy of those files of a store below a URL that a command needs, which `Store` then reads like any folder.

The copy is a temporary folder with the layout of a store. It is filled as files are needed, each verified against its
checksum, and is removed with the copy. A run is there once it has its manifest, which `benchkit.store.transfer` writes
last. Its checksums name all its files: one run is read without listing any folder.
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
    """The files of a store below a URL, fetched into a folder as they are asked for."""

    def __init__(self, url: str) -> None:
        """Use the store at `url`; nothing is read yet. Raises InputError for a URL that cannot be used."""
        self.files = RemoteFiles(url)
        folder = tempfile.mkdtemp(prefix="benchkit-store-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        self.path = Path(folder)
        """Folder of the copy."""
        self._checksums: dict[str, Checksums] = {}

    @property
    def url(self) -> str:
        """URL of the store."""
        return self.files.url

    def run_names(self, beginning: str = "") -> list[str]:
        """Return the names of the folders of runs that begin so, by a listing. Raises InputError for an empty store."""
        listed = self.files.names("runs")
        if not listed:
            raise InputError(
                "there is no store here",
                where=self.url,
                hint="`benchkit results push` creates one; on a web server that lists no folders, name a run's whole id",
            )
        return [name for name in listed if name.startswith(beginning)]

    def fetch_manifests(self, runs: Iterable[str]) -> list[str]:
        """Fetch the manifests of those of these runs that are there, and return the ids of these."""
        files = {run_id: manifest_path(run_id) for run_id in runs if is_valid_name(run_id, RunId)}
        for path, content in self.files.read(path for path in files.values() if not self._has(path)).items():
            target = self.path / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
        return [run_id for run_id, path in files.items() if self._has(path)]

    def fetch_table(self, table: str, runs: Collection[str] | None, scenario: str | None) -> None:
        """Fetch the files of a table: of these runs, or of all (None), and of that scenario, or of any (None)."""
        beginning = table_path(table, scenario)
        self.fetch(self._existing(runs), lambda path: path.startswith(beginning))

    def fetch(self, runs: Iterable[str], is_wanted: Callable[[str], bool]) -> None:
        """Fetch those files of runs that are wanted and not here yet; `is_wanted` gets paths from the store's folder.

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
        self.files.fetch({path: self.path / path for path in missing})
        for path, (run_id, checksum) in missing.items():
            if file_sha256(self.path / path) != checksum:
                (self.path / path).unlink()
                raise InputError(
                    "the file differs from its checksum",
                    where=f"{self.url}/{path}",
                    hint=push_advice(run_id, self.url),
                )

    def checksums(self, runs: Iterable[str]) -> dict[str, Checksums]:
        """Return the checksums of runs, which name all their files. Raises InputError where a run has none."""
        wanted = list(runs)
        paths = {checksums_path(run_id): run_id for run_id in wanted if run_id not in self._checksums}
        for path, content in self.files.read(paths).items():
            self._checksums[paths[path]] = parse_checksums(self.url, paths[path], content.decode(errors="replace"))
        for run_id in wanted:
            if run_id not in self._checksums:
                raise InputError(
                    "the run has no checksums, which name its files",
                    where=f"{self.url}/{checksums_path(run_id)}",
                    hint="publish it with `benchkit results push`, which writes them",
                )
        return {run_id: self._checksums[run_id] for run_id in wanted}

    def names_in(self, run_id: str, folder: str) -> list[str]:
        """Return the names of a run's files in one of its folders, sorted; none is fetched."""
        paths = (path.rpartition("/") for path in self.checksums([run_id])[run_id])
        return sorted(name for of, _, name in paths if of == folder)

    def part_urls(
        self, table: str, runs: Collection[str] | None, scenario: str | None
    ) -> dict[Partition, tuple[str, ...]]:
        """Return the URLs of the files of a table by run, as checksums name them; none is fetched."""
        beginning = table_path(table, scenario)
        found: dict[Partition, tuple[str, ...]] = {}
        for checksums in self.checksums(self._existing(runs)).values():
            for path in sorted(path for path in checksums if path.startswith(beginning)):
                part = part_of(path)
                found[part] = (*found.get(part, ()), f"{self.url}/{path}")
        return dict(sorted(found.items()))

    @contextlib.contextmanager
    def unverified(self, run_id: str) -> Iterator[Path]:
        """Have a run's files as they are there, none verified, in a folder of their own during the block.

        Missing ones stay missing.
        """
        paths = {*self.checksums([run_id])[run_id], checksums_path(run_id)}
        folders = {path.rpartition("/")[0] for path in paths if path.startswith("tables/")}
        there = [path for folder in (f"runs/{run_id}", *sorted(folders)) for path in self.files.listing(folder)]
        with tempfile.TemporaryDirectory(prefix="benchkit-run-") as folder:
            self.files.fetch({path: Path(folder, path) for path in there if path in paths})
            yield Path(folder)

    def _existing(self, runs: Collection[str] | None) -> list[str]:
        return self.fetch_manifests(self.run_names() if runs is None else runs)

    def _has(self, path: str) -> bool:
        return (self.path / path).is_file()
