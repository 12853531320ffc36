"""The checksums of a run's files, recorded when the run ends: what has changed since then is damaged.

They are lines of `sha256sum`, with paths from the folder of the store, so that `sha256sum -c runs/RUN/checksums.sha256`
verifies them there too. Log, lock and report of a run have none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from benchkit.errors import InputError
from benchkit.files import file_sha256, read_regular
from benchkit.store.durable_files import BY_UMASK, PRIVATE, write_atomically
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


def write_checksums(store: Store, run: RunFolder) -> None:
    """Record the checksums of all files of a run that has ended."""
    _write(run, compute_checksums(store, run))


def compute_checksums(store: Store, run: RunFolder) -> Checksums:
    """Return the checksums of all files of a run as they are now."""
    return _compute(store, files_of_run(store.path, run.run_id))


def update_checksums(store: Store, run: RunFolder, *, with_journal: bool = False) -> None:
    """Record the checksums of the tables again, and of the journal if it was rebuilt as well; all others stay.

    A run that never ended has none, and gets none.
    """
    recorded = read_checksums(store, run)
    if recorded is not None:
        others = {path: checksum for path, checksum in recorded.items() if not path.startswith("tables/")}
        journal = run.journal_file.relative_to(store.path).as_posix()
        rebuilt = [
            path
            for path in files_of_run(store.path, run.run_id)
            if path.startswith("tables/") or (with_journal and path == journal)
        ]
        _write(run, {**others, **_compute(store, rebuilt)})


def remove_checksums(run: RunFolder) -> None:
    """Remove the checksums of a run that is resumed."""
    (run.path / CHECKSUMS).unlink(missing_ok=True)


def read_checksums(store: Store, run: RunFolder) -> Checksums | None:
    """Read the checksums of a run; None where it has none. Raises InputError for a file that is damaged or no file."""
    try:
        text = read_regular(run.path / CHECKSUMS).decode("utf-8", "replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(
            "cannot read the checksums of the run",
            where=f"{store.location}/{checksums_path(run.run_id)}",
            why=error.strerror,
            hint="restore the file from a backup, or remove it: the run is then checked without checksums",
        ) from None
    return parse_checksums(store.location, run.run_id, text)


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


def damaged_trials(store: Store, run: RunFolder) -> dict[str, InputError]:
    """Return the trials with raw files that differ from their checksums, each with the first of these files."""
    recorded = read_checksums(store, run) or {}
    raw = {path: checksum for path, checksum in recorded.items() if path.startswith(_raw_prefix(run))}
    damaged: dict[str, InputError] = {}
    for path, what in changed_files(store, raw).items():
        trial_id = path.removeprefix(_raw_prefix(run)).partition("/")[0]
        error = InputError(
            f"the raw file {what}",
            where=str(store.path / path),
            hint="restore it from a backup; "
            f"`benchkit results check {run.run_id} --repair` rebuilds the tables of the other trials and keeps the rows of this one",
        )
        damaged.setdefault(trial_id, error)
    return damaged


def _compute(store: Store, paths: Iterable[str]) -> dict[str, str]:
    return {path: file_sha256(store.path / path) for path in paths}


def _write(run: RunFolder, checksums: Checksums) -> None:
    write_atomically(run.path / CHECKSUMS, checksums_text(checksums))


def _raw_prefix(run: RunFolder) -> str:
    return f"runs/{run.run_id}/raw/"


def read_all_but_raw(store: Store, run: RunFolder) -> Mapping[str, bytes]:
    """Return the contents of all files of a run, checksums included, except raw files."""
    paths = [path for path in files_of_run(store.path, run.run_id) if not path.startswith(_raw_prefix(run))]
    recorded = [checksums_path(run.run_id)] if (run.path / CHECKSUMS).exists() else []
    return {path: read_regular(store.path / path) for path in (*paths, *recorded)}


def restore_all_but_raw(store: Store, run: RunFolder, contents: Mapping[str, bytes]) -> None:
    """Restore these files of a run, and remove all others except raw files, so that they fit on a full disk."""
    for path in read_all_but_raw(store, run):
        if path not in contents or path.startswith("tables/"):
            (store.path / path).unlink()
    for path, content in contents.items():
        write_atomically(store.path / path, content, PRIVATE if path == manifest_path(run.run_id) else BY_UMASK)
