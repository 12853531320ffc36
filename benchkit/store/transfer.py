"""Runs published to a remote store, and fetched from it.

The checksums of a run are written first: they claim its id for this content, so that nobody else publishes another run
under this id. A claim without a manifest does not count: a full disk or a crash may have left it, and it is replaced.
Then come raw files and journal, then tables, and the manifest last: readers see the run complete or not at all. Nothing
is deleted, and files that are there already with the same content stay. The next transfer continues an interrupted one,
and two transfers of one run write the same files.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic_core import from_json

from benchkit.errors import InputError
from benchkit.files import file_sha256, read_regular
from benchkit.store.checksums import changed_files, compute_checksums, read_checksums
from benchkit.store.durable_files import PARTIAL, fsync, make_folders, try_lock, write_atomically
from benchkit.store.layout import (
    Checksums,
    checksums_path,
    checksums_text,
    irregular_entries,
    manifest_path,
    parse_checksums,
    part_of,
)
from benchkit.store.remote_copy import RemoteCopy, push_advice
from benchkit.store.remote_files import RemoteFile, RemoteFiles
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store

UNFINISHED = frozenset({"running", "interrupted"})
"""Statuses of runs that may still change, and are not published."""


@dataclass(frozen=True)
class Transfer:
    """The result of publishing or fetching a run."""

    run_id: str
    is_new: bool
    """False: the run was there already."""
    files: int = 0
    """Number of files that were copied."""
    bytes: int = 0


def push(store: Store, run: RunFolder, remote: RemoteFiles, *, only_new: bool = False) -> Transfer:
    """Publish a run. Its lock is held meanwhile.

    Of a run that is published already, missing and damaged files are written again; with `only_new` none is verified.

    Raises InputError for a run that has not ended or is damaged, and where the remote store has its id with another
    content.
    """
    with run.locked():
        _require_ended(run)
        _require_regular(store, run)
        _require_no_secrets(run)
        checksums = _verified_checksums(store, run)
        claimed, manifest = checksums_path(run.run_id), manifest_path(run.run_id)
        there = remote.read([claimed, manifest])
        with tempfile.TemporaryDirectory(prefix="benchkit-") as folder:
            claim = Path(folder, "claim")
            claim.write_bytes(checksums_text(checksums))
            if claimed not in there and not remote.create(claimed, claim):
                there = remote.read([claimed, manifest])
            if manifest in there and claimed in there:
                _require_same(
                    checksums,
                    parse_checksums(remote.url, run.run_id, there[claimed].decode(errors="replace")),
                    remote.url,
                )
            elif there.get(claimed) not in {None, claim.read_bytes()}:
                remote.put({claimed: claim})
        if only_new and there.get(manifest) == read_regular(store.path / manifest):
            return Transfer(run.run_id, is_new=False)
        missing = _missing(store, run, checksums, remote)
        *others, last = _in_order(run.run_id, missing)
        for group in others:
            remote.put({path: store.path / path for path in group})
        if remote.read([claimed]).get(claimed) != checksums_text(checksums):
            raise InputError(
                "another process publishes this run id with another content",
                where=remote.url,
                hint="keep both under different stores, or push again when it has ended",
            )
        remote.put({path: store.path / path for path in last})
        size = sum((store.path / path).stat().st_size for path in missing)
        return Transfer(run.run_id, is_new=manifest not in there, files=len(missing), bytes=size)


def pull(source: RemoteCopy, run_id: str, store: Store) -> Transfer:
    """Fetch a published run into a folder, each file verified.

    Raises InputError for a damaged run, and where the folder has its id with another content.
    """
    scenario = RunFolder(source, run_id).manifest().scenario_name  # refuses what a newer benchkit wrote
    checksums = source.checksums([run_id])[run_id]
    for path in checksums:
        if path.startswith("tables/") and part_of(path)[0] != scenario:
            raise InputError(
                f"the file is of another scenario than the run, {scenario}", where=f"{source.location}/{path}"
            )
    if store.has(run_id):
        run = store.folder(run_id)
        _require_same(checksums, read_checksums(store, run) or compute_checksums(store, run), store.location)
        return Transfer(run_id, is_new=False)
    staging = store.path / f".pull-{run_id}{PARTIAL}"
    make_folders(staging)
    with try_lock(staging / ".lock") as is_ours:
        if not is_ours:
            raise InputError("another benchkit process pulls this run", where=run_id, hint="wait until it ends")
        wanted = {path for path, checksum in checksums.items() if not _is_in_place(store.path / path, checksum)}
        missing = [path for path in wanted if _sha256(staging / path) != checksums[path]]
        if missing:
            source.remote.fetch({path: staging / path for path in missing})
        for path in missing:
            if file_sha256(staging / path) != checksums[path]:
                raise InputError(
                    "the file differs from its checksum",
                    where=f"{source.location}/{path}",
                    hint=f"nothing of the run is in your store; {push_advice(run_id, source.location)}",
                )
        size = sum((staging / path).stat().st_size for path in missing)
        *others, manifest = _in_order(run_id, wanted)
        for path in (path for group in others for path in group):
            _move(staging / path, store.path / path)
        write_atomically(store.path / checksums_path(run_id), checksums_text(checksums))
        for path in manifest:
            _move(staging / path, store.path / path)
        shutil.rmtree(staging)
    return Transfer(run_id, is_new=True, files=len(missing), bytes=size)


def _require_ended(run: RunFolder) -> None:
    status = run.manifest().status
    if status in UNFINISHED:
        raise InputError(
            "the run has not ended",
            where=run.run_id,
            why="a published run never changes",
            hint=f"`benchkit run --resume {run.run_id}` completes it, then push it",
        )


def _require_no_secrets(run: RunFolder) -> None:
    """Raise InputError for a run whose manifest has a secret header in clear, as benchkit once wrote it."""
    if from_json(read_regular(run.manifest_file))["scenario"] != run.manifest().scenario:
        raise InputError(
            "the run has the value of a secret header in its files",
            where=run.run_id,
            why="an earlier benchkit stored it; published, others could use it",
            hint=f"run the scenario again, then remove this run: `benchkit results rm {run.run_id}`",
        )


def _require_regular(store: Store, run: RunFolder) -> None:
    """Raise InputError for a run with a symbolic link, whose target would be published in its place."""
    for path in irregular_entries(store.path, run.run_id):
        raise InputError(
            "not a file: a run is published without links and devices",
            where=str(store.path / path),
            why="a run has neither, and the target of a link may be anybody's file",
            hint="remove it, or put the file itself in its place; `benchkit results check` names all of them",
        )


def _verified_checksums(store: Store, run: RunFolder) -> Checksums:
    """Return the checksums of a run whose files agree with them. Raises InputError for damaged files."""
    recorded = read_checksums(store, run)
    if recorded is None:
        return compute_checksums(store, run)
    for path, what in changed_files(store, recorded).items():
        raise InputError(
            f"a file of the run {what}",
            where=str(store.path / path),
            hint=f"`benchkit results check {run.run_id} --repair` names all that is damaged, and rebuilds what it can",
        )
    return recorded


def _require_same(checksums: Checksums, others: Checksums, where: str) -> None:
    if checksums != others:
        different = sorted(path for path, _ in set(checksums.items()) ^ set(others.items()))
        raise InputError(
            "the store has this run id with another content, and nothing is overwritten",
            where=f"{where}/{different[0]}",
            why=f"{len(set(different))} of its files differ",
            hint="the run was judged again or changed after it was copied; keep both under different stores",
        )


def _missing(store: Store, run: RunFolder, checksums: Checksums, remote: RemoteFiles) -> list[str]:
    """Return the files that the remote store lacks, or has with another checksum."""
    folders = {path.rpartition("/")[0] for path in checksums if not path.startswith(f"runs/{run.run_id}/")}
    there: dict[str, RemoteFile] = {}
    for folder in (f"runs/{run.run_id}", *sorted(folders)):
        there |= remote.listing(folder)
    unknown, missing = [], []
    for path in checksums:
        source = store.path / path
        if path not in there or there[path].size != source.stat().st_size:
            missing.append(path)
        elif there[path].md5 != hashlib.md5(read_regular(source), usedforsecurity=False).hexdigest():
            unknown.append(path)  # another content, or a service that states no MD5
    digests = remote.digests(unknown) if unknown else {}
    return [*missing, *(path for path in unknown if digests[path] != checksums[path])]


def _in_order(run_id: str, paths: Iterable[str]) -> tuple[list[str], list[str], list[str]]:
    """Return raw files and journal, tables, and the manifest, in the order in which they are written."""
    groups: Mapping[int, list[str]] = {0: [], 1: [], 2: []}
    for path in sorted(paths):
        groups[2 if path == manifest_path(run_id) else 1 if path.startswith("tables/") else 0].append(path)
    return groups[0], groups[1], groups[2]


def _is_in_place(path: Path, checksum: str) -> bool:
    """Return True for a file that an interrupted transfer has moved. Raises InputError for another content."""
    found = _sha256(path)
    if found not in {None, checksum}:
        raise InputError(
            "your store has a file of this run with another content, and nothing is overwritten",
            where=str(path),
            hint="move it away, then pull the run again",
        )
    return found is not None


def _sha256(path: Path) -> str | None:
    return file_sha256(path) if path.is_file() else None


def _move(source: Path, target: Path) -> None:
    make_folders(target.parent)
    fsync(source)
    source.replace(target)
    fsync(target.parent)
