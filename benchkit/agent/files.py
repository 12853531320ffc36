"""Files by hash: sent once, kept in a store, and placed where they are needed."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import stat
import threading
import time
from pathlib import Path
from typing import Dict, List, Tuple

from benchkit.agent.common import Answer, RefusedError
from benchkit.agent.frames import MAX_BODY, Json
from benchkit.agent.workdir import Workdir

MAX_NAME = 64


class Files:
    """A store of files by hash and mode, out of which they are placed where they are needed."""

    KEEP_S = 30 * 86400
    """Files that were not used for so long are removed when new ones come."""

    def __init__(self, workdir: Workdir) -> None:
        self._workdir = workdir
        self._store = workdir.root / "store"
        self._lock = threading.Lock()
        self._arrived: Dict[str, int] = {}
        self._checked: Dict[Path, Tuple[int, int, int]] = {}

    def have(self, *, files: List[Tuple[str, int]]) -> Json:
        """Which of `files` (hash, mode) the store lacks."""
        return {"missing": [[sha256, mode] for sha256, mode in files if not self._is_stored(sha256, mode)]}

    def upload(self, *, token: str, sha256: str, mode: int, size: int, offset: int, body: bytes = b"") -> Json:
        """A piece of a file for the store; pieces of one `token` may come in any order."""
        entry = self._entry(sha256, mode)
        part = self._store / f".part-{checked_name(token)}"
        fd = os.open(str(part), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            view, at = memoryview(body), offset
            while view:
                written = os.pwrite(fd, view, at)
                view, at = view[written:], at + written
        except OSError:
            part.unlink()
            raise
        finally:
            os.close(fd)
        with self._lock:
            self._arrived[token] = self._arrived.get(token, 0) + len(body)
            if self._arrived[token] < size:
                return {"stored": False}
            del self._arrived[token]
        found = file_sha256(part)
        if found != sha256:
            part.unlink()
            raise RefusedError("damaged", f"a file arrived with the hash {found} instead of {sha256}")
        part.chmod(mode)
        part.rename(entry)
        self._note_checked(entry)
        self._prune()
        return {"stored": True}

    def place(self, *, files: List[Tuple[str, str, int]]) -> Json:
        """Put stored files (path, hash, mode) where they are needed; those that stand there already stay untouched."""
        changed = []
        for path, sha256, mode in files:
            target = self._workdir.inside(path, write=True)
            if not self._is_stored(sha256, mode):
                raise RefusedError("not-found", f"{path}: nothing with the hash {sha256} was uploaded")
            entry = self._entry(sha256, mode)
            os.utime(str(entry), ns=(time.time_ns(), entry.stat().st_mtime_ns))  # its last use, for `_prune`
            if same_file(entry, target):
                continue
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            part = target.with_name(f".{target.name}.{threading.get_ident()}")
            with contextlib.suppress(FileNotFoundError):
                part.unlink()
            try:
                os.link(str(entry), str(part))
            except OSError:  # no links here, or too many of this one
                shutil.copyfile(str(entry), str(part))
                part.chmod(mode)
            part.rename(target)
            changed.append(path)
        return {"changed": changed}

    def mkdir(self, *, path: str) -> Json:
        """Make a folder and those above it; fine where it exists."""
        folder = self._workdir.inside(path, write=True)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return {"path": str(folder)}

    def remove(self, *, path: str) -> Json:
        """Remove a file, or a folder with all that is in it; fine where there is none."""
        target = self._workdir.inside(path, write=True)
        try:
            if target.is_dir() and not target.is_symlink():
                shutil.rmtree(str(target))
            else:
                target.unlink()
        except FileNotFoundError:
            return {"removed": False}
        return {"removed": True}

    def list(self, *, path: str) -> Json:
        """The entries of a folder: name → size in bytes; None for what is no regular file."""
        folder = self._workdir.inside(path)
        found = {}
        for entry in os.scandir(str(folder)):
            regular = entry.is_file(follow_symlinks=False)
            found[entry.name] = entry.stat(follow_symlinks=False).st_size if regular else None
        return {"entries": found}

    def hash(self, *, path: str) -> Json:
        """Size and hash of a file as it is now."""
        target = self._regular(path)
        return {"size": target.stat().st_size, "sha256": file_sha256(target)}

    def read(self, *, path: str, offset: int, limit: int) -> Answer:
        """A piece of a file, and the size of the whole."""
        target = self._regular(path)
        with target.open("rb") as file:
            file.seek(offset)
            return {"size": target.stat().st_size}, file.read(min(limit, MAX_BODY))

    def stored(self, sha256: str, mode: int) -> Path:
        """The stored file itself. Raises RefusedError where there is none."""
        if not self._is_stored(sha256, mode):
            raise RefusedError("not-found", f"nothing with the hash {sha256} was uploaded")
        return self._entry(sha256, mode)

    def _regular(self, path: str) -> Path:
        target = self._workdir.inside(path)
        if not target.is_file():
            raise RefusedError("not-found", f"{target} is no file" if target.exists() else f"there is no {target}")
        return target

    def _entry(self, sha256: str, mode: int) -> Path:
        if len(sha256) != hashlib.sha256().digest_size * 2 or set(sha256) - set("0123456789abcdef"):
            raise RefusedError("bad-request", f"{sha256!r} is no SHA-256")
        if mode & ~0o777:
            raise RefusedError("bad-request", f"mode {mode:o} is none that files get here")
        return self._store / f"{sha256}-{mode:03o}"

    def _is_stored(self, sha256: str, mode: int) -> bool:
        """Whether the store has the file, unharmed: a service may have written to what was linked from it."""
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


def checked_name(text: str) -> str:
    """A name of ours that is safe as part of a file name. Raises RefusedError."""
    if not text or len(text) > MAX_NAME or not text.replace("-", "").isalnum() or not text.isascii():
        raise RefusedError("bad-request", f"{text!r} is no name")
    return text


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in iter(lambda: file.read(1 << 20), b""):
            digest.update(piece)
    return digest.hexdigest()


def same_file(entry: Path, target: Path) -> bool:
    """Whether `target` is `entry` by another name, or a regular file of the same mode and content."""
    try:
        here, there = entry.stat(), target.lstat()
    except FileNotFoundError:
        return False
    if (here.st_dev, here.st_ino) == (there.st_dev, there.st_ino):
        return True
    alike = (here.st_mode, here.st_size, here.st_uid) == (there.st_mode, there.st_size, there.st_uid)
    return alike and file_sha256(entry) == file_sha256(target)
