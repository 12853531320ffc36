"""Stores of many runs: one run with its raw files, copied under other ids."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterable
from pathlib import Path

from benchkit.store.store import Store
from benchkit.store.verification import write_checksums


def copy_run(store: Store, run_id: str, other_id: str) -> None:
    """Copy an ended run with its raw files: the ids of its trials, which begin with the run's, change with it."""
    run, copy = store.folder(run_id), store.folder(other_id)
    old, new = run_id.encode(), other_id.encode()
    shutil.copytree(run.path, copy.path)
    for file in (copy.manifest_file, copy.journal_file, *copy.path.glob("raw/*/trial.json")):
        file.write_bytes(file.read_bytes().replace(old, new))
    for folder in (copy.path / "raw").iterdir():
        folder.rename(folder.with_name(folder.name.replace(run_id, other_id)))
    for folder in (store.path / "tables").glob(f"*/*/run_id={run_id}"):
        shutil.copytree(folder, folder.with_name(f"run_id={other_id}"))
    write_checksums(store, copy)


def remove_tables(store: Store) -> None:
    """Remove all rows of all runs."""
    shutil.rmtree(store.path / "tables")


def digest(store: Store) -> str:
    """Return one SHA-256 of the names and the bytes of all table files and checksums."""
    found = hashlib.sha256()
    for path in sorted(_tables(store.path)):
        found.update(path.relative_to(store.path).as_posix().encode())
        found.update(hashlib.sha256(path.read_bytes()).digest())
    return found.hexdigest()


def _tables(folder: Path) -> Iterable[Path]:
    return [*folder.glob("tables/*/*/*/*"), *folder.glob("runs/*/checksums.sha256")]
