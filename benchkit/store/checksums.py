"""The checksums of a run's files, recorded when the run ends: what has changed since then is damaged.

They are lines of `sha256sum`, with paths from the folder of the store, so that `sha256sum -c runs/RUN/checksums.sha256`
verifies them there too. Log, lock and report of a run have none.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from benchkit.errors import InputError
from benchkit.files import open_regular, read_regular
from benchkit.store.durable_files import BY_UMASK, PRIVATE, write_atomically
from benchkit.store.layout import manifest_path
from benchkit.store.run_folder import RunFolder, files_of_run, is_file_of_run
from benchkit.store.store import Store

_NAME = "checksums.sha256"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")

Checksums = Mapping[str, str]
"""SHA-256 of files by their path from the folder of the store."""


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


def checksums_path(run_id: str) -> str:
    """Return the path of a run's checksums from the folder of the store."""
    return f"runs/{run_id}/{_NAME}"


def checksums_text(checksums: Checksums) -> bytes:
    """Return the content of the file with these checksums."""
    return "".join(f"{checksum}  {path}\n" for path, checksum in sorted(checksums.items())).encode()


def remove_checksums(run: RunFolder) -> None:
    """Remove the checksums of a run that is resumed."""
    (run.path / _NAME).unlink(missing_ok=True)


def read_checksums(store: Store, run: RunFolder) -> Checksums | None:
    """Read the checksums of a run; None where it has none. Raises InputError for a file that is damaged or no file."""
    try:
        text = read_regular(run.path / _NAME).decode("utf-8", "replace")
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


def changed_files(store: Store, run: RunFolder, checksums: Checksums, *, only_raw: bool = False) -> dict[str, str]:
    """Return the files that are missing or differ from their checksums, each with what is wrong with it."""
    changed = {}
    for path, checksum in checksums.items():
        if only_raw and not path.startswith(_raw_prefix(run)):
            continue
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
    damaged: dict[str, InputError] = {}
    for path, what in changed_files(store, run, read_checksums(store, run) or {}, only_raw=True).items():
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
    write_atomically(run.path / _NAME, checksums_text(checksums))


def _raw_prefix(run: RunFolder) -> str:
    return f"runs/{run.run_id}/raw/"


def read_all_but_raw(store: Store, run: RunFolder) -> Mapping[str, bytes]:
    """Return the contents of the files of a run, its checksums too, without raw files."""
    paths = [path for path in files_of_run(store.path, run.run_id) if not path.startswith(_raw_prefix(run))]
    recorded = [checksums_path(run.run_id)] if (run.path / _NAME).exists() else []
    return {path: read_regular(store.path / path) for path in (*paths, *recorded)}


def restore_all_but_raw(store: Store, run: RunFolder, contents: Mapping[str, bytes]) -> None:
    """Restore these files of a run, and remove its others but raw ones; on a full disk they fit again."""
    for path in read_all_but_raw(store, run):
        if path not in contents or path.startswith("tables/"):
            (store.path / path).unlink()
    for path, content in contents.items():
        write_atomically(store.path / path, content, PRIVATE if path == manifest_path(run.run_id) else BY_UMASK)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
