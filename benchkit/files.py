"""Reading of files within limits, and the folders of files that benchkit ships.

Only regular files are read, up to a limit: a name in a store, a scenario or an inventory may lead to a FIFO, which
blocks, or to a device, which never ends. Shipped scenarios and configs are at the top level of a checkout, and inside
the package in a wheel.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import stat
from pathlib import Path
from typing import BinaryIO

from benchkit import units

MAX_BYTES = 1 << 30
"""Largest content that is read at once, larger than any file of a run."""

_CHUNK = 1 << 20

PACKAGE = Path(__file__).resolve().parent
BACKENDS = PACKAGE / "backends"


def open_regular(path: str | os.PathLike[str]) -> io.BufferedReader:
    """Open a regular file, or /dev/null, for reading. Raises OSError for any other file."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISREG(mode) or os.fspath(path) == os.devnull:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    raise OSError(errno.EINVAL, "not a regular file", str(path))


def read_regular(path: str | os.PathLike[str], max_bytes: int = MAX_BYTES) -> bytes:
    """Return the content of a file. Raises OSError where it cannot be read, is not a regular file, or is too large."""
    with open_regular(path) as file:
        return read_bounded(file, str(path), max_bytes)


def read_bounded(file: BinaryIO, name: str, max_bytes: int = MAX_BYTES) -> bytes:
    """Return the rest of an open file or pipe. Raises OSError where it is too large."""
    content = bytearray()
    while chunk := file.read(_CHUNK):
        content += chunk
        if len(content) > max_bytes:
            raise OSError(errno.EFBIG, f"larger than {units.size(max_bytes)}", name)
    return bytes(content)


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal."""
    with open_regular(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def shipped(folder: str) -> Path:
    """Return the shipped folder of that name: `scenarios` or `configs`."""
    inside = PACKAGE / "_shipped" / folder
    return inside if inside.is_dir() else PACKAGE.parent / folder
