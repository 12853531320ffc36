"""Runs published to a store at a URL, and fetched from it.

The checksums of a run are written first, then its raw files and journal, then its tables, and the manifest last:
readers see the run complete or not at all. A published run never changes, and nothing is deleted. An interrupted push
starts anew.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.errors import InputError
from benchkit.files import read_regular
from benchkit.store.durable_files import BY_UMASK, PRIVATE, make_folders, write_atomically
from benchkit.store.layout import CHECKSUMS, Checksums, checksums_path, checksums_text, manifest_path, part_of
from benchkit.store.remote_store import RemoteStore
from benchkit.store.run_folder import RECORD, RunFolder
from benchkit.store.store import Store
from benchkit.store.verification import compute_checksums, read_checksums, require_unchanged, write_checksums

UNFINISHED = frozenset({"running", "interrupted"})
"""Statuses of runs that may still change, and are not published."""


def push(store: Store, run: RunFolder, remote: RemoteStore) -> int:
    """Publish a run, and return the number of its files; 0: it was there already. Its lock is held meanwhile.

    Raises InputError for a run that has not ended or is damaged, and where the remote store has its id with other
    content.
    """
    with run.locked():
        if (status := run.manifest().status) in UNFINISHED:
            raise InputError(
                f"the run has not ended: its status is {status}",
                where=run.run_id,
                why="a published run never changes",
                hint=f"`benchkit run --resume {run.run_id}` completes it, then push it",
            )
        require_unchanged(store, run)
        checksums = read_checksums(store, run)
        if checksums is None:
            write_checksums(store, run)
            checksums = compute_checksums(store, run)
        if published := remote.checksums([run.run_id]):
            _require_same(checksums, published[run.run_id], remote.url)
            return 0
        remote.put({checksums_path(run.run_id): run.path / CHECKSUMS})
        for group in _in_order(run.run_id, checksums):
            remote.put({path: store.path / path for path in group})
        return len(checksums)


def pull(remote: RemoteStore, run_id: str, store: Store) -> int:
    """Fetch a published run into a folder, each file verified, and return their number; 0: it was there already.

    Raises InputError for a damaged run, and where the folder has its id with other content.
    """
    scenario = Store(remote).folder(run_id).manifest().scenario_name  # refuses what a newer benchkit wrote
    checksums = remote.checksums([run_id])[run_id]
    if other := next((path for path in checksums if path.startswith("tables/") and part_of(path)[0] != scenario), None):
        raise InputError(f"the file is of another scenario than the run, {scenario}", where=f"{remote.url}/{other}")
    if store.has(run_id):
        run = store.folder(run_id)
        _require_same(checksums, read_checksums(store, run) or compute_checksums(store, run), store.location)
        return 0
    remote.fetch([run_id], checksums.__contains__)
    for group in _in_order(run_id, checksums):
        for path in group:
            is_private = path == manifest_path(run_id) or path.endswith(f"/{RECORD}")
            make_folders((store.path / path).parent)
            if path == manifest_path(run_id):
                write_atomically(store.path / checksums_path(run_id), checksums_text(checksums))
            write_atomically(store.path / path, read_regular(remote.copy / path), PRIVATE if is_private else BY_UMASK)
    return len(checksums)


def _require_same(checksums: Checksums, others: Checksums, where: str) -> None:
    if checksums != others:
        different = sorted(path for path, _ in set(checksums.items()) ^ set(others.items()))
        raise InputError(
            "the store has this run id with other content, and nothing is overwritten",
            where=f"{where}/{different[0]}",
            why=f"{len(set(different))} of its files differ",
            hint="the run was judged again or changed after it was copied; keep both under different stores",
        )


def _in_order(run_id: str, paths: Iterable[str]) -> list[list[str]]:
    """Return raw files and journal, tables, and the manifest, in the order in which they are written."""
    groups: list[list[str]] = [[], [], []]
    for path in sorted(paths):
        groups[2 if path == manifest_path(run_id) else 1 if path.startswith("tables/") else 0].append(path)
    return [group for group in groups if group]
