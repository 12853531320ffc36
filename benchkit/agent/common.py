"""Common parts of the agent: the refusal of a request, and small readers, parsers and writers."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Iterator, List, NamedTuple, Optional

HOST_STATE = "host-state"
"""Kind of a request that failed because the host lacks a resource for the moment, such as disk space."""

_DISK_FULL_ERRORS = (errno.ENOSPC, errno.EDQUOT)
"""Blocks or inodes are used up, on the disk or by this user."""

_HOST_STATE_ERRORS = frozenset(
    (
        *_DISK_FULL_ERRORS,
        *(errno.ENOMEM, errno.EAGAIN),  # memory; processes and threads (fork(2))
        *(errno.EMFILE, errno.ENFILE),  # open files of a process, of the host
        *(errno.EADDRINUSE, errno.EADDRNOTAVAIL),  # a port; all ports for outgoing connections
        errno.ETXTBSY,  # a program that is still open for writing in a process that was just forked
    )
)


class OperationError(Exception):
    """A request that cannot be executed, with the reason."""

    def __init__(self, kind: str, what: str, why: Optional[str] = None) -> None:
        """Take a `kind` for programs (not-found, denied, busy, …), and the texts of the message."""
        super().__init__(what)
        self.kind = kind
        self.what = what
        self.why = why

    def __str__(self) -> str:
        return ": ".join(filter(None, (self.what, self.why)))


def error_kind(error: OSError) -> str:
    """Return the kind of a refusal for an error of the kernel: `HOST_STATE` for a state that may pass, else "os"."""
    return HOST_STATE if error.errno in _HOST_STATE_ERRORS else "os"


def refusal_of(error: OSError, folder: Path) -> OperationError:
    """Convert a kernel error to the refusal of a request; `folder` is on the disk that the agent writes to."""
    what = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
    if error.errno not in _DISK_FULL_ERRORS:
        return OperationError(error_kind(error), what)
    why = f"{what}; {describe_disk(folder)}; free some room there, then try again"
    return OperationError(HOST_STATE, f"the disk of {folder} is full", why)


def describe_disk(folder: Path) -> str:
    """Return the free space and the free inodes of the disk of a folder, as a phrase."""
    disk = os.statvfs(str(folder))
    space = f"{disk.f_bavail * disk.f_frsize / 1e6:.1f} of {disk.f_blocks * disk.f_frsize / 1e6:.1f} MB are free"
    return f"{space}, and {disk.f_favail} of {disk.f_files} inodes" if disk.f_files else space


def read_bytes(path: str) -> Optional[bytes]:
    """Return the content of a small file of the kernel; None where it does not exist or cannot be read."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - called for every process of the host
            return file.read()
    except OSError:
        return None


def read_text(path: str) -> Optional[str]:
    """Return the content as `read_bytes`, as text without surrounding blanks."""
    content = read_bytes(path)
    return None if content is None else content.decode(errors="replace").strip()


def with_port(address: str, port: int) -> str:
    """Return an address with its port as URLs have it: `10.0.0.1:80`, `[::1]:80` (RFC 3986, 3.2.2)."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse_cpu_list(text: str) -> List[int]:
    """Return the CPUs of a list in the kernel's format, `0-2,8` (cpuset(7), FORMATS, List format)."""
    ends = [part.partition("-") for part in text.strip().split(",") if part]
    return [cpu for first, _, last in ends for cpu in range(int(first), int(last or first) + 1)]


class Mount(NamedTuple):
    """A line of /proc/PID/mountinfo (proc(5)): a file system, its mounted folder, and the mount point."""

    root: PurePosixPath
    point: Path
    kind: str
    options: List[str]


def parse_mounts(mountinfo: str) -> Iterator[Mount]:
    """Yield the mounted file systems; octal escapes in paths, such as of blanks, are decoded."""
    for line in mountinfo.splitlines():
        before, _, rest = line.partition(" - ")
        root, point = (
            re.sub(r"\\([0-7]{3})", lambda match: chr(int(match[1], 8)), text) for text in before.split(" ")[3:5]
        )
        kind, _, options = rest.split(" ", 2)
        yield Mount(PurePosixPath(root), Path(point), kind, options.split(","))


def write_all(fd: int, content: bytes) -> None:
    """Write all of `content`, in as many writes as needed."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def write_whole(path: Path, content: bytes, *, synced: bool) -> None:
    """Write a file that appears complete or not at all; a failure leaves nothing.

    With `synced` it survives a power cut.
    """
    part = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        part.rename(path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            part.unlink()
        raise
    if synced:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the names in a folder to disk."""
    fd = os.open(str(folder), os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def poll_until(deadline: float, first_s: float = 0.001, most_s: float = 0.05) -> Iterator[None]:
    """Yield at least once, then repeatedly with growing pauses until `deadline` (`time.monotonic()`)."""
    pause = first_s
    while True:
        yield
        remaining_s = deadline - time.monotonic()
        if remaining_s <= 0:
            return
        time.sleep(min(pause, remaining_s))
        pause = min(pause * 1.5, most_s)
