"""The files of a run, as paths from the folder of the store, and the list of their checksums.

Only these files are checksummed, published and fetched. A run has no symbolic links: one that leads elsewhere would
publish the file that it names.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchkit.errors import InputError
from benchkit.models.base import Name
from benchkit.models.rows import TABLES
from benchkit.models.run import RunId, TrialId
from benchkit.validation import is_valid_name

Partition = tuple[str, str]
"""A run's part of a table: (scenario, run_id)."""

MANIFEST, JOURNAL, LOG, LOCK, REPORT = "manifest.json", "journal.jsonl", "run.log", ".lock", "report"
CHECKSUMS = "checksums.sha256"

_RAW = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._@+:-]{0,254}\.(txt|log|json|jsonl|tar|gz)(\.zst)?")
"""Names of raw files: outputs of tools, logs, records, telemetry, slices and profiles."""
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")

Checksums = Mapping[str, str]
"""SHA-256 of files by their path from the folder of the store."""


def manifest_path(run_id: str) -> str:
    """Return the path of a run's manifest from the folder of the store."""
    return f"runs/{run_id}/{MANIFEST}"


def table_path(table: str, scenario: str | None) -> str:
    """Return the prefix of a table's paths from the folder of the store, for one scenario or for all (None)."""
    return f"tables/{table}/" + (f"scenario={scenario}/" if scenario is not None else "")


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
            return name == run_id and is_valid_name(trial_id, TrialId) and _RAW.fullmatch(file) is not None
        case ["tables", table, scenario, name, file]:
            is_partition = name == f"run_id={run_id}" and scenario.startswith("scenario=")
            has_names = is_valid_name(scenario.removeprefix("scenario="), Name) and is_valid_name(
                file.removesuffix(".parquet"), TrialId
            )
            return table in TABLES and is_partition and has_names and file.endswith(".parquet")
    return False


def files_of_run(store: Path, run_id: str) -> list[str]:
    """Return the paths of the files that a run has, sorted."""
    found = (path.relative_to(store).as_posix() for path in _entries(store, run_id) if _is_regular(path))
    return sorted(path for path in found if is_file_of_run(path, run_id))


def irregular_entries(store: Path, run_id: str) -> list[str]:
    """Return the paths of what is neither a file nor a folder within a run: symbolic links, FIFOs, devices."""
    return sorted(
        path.relative_to(store).as_posix()
        for path in _entries(store, run_id)
        if not _is_regular(path) and (path.is_symlink() or not path.is_dir())
    )


def table_folders(store: Path, table: str, run_id: str) -> list[Path]:
    """Return the folders with a run's rows of a table: one, as a run belongs to one scenario."""
    return (
        sorted((store / "tables" / table).glob(f"scenario=*/run_id={run_id}")) if is_valid_name(run_id, RunId) else []
    )


def _entries(store: Path, run_id: str) -> Iterator[Path]:
    """Yield the folders of a run and all that is in them, except its report. Links are not followed."""
    run = store / "runs" / run_id
    yield run
    yield from _below(run)
    for table in TABLES:
        for folder in table_folders(store, table, run_id):
            yield folder.parent
            yield folder
            yield from _below(folder)


def _below(folder: Path) -> Iterator[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name == REPORT and folder.parent.name == "runs":
                continue
            yield Path(entry.path)
            if entry.is_dir(follow_symlinks=False):
                yield from _below(Path(entry.path))


def _is_regular(path: Path) -> bool:
    return stat.S_ISREG(path.lstat().st_mode)


def checksums_path(run_id: str) -> str:
    """Return the path of a run's checksums from the folder of the store."""
    return f"runs/{run_id}/{CHECKSUMS}"


def checksums_text(checksums: Checksums) -> bytes:
    """Return the content of the file with these checksums."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(checksums.items())).encode()


def parse_checksums(store: str, run_id: str, text: str) -> Checksums:
    """Return the checksums in the file of a run. Raises InputError for a damaged file, of the store at `store`."""
    checksums = {}
    for number, line in enumerate(text.splitlines(), 1):
        parts = _LINE.fullmatch(line)
        if parts is None or not is_file_of_run(parts[2], run_id):
            raise InputError(
                "the checksums of the run are damaged",
                where=f"{store}/{checksums_path(run_id)}:{number}",
                why="the line is no checksum of a file of this run",
                hint="restore the file from a backup, or remove it: the run is then checked without checksums",
            )
        checksums[parts[2]] = parts[1]
    return checksums
