"""The files of a store that is a folder: they are listed there, and nothing has to be fetched.

`benchkit.store.remote_copy.RemoteCopy` has the same methods for a store below a URL. `Store` and `RunFolder` list and
fetch files by them, and then read the files of a folder in either case.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from benchkit.errors import InputError
from benchkit.models.base import Name
from benchkit.models.run import RunId
from benchkit.store.layout import REPORT, Partition
from benchkit.validation import is_valid_name


class LocalFiles:
    """The files of a store that is a folder."""

    filesystem = None
    """File system of fsspec, for libraries that read URLs through one."""

    def __init__(self, path: Path) -> None:
        """Use the folder at `path`, which need not exist yet."""
        self.path = path
        self.location = str(path)
        """Folder or URL of the store, as messages name it."""

    @property
    def absolute_location(self) -> str:
        """The same location for a process in another folder."""
        return str(self.path.resolve())

    def report(self, run_id: str) -> Path:
        """Return the default folder of the report of a run."""
        return self.path / "runs" / run_id / REPORT

    def locate(self, path: Path) -> str:
        """Return the path or URL of a file or folder of the store, as messages name it."""
        return str(path)

    def raw_file_names(self, run_id: str, trial_id: str) -> list[str]:
        """Return the names of a trial's raw files as they are stored; none where it has no folder."""
        folder = self.path / "runs" / run_id / "raw" / trial_id
        return sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []

    def table_scenarios(self) -> set[str]:
        """Return the scenarios that have rows of trials."""
        return {folder.name.removeprefix("scenario=") for folder in (self.path / "tables/trials").glob("scenario=*")}

    def table_files(
        self, table: str, runs: Collection[str] | None, scenario: str | None
    ) -> dict[Partition, tuple[Path, ...]]:
        """Return the files of a table by run, sorted by path: of these runs or all, of that scenario or any (None).

        Runs without files are omitted.
        """
        found: dict[Partition, tuple[Path, ...]] = {}
        folder = self.path / "tables" / table
        for of_scenario in sorted(_partitions(folder, "scenario", None if scenario is None else [scenario])):
            for of_run in sorted(_partitions(of_scenario, "run_id", runs)):
                if files := _parquet_files(of_run, table):
                    found[_partition(of_scenario, "scenario", Name), _partition(of_run, "run_id", RunId)] = files
        return found

    def fetch_listed_manifests(self, _beginning: str) -> None:
        """Do nothing: these manifests are in the folder already."""

    def fetch_manifests(self, _runs: Iterable[str]) -> None:
        """Do nothing: existing manifests are in the folder already."""

    def fetch(self, _runs: Iterable[str], _is_wanted: Callable[[str], bool]) -> None:
        """Do nothing: the files are in the folder already."""

    @contextlib.contextmanager
    def unverified(self, _run_id: str) -> Iterator[Path]:
        """Yield a folder with the layout of a store, which has the files of a run as they are."""
        yield self.path


def _parquet_files(folder: Path, table: str) -> tuple[Path, ...]:
    """Return the Parquet files of a run's part of a table, sorted.

    The merged file takes its name before the files that it replaces are deleted. A listing made during a merge may lack
    files of both kinds, and is repeated.
    """
    files = sorted(folder.glob("*.parquet"))
    merged = folder / f"{table}.parquet"
    return tuple(files if merged in files or not merged.exists() else sorted(folder.glob("*.parquet")))


def _partitions(path: Path, key: str, values: Collection[str] | None) -> list[Path]:
    """Return the folders of a partition key for these values, or for all (None)."""
    if values is not None:
        return [folder for folder in (path / f"{key}={value}" for value in values) if folder.is_dir()]
    if not path.is_dir():
        return []
    return [Path(entry.path) for entry in os.scandir(path) if entry.name.startswith(f"{key}=") and entry.is_dir()]


def _partition(folder: Path, key: str, kind: Any) -> str:  # noqa: ANN401 - an annotated type
    """Return the value of a partition key in the name of a folder. Raises InputError for an invalid name."""
    value = folder.name.removeprefix(f"{key}=")
    if not is_valid_name(value, kind):
        raise InputError(
            f"the folder of a table has a name that benchkit never gives: {value!r} as {key}",
            where=str(folder),
            hint="remove the folder from the store, or give it its name back",
        )
    return value
