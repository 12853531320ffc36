"""The layout of a store: the files of a run, as paths from the folder of the store, and the list of their checksums.

Only these files are checksummed, published and fetched.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path

from benchkit.errors import InputError
from benchkit.models.base import Name
from benchkit.models.rows import TABLES
from benchkit.models.run import RawFileName, TrialId
from benchkit.validation import is_valid_name

Partition = tuple[str, str]
"""A run's part of a table: (scenario, run_id)."""

Checksums = Mapping[str, str]
"""SHA-256 of files by their path from the folder of the store."""

MANIFEST, JOURNAL, LOG, LOCK, REPORT = "manifest.json", "journal.jsonl", "run.log", ".lock", "report"
CHECKSUMS = "checksums.sha256"

_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def manifest_path(run_id: str) -> str:
    """Return the path of a run's manifest from the folder of the store."""
    return f"runs/{run_id}/{MANIFEST}"


def checksums_path(run_id: str) -> str:
    """Return the path of a run's checksums from the folder of the store."""
    return f"runs/{run_id}/{CHECKSUMS}"


def part_of(path: str) -> Partition:
    """Return the scenario and run of a table's file, given its path from the folder of the store."""
    _, _, scenario, run_id, _ = path.split("/")
    return scenario.removeprefix("scenario="), run_id.removeprefix("run_id=")


def is_file_of_run(path: str, run_id: str) -> bool:
    """Return True for the path of a file that the run may have: manifest, journal, raw file, or rows of a table."""
    match path.split("/"):
        case ["runs", name, file]:
            return name == run_id and file in {MANIFEST, JOURNAL}
        case ["runs", name, "raw", trial_id, file]:
            return name == run_id and is_valid_name(trial_id, TrialId) and is_valid_name(file, RawFileName)
        case ["tables", table, scenario, name, file]:
            is_partition = name == f"run_id={run_id}" and scenario.startswith("scenario=")
            is_named = is_valid_name(scenario.removeprefix("scenario="), Name) and is_valid_name(file, TrialId)
            return table in TABLES and is_partition and is_named and file.endswith(".parquet")
    return False


def files_of_run(store: Path, run_id: str) -> list[str]:
    """Return the paths of the files that a run has, sorted; symbolic links, which may lead anywhere, are omitted."""
    patterns = (f"runs/{run_id}/*", f"runs/{run_id}/raw/*/*", f"tables/*/scenario=*/run_id={run_id}/*")
    files = (path for pattern in patterns for path in store.glob(pattern))
    own = (path for path in files if not (path.is_symlink() or path.parent.is_symlink()))
    return sorted(name for path in own if is_file_of_run(name := path.relative_to(store).as_posix(), run_id))


def table_files(
    store: Path, table: str, runs: Collection[str] | None, scenario: str | None
) -> dict[Partition, tuple[Path, ...]]:
    """Return the files of a table by run, sorted by path: of these runs or all, of that scenario or any (None).

    Runs without files are omitted.
    """
    found: dict[Partition, tuple[Path, ...]] = {}
    folder = store / "tables" / table
    for of_scenario in _partitions(folder, "scenario", None if scenario is None else [scenario]):
        for of_run in _partitions(of_scenario, "run_id", runs):
            files = sorted(of_run.glob("*.parquet"))
            merged = of_run / f"{table}.parquet"
            if merged not in files and merged.exists():
                files = sorted(of_run.glob("*.parquet"))  # it was merged while it was listed
            if files:
                found[of_scenario.name.removeprefix("scenario="), of_run.name.removeprefix("run_id=")] = tuple(files)
    return found


def _partitions(path: Path, key: str, values: Collection[str] | None) -> list[Path]:
    folders = path.glob(f"{key}=*") if values is None else (path / f"{key}={value}" for value in values)
    return sorted(folder for folder in folders if folder.is_dir())


def checksums_text(checksums: Checksums) -> bytes:
    """Return the content of the file with these checksums: lines of `sha256sum`."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(checksums.items())).encode()


def parse_checksums(store: str, run_id: str, content: bytes) -> Checksums:
    """Return the checksums in the file of a run. Raises InputError for a damaged file, of the store at `store`."""
    checksums = {}
    for number, line in enumerate(content.decode("utf-8", "replace").splitlines(), 1):
        parts = _LINE.fullmatch(line)
        if parts is None or not is_file_of_run(parts[2], run_id):
            raise InputError(
                "the checksums of the run are damaged",
                where=f"{store}/{checksums_path(run_id)}:{number}",
                why="the line is not a checksum of a file of this run",
                hint="restore the file from a backup, or remove it: the run is then checked without checksums",
            )
        checksums[parts[2]] = parts[1]
    return checksums
