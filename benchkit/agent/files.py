"""Files by hash: uploaded once, kept in a store, and placed as hard links."""

from __future__ import annotations

import contextlib
import gzip
import hashlib
import os
import shutil
import stat
import tarfile
import threading
import time
from pathlib import Path
from typing import Dict, List, Optional, Tuple

from benchkit.agent import operations as ops
from benchkit.agent.common import OperationError
from benchkit.agent.frames import MAX_BODY
from benchkit.agent.workdir import Workdir

MAX_NAME = 64


class FileStore:
    """A store of files by hash and mode, and the operations on files below the work directory."""

    KEEP_S = 30 * 86400
    """Age of unused files that are removed when new files arrive."""
    KEEP_PARTIAL_S = 86400
    """Age of incomplete files of killed agents that are removed when new files arrive."""
    GZIP_LEVEL = 6

    def __init__(self, workdir: Workdir) -> None:
        self._workdir = workdir
        self._store = workdir.root / "store"
        self._lock = threading.Lock()
        self._arrived: Dict[str, int] = {}
        self._closed = False
        self._checked: Dict[Path, Tuple[int, int, int]] = {}

    def remove_partial(self) -> None:
        """Remove unfinished uploads and accept no more; the agent calls this at its end."""
        with self._lock:
            self._closed = True
            for token in self._arrived:
                with contextlib.suppress(OSError):  # it stays until `_prune` removes it
                    self._part(token).unlink()

    def missing(self, wanted: ops.MissingFiles) -> List[Tuple[str, int]]:
        """Return the files (hash, mode) that the store does not have."""
        return [(sha256, mode) for sha256, mode in wanted.files if not self._is_stored(sha256, mode)]

    def upload(self, chunk: ops.UploadChunk) -> bool:
        """Write a chunk of a file to the store; return True where it completes the file."""
        entry, token = self._entry(chunk.sha256, chunk.mode), chunk.token
        part = self._part(token)
        with self._lock:
            if self._closed:
                raise OperationError("closing", "the agent is ending")
            self._arrived.setdefault(token, 0)
            fd = os.open(str(part), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            view, at = memoryview(chunk.body), chunk.offset
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
            self._arrived[token] += len(chunk.body)
            if self._arrived[token] < chunk.size:
                return False
        actual = file_sha256(part)
        with self._lock:
            del self._arrived[token]  # only after hashing: until then `remove_partial` removes the part
            if self._closed:
                raise OperationError("closing", "the agent is ending")
            if actual != chunk.sha256:
                part.unlink()
                raise OperationError("damaged", f"a file arrived with the hash {actual} instead of {chunk.sha256}")
            part.chmod(chunk.mode)
            part.rename(entry)
        self._note_checked(entry)
        self._prune()
        return True

    def place(self, wanted: ops.PlaceFiles) -> List[str]:
        """Place stored files that are not in place already; return the paths of the placed ones."""
        changed = []
        for path, sha256, mode in wanted.files:
            target = self._workdir.inside(path, write=True)
            if not self._is_stored(sha256, mode):
                raise OperationError("not-found", f"{path}: nothing with the hash {sha256} was uploaded")
            entry = self._entry(sha256, mode)
            os.utime(str(entry), ns=(time.time_ns(), entry.stat().st_mtime_ns))  # time of its last use, for `_prune`
            if same_file(entry, target):
                continue
            self._workdir.make_folder(target.parent)
            part = target.with_name(f".{target.name}.{threading.get_ident()}")
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
            try:
                os.link(str(entry), str(part))
            except OSError:  # this file system has no hard links, or the file too many
                shutil.copyfile(str(entry), str(part))
                part.chmod(mode)
            part.rename(target)
            changed.append(path)
        return changed

    def mkdir(self, path: str) -> str:
        """Make a folder and its parents, unless they exist; return its absolute path."""
        folder = self._workdir.inside(path, write=True)
        self._workdir.make_folder(folder)
        return str(folder)

    def remove(self, path: str) -> bool:
        """Remove a file, or a folder with its content; return False where there is none."""
        target = self._workdir.inside(path, write=True)
        try:
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(str(target))
            else:
                target.unlink()
        except FileNotFoundError:
            return False
        return True

    def list(self, wanted: ops.ListFolder) -> Dict[str, Optional[int]]:
        """Return the entries of a folder: name → size in bytes, None for an entry that is no regular file."""
        folder = self._workdir.inside(wanted.path)
        sizes: Dict[str, Optional[int]] = {}
        for entry in os.scandir(str(folder)):
            regular = entry.is_file(follow_symlinks=False)
            sizes[entry.name] = entry.stat(follow_symlinks=False).st_size if regular else None
        return sizes

    def read(self, wanted: ops.ReadChunk) -> ops.FileChunk:
        """Return a chunk of a file, and the size of the whole file."""
        target = self._regular(wanted.path)
        with target.open("rb") as file:
            file.seek(wanted.offset)
            return ops.FileChunk(target.stat().st_size, file.read(min(wanted.limit, MAX_BODY)))

    def compress(self, wanted: ops.CompressFile) -> str:
        """Write a gzipped copy of a file as `path`.gz; return its absolute path."""
        source = self._workdir.inside(wanted.path)
        target = self._workdir.inside(f"{wanted.path}.gz", write=True)
        # Without name and time in the header the same content always gives the same bytes.
        with source.open("rb") as plain, target.open("xb") as file:  # noqa: SIM117 - Python 3.8 has no brackets there
            with gzip.GzipFile("", "wb", self.GZIP_LEVEL, file, mtime=0) as stream:
                shutil.copyfileobj(plain, stream, 1 << 20)
        return str(target)

    def archive(self, wanted: ops.ArchiveFiles) -> None:
        """Write a tar archive of these files, all of the archive's own folder."""
        target = self._workdir.inside(wanted.path, write=True)
        with tarfile.open(str(target), "x:", format=tarfile.GNU_FORMAT) as archive:
            for name in wanted.names:
                source = self._regular(f"{target.parent}/{name}")
                member = tarfile.TarInfo(name)
                member.size = source.stat().st_size
                with source.open("rb") as file:
                    archive.addfile(member, file)

    def _part(self, token: str) -> Path:
        return self._store / f".part-{checked_name(token)}"

    def _regular(self, path: str) -> Path:
        target = self._workdir.inside(path)
        if not target.is_file():
            raise OperationError(
                "not-found", f"{target} is not a regular file" if target.exists() else f"there is no {target}"
            )
        return target

    def _entry(self, sha256: str, mode: int) -> Path:
        if len(sha256) != hashlib.sha256().digest_size * 2 or set(sha256) - set("0123456789abcdef"):
            raise OperationError("bad-request", f"{sha256!r} is not a SHA-256")
        if mode & ~0o777:
            raise OperationError("bad-request", f"mode {mode:o} is not allowed")
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
        now = time.time()
        for entry in self._store.iterdir():
            oldest = now - (self.KEEP_PARTIAL_S if entry.name.startswith(".part-") else self.KEEP_S)
            if max(entry.lstat().st_atime, entry.lstat().st_mtime) < oldest:
                entry.unlink()


def checked_name(text: str) -> str:
    """Return a name that is safe as part of a file name. Raises OperationError for any other."""
    if not text or len(text) > MAX_NAME or not text.replace("-", "").isalnum() or not text.isascii():
        raise OperationError("bad-request", f"{text!r} is not a valid name")
    return text


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def same_file(entry: Path, target: Path) -> bool:
    """Return True where `target` is a hard link to `entry`, or a regular file of the same mode and content."""
    try:
        stored, placed = entry.stat(), target.lstat()
    except FileNotFoundError:
        return False
    if (stored.st_dev, stored.st_ino) == (placed.st_dev, placed.st_ino):
        return True
    is_similar = (stored.st_mode, stored.st_size, stored.st_uid) == (placed.st_mode, placed.st_size, placed.st_uid)
    return is_similar and file_sha256(entry) == file_sha256(target)
