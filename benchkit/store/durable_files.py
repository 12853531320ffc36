"""Files that are complete and synced to disk, or absent; locks between processes; and compressed raw files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from benchkit.errors import InputError
from benchkit.files import open_regular

PARTIAL = ".partial"
"""Suffix of files and folders that are not complete yet; their names start with a dot, so that no reader takes them."""

BY_UMASK, PRIVATE = 0o666, 0o600
"""Modes of new files: as the umask allows, and for files with requests, which may hold secrets."""

FOLDER_MODE = 0o775
"""Mode of new folders: not writable for everybody; the umask may restrict it further."""

_LOCK_ATTEMPTS, _LOCK_PAUSE_S = 3, 0.02
"""A reader that asks whether a lock is held holds it for a moment."""


@contextlib.contextmanager
def atomic_file(path: Path, mode: int = BY_UMASK) -> Iterator[BinaryIO]:
    """Yield a file that is synced and takes the name `path` when the block ends; if the block fails, it is removed.

    Another file of that name is replaced in one step: readers see the old content or the new, also after a crash.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}{PARTIAL}")
    try:
        with _created(partial, mode) as file:
            yield file
            _sync(file)
        partial.replace(path)
    except OSError:  # such as a full disk
        partial.unlink(missing_ok=True)
        raise
    fsync(path.parent)


def write_atomically(path: Path, content: bytes, mode: int = BY_UMASK) -> None:
    """Write a file that appears complete or not at all, synced."""
    with atomic_file(path, mode) as file:
        file.write(content)


def write_synced(path: Path, content: bytes, mode: int = BY_UMASK) -> None:
    """Write a file and wait until it is on disk."""
    with _created(path, mode) as file:
        file.write(content)
        _sync(file)


def _created(path: Path, mode: int) -> BinaryIO:
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode), "wb")


def _sync(file: BinaryIO) -> None:
    file.flush()
    os.fsync(file.fileno())


def fsync(path: Path) -> None:
    """Wait until the content of a file, or the names in a folder, are on disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def make_folders(path: Path) -> None:
    """Create a folder and its parents, with their names on disk; do nothing where it exists."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(FOLDER_MODE, exist_ok=True)
        fsync(folder.parent)


@contextlib.contextmanager
def try_lock(path: Path) -> Iterator[bool]:
    """Hold a lock file during the block; yield False where another process holds it.

    The kernel releases the lock when its process ends, however it ends.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        is_ours = False
        for attempt in range(_LOCK_ATTEMPTS):
            time.sleep(_LOCK_PAUSE_S if attempt else 0)
            with contextlib.suppress(BlockingIOError):
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                is_ours = True
                break
        yield is_ours
    finally:
        os.close(handle)


def is_locked(path: Path) -> bool:
    """Return True while a process holds the lock file, also for readers who may not write it."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except PermissionError:  # nothing is known: it may be held
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def compress(content: bytes) -> bytes:
    """Return content as one frame of Zstandard (RFC 8878)."""
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return bytes(sink.getvalue())


def decompress(path: Path) -> bytes:
    """Return the content of a compressed file. Raises InputError for a damaged one."""
    try:
        with open_regular(path) as file, pa.CompressedInputStream(file, "zstd") as stream:
            content = bytes(stream.read())
    except (OSError, pa.ArrowException) as error:
        if isinstance(error, OSError) and error.errno is not None:  # of the disk, not of the content
            raise
        why = str(error)
    else:
        if content:
            return content
        why = "it is empty"
    raise InputError("the raw file is damaged", where=str(path), why=why, hint="restore it from a backup")
