"""Files that are whole and on disk, or not there; and one folder put in another's place at one stroke."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

_AT_FDCWD = -100
_SWAP = 2
"""RENAME_EXCHANGE of renameat2(2) on Linux, and RENAME_SWAP of renamex_np(2) on macOS."""
_NOT_HERE = frozenset({errno.ENOSYS, errno.EINVAL, errno.ENOTSUP})
"""Kernels before Linux 3.15 and some file systems, those of networks above all, cannot exchange names."""


def write_whole(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all, synced."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        write_synced(partial, content)
        partial.replace(path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_synced(path: Path, content: bytes) -> None:
    """Write a file and wait until it is on disk."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def sync_file(path: Path) -> None:
    """Wait until what was written to a file is on disk."""
    _sync(path)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on disk."""
    _sync(path)


def make_folders(path: Path) -> None:
    """Make a folder and those above it, with their names on disk; fine where it exists."""
    missing = [each for each in (path, *path.parents) if not each.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for each in reversed(missing):
        sync_folder(each.parent)


def exchange(one: Path, other: Path) -> bool:
    """Exchange the names of two folders at one stroke; False where this system or file system cannot."""
    program = ctypes.CDLL(None, use_errno=True)
    first, second = os.fsencode(one), os.fsencode(other)
    if hasattr(program, "renameat2"):
        failed = program.renameat2(_AT_FDCWD, first, _AT_FDCWD, second, _SWAP)
    elif hasattr(program, "renamex_np"):
        failed = program.renamex_np(first, second, _SWAP)
    else:
        return False
    if failed:
        number = ctypes.get_errno()
        if number in _NOT_HERE:
            return False
        raise OSError(number, os.strerror(number), str(one), None, str(other))
    return True


@contextlib.contextmanager
def locked(path: Path) -> Iterator[bool]:
    """Hold a lock file while the block runs; yields False where another process holds it, and does not wait.

    The kernel gives the lock back when its process ends, however that comes.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
    finally:
        os.close(handle)


@contextlib.contextmanager
def shared(path: Path) -> Iterator[None]:
    """Keep everybody from holding a lock file alone while the block runs; waits for who does."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_SH)
        yield
    finally:
        os.close(handle)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
