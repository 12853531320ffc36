"""Files below the work directory: kept in a store by hash and placed as hard links, or temporary with a record."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import pwd
import shutil
import stat
import tarfile
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError, Workdir, remove_path, write_all
from benchkit.agent.frames import MAX_BODY
from benchkit.agent.operations import HostPath, operation
from benchkit.agent.records import Records

TRANSFER_S = 120.0
"""Time to compress, archive, remove or write files."""


class FileStore:
    """A store of files by hash and mode, and the files below the work directory."""

    KEEP_S = 30 * 86400
    """Age of unused files that are removed when new files arrive."""
    GZIP_LEVEL = 6

    def __init__(self, workdir: Workdir, records: Records, flush_outputs: Callable[[], None] = lambda: None) -> None:
        """Use a work directory; `flush_outputs` writes what processes have printed so far."""
        self._workdir = workdir
        self._records = records
        self._flush_outputs = flush_outputs
        self._recorded: Dict[Path, Path] = {}
        self._store = workdir.root / "store"
        self._lock = threading.Lock()
        self._arrived: Dict[str, int] = {}
        self._checked: Dict[Path, Tuple[int, int, int]] = {}

    @operation()
    def missing(self, files: Sequence[Tuple[str, int]]) -> List[Tuple[str, int]]:
        """Return the files (hash, mode) that the store does not have."""
        return [(sha256, mode) for sha256, mode in files if not self._is_stored(sha256, mode)]

    @operation()
    def upload(self, token: str, sha256: str, mode: int, size: int, *, offset: int, body: bytes = b"") -> bool:
        """Write a chunk of a file of `size` bytes to the store, in any order; return True where it completes the file.

        `token` names the upload.
        """
        entry, part = self._entry(sha256, mode), self._store / f".part-{token}"
        with self._lock:
            self._arrived.setdefault(token, 0)
        fd = os.open(str(part), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            view, at = memoryview(body), offset
            while view:
                written = os.pwrite(fd, view, at)
                view, at = view[written:], at + written
        except OSError:
            with contextlib.suppress(FileNotFoundError):  # another chunk failed too and has removed it
                part.unlink()
            raise
        finally:
            os.close(fd)
        with self._lock:
            self._arrived[token] += len(body)
            if self._arrived[token] < size:
                return False
            del self._arrived[token]
        actual = file_sha256(part)
        if actual != sha256:
            part.unlink()
            raise OperationError("damaged", f"a file arrived with the hash {actual} instead of {sha256}")
        part.chmod(mode)
        part.rename(entry)
        self._note_checked(entry)
        self._prune()
        return True

    @operation()
    def place(self, files: Sequence[Tuple[HostPath, str, int]]) -> List[str]:
        """Place stored files (path, hash, mode); return the paths of those that were not in place already."""
        changed = []
        for path, sha256, mode in files:
            target = self._workdir.inside(path, write=True)
            if not self._is_stored(sha256, mode):
                raise OperationError("not-found", f"{path}: nothing with the hash {sha256} was uploaded")
            entry = self._entry(sha256, mode)
            os.utime(str(entry), ns=(time.time_ns(), entry.stat().st_mtime_ns))  # time of its last use, for `_prune`
            with contextlib.suppress(FileNotFoundError):
                if os.path.samestat(entry.stat(), target.lstat()):
                    continue
            self._workdir.make_folder(target.parent)
            part = target.with_name(f".{target.name}.{threading.get_ident()}")
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
            os.link(str(entry), str(part))
            part.rename(target)
            changed.append(str(path))
        return changed

    @operation()
    def mkdir(self, path: HostPath) -> PurePosixPath:
        """Make a folder and its parents, unless they exist; return its absolute path."""
        folder = self._workdir.inside(path, write=True)
        self._workdir.make_folder(folder)
        return PurePosixPath(folder)

    @operation()
    def mkdir_temporary(self, path: HostPath) -> PurePosixPath:
        """Make a folder as `mkdir` does; it is removed at the agent's end at the latest, even after a crash."""
        self._record("folder", self._workdir.inside(path, write=True))
        return self.mkdir(path)

    @operation(within_s=TRANSFER_S)
    def write_temporary(self, path: HostPath, mode: int, owner: Optional[str] = None, body: bytes = b"") -> bool:
        """Write a file, without any other copy; it is removed at the agent's end at the latest, even after a crash.

        `owner` is a user of the host; None: the login user. Return False where the file is in place already; it is then
        not touched.
        """
        file = self._workdir.inside(path, write=True)
        uid = os.geteuid() if owner is None else _user_id(owner)
        self._record("file", file)
        self._workdir.make_folder(file.parent)
        with contextlib.suppress(FileNotFoundError):
            status = file.lstat()
            is_only_copy = stat.S_ISREG(status.st_mode) and status.st_nlink == 1
            is_same = (stat.S_IMODE(status.st_mode), status.st_uid) == (mode, uid)
            if is_only_copy and is_same and file.read_bytes() == body:
                return False
            file.unlink()
        fd = os.open(str(file), os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            if owner is not None:
                os.fchown(fd, uid, -1)
            os.fchmod(fd, mode)
            write_all(fd, body)
        finally:
            os.close(fd)
        return True

    @operation(within_s=TRANSFER_S)
    def remove(self, path: HostPath) -> bool:
        """Remove a file, or a folder with its content, and its record; return False where there is none."""
        target = self._workdir.inside(path, write=True)
        is_there = remove_path(target)
        with self._lock:
            record = self._recorded.pop(target, None)
        if record is not None:
            self._records.drop(record)
        return is_there

    @operation()
    def list_folder(self, path: HostPath) -> Dict[str, Optional[int]]:
        """Return the entries of a folder: name → size in bytes, None for an entry that is not a regular file."""
        sizes: Dict[str, Optional[int]] = {}
        for entry in os.scandir(str(self._workdir.inside(path))):
            regular = entry.is_file(follow_symlinks=False)
            sizes[entry.name] = entry.stat(follow_symlinks=False).st_size if regular else None
        return sizes

    @operation()
    def read(self, path: HostPath, offset: int, limit: int) -> ops.FileChunk:
        """Return a chunk of a file, which includes all that processes have printed so far, and the file's size."""
        self._flush_outputs()
        target = self._regular(path)
        with target.open("rb") as file:
            file.seek(offset)
            return ops.FileChunk(target.stat().st_size, file.read(min(limit, MAX_BODY)))

    @operation(within_s=TRANSFER_S)
    def compress(self, path: HostPath) -> PurePosixPath:
        """Write a gzipped copy of a file as `path`.gz; return its absolute path."""
        target = self._workdir.inside(f"{path}.gz", write=True)
        # Without name and time in the header the same content always gives the same bytes.
        with self._workdir.inside(path).open("rb") as plain, target.open("xb") as file:  # noqa: SIM117 - Python 3.8 has no brackets there
            with gzip.GzipFile("", "wb", self.GZIP_LEVEL, file, mtime=0) as stream:
                shutil.copyfileobj(plain, stream, 1 << 20)
        return PurePosixPath(target)

    @operation(within_s=TRANSFER_S)
    def archive(self, path: HostPath, names: Sequence[str]) -> None:
        """Write a tar archive of these files, all of the archive's own folder."""
        target = self._workdir.inside(path, write=True)
        with tarfile.open(str(target), "x:", format=tarfile.GNU_FORMAT) as archive:
            for name in names:
                source = self._regular(f"{target.parent}/{name}")
                member = tarfile.TarInfo(name)
                member.size = source.stat().st_size
                with source.open("rb") as file:
                    archive.addfile(member, file)

    def _record(self, kind: str, path: Path) -> None:
        with self._lock:
            if path not in self._recorded:
                self._recorded[path] = self._records.note(kind, {"path": str(path)})

    def _regular(self, path: HostPath) -> Path:
        target = self._workdir.inside(path)
        if not target.is_file():
            raise OperationError(
                "not-found", f"{target} is not a regular file" if target.exists() else f"there is no {target}"
            )
        return target

    def _entry(self, sha256: str, mode: int) -> Path:
        return self._store / f"{sha256}-{mode:03o}"

    def _is_stored(self, sha256: str, mode: int) -> bool:
        """Return True where the store has the file unchanged; a service may have written to it through a hard link."""
        entry = self._entry(sha256, mode)
        try:
            found = entry.stat()
        except FileNotFoundError:
            return False
        if self._checked.get(entry) == (found.st_ino, found.st_size, found.st_mtime_ns):
            return stat.S_IMODE(found.st_mode) == mode
        if file_sha256(entry) != sha256 or stat.S_IMODE(found.st_mode) != mode:
            entry.unlink()
            return False
        self._note_checked(entry)
        return True

    def _note_checked(self, entry: Path) -> None:
        found = entry.stat()
        self._checked[entry] = (found.st_ino, found.st_size, found.st_mtime_ns)

    def _prune(self) -> None:
        oldest = time.time() - self.KEEP_S
        for entry in self._store.iterdir():
            if max(entry.lstat().st_atime, entry.lstat().st_mtime) < oldest:
                entry.unlink()


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def _user_id(name: str) -> int:
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise OperationError("not-found", f"there is no user {name}") from None
