"""Verification of stored runs by the checksums of their files.

Checksums are recorded when a run ends, as lines of `sha256sum` with paths from the folder of the store:
`sha256sum -c runs/RUN/checksums.sha256` verifies them there too. Log, lock and report of a run have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchkit.errors import InputError
from benchkit.files import file_sha256, read_regular
from benchkit.store.durable_files import write_atomically
from benchkit.store.layout import (
    CHECKSUMS,
    Checksums,
    checksums_path,
    checksums_text,
    files_of_run,
    manifest_path,
    parse_checksums,
)
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store


@dataclass(frozen=True)
class CheckedRun:
    """The result of verifying a run."""

    run_id: str
    status: Literal["intact", "damaged", "in use", "without checksums"]
    damages: Mapping[str, str] = field(default_factory=dict)
    """What is wrong with its files, as predicates (`is missing`), by path from the folder of the store."""


def write_checksums(store: Store, run: RunFolder) -> None:
    """Record the checksums of all files of a run that has ended."""
    write_atomically(run.path / CHECKSUMS, checksums_text(compute_checksums(store, run)))


def compute_checksums(store: Store, run: RunFolder) -> Checksums:
    """Return the checksums of all files of a run as they are now."""
    return {path: file_sha256(store.path / path) for path in files_of_run(store.path, run.run_id)}


def remove_checksums(run: RunFolder) -> None:
    """Remove the checksums of a run that is resumed."""
    (run.path / CHECKSUMS).unlink(missing_ok=True)


def read_checksums(store: Store, run: RunFolder) -> Checksums | None:
    """Read the checksums of a run; None without any. Raises InputError for damaged ones, and for what is not a file."""
    try:
        content = read_regular(run.path / CHECKSUMS)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            "cannot read the checksums of the run",
            where=f"{store.location}/{checksums_path(run.run_id)}",
            why=error.strerror,
            hint="restore the file from a backup, or remove it: the run is then checked without checksums",
        ) from None
    return parse_checksums(store.location, run.run_id, content)


def changed_files(store: Store, checksums: Checksums) -> dict[str, str]:
    """Return the files that are missing or differ from their checksums, each with what is wrong with it."""
    changed = {}
    for path, checksum in checksums.items():
        try:
            if file_sha256(store.path / path) != checksum:
                changed[path] = "differs from its checksum"
        except (FileNotFoundError, NotADirectoryError):
            changed[path] = "is missing"
        except OSError as error:
            changed[path] = f"cannot be read: {error.strerror}"
    return changed


def require_unchanged(store: Store, run: RunFolder, beginning: str = "") -> None:
    """Raise InputError where a file of the run with this beginning of its path differs from its recorded checksum."""
    recorded = read_checksums(store, run) or {}
    wanted = {path: checksum for path, checksum in recorded.items() if path.startswith(beginning)}
    for path, what in changed_files(store, wanted).items():
        raise InputError(
            f"a file of the run {what}",
            where=str(store.path / path),
            hint=f"restore it from a backup; `benchkit results check {run.run_id}` names all damaged files",
        )


def check_store(store: Store, run: str | None) -> list[CheckedRun]:
    """Verify one run, or all, including those whose manifest cannot be read. Raises InputError for an unknown run."""
    if run is not None:
        return [_check(store, store.run(run))]
    readable, unreadable = store.survey()
    checked = [_check(store, each) for each, _ in readable]
    for run_id, error in unreadable.items():
        checked.append(CheckedRun(run_id, "damaged", {manifest_path(run_id): _sentence(error)}))
    for folder in store.leftovers():
        damage = {manifest_path(folder.name): "is missing: an interrupted removal or pull left the folder"}
        checked.append(CheckedRun(folder.name, "damaged", damage))
    return checked


def _check(store: Store, run: RunFolder) -> CheckedRun:
    if run.is_locked():
        return CheckedRun(run.run_id, "in use")
    try:
        checksums = read_checksums(store, run)
    except InputError as error:
        return CheckedRun(run.run_id, "damaged", {checksums_path(run.run_id): _sentence(error)})
    if checksums is None:
        return CheckedRun(run.run_id, "without checksums")
    found = changed_files(store, checksums)
    return CheckedRun(run.run_id, "damaged" if found else "intact", found)


def _sentence(error: InputError) -> str:
    return ": ".join(filter(None, (error.what, error.why)))
