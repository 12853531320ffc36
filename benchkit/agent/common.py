"""Common parts of the agent: the work directory, the refusal of a request, and small readers, parsers and writers."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import threading
import time
from pathlib import Path, PurePosixPath
from typing import Callable, Dict, Iterator, List, NamedTuple, Optional, Tuple, Union


class Workdir:
    """The work directory: private, and owned by this user; links cannot lead out of it."""

    MARK = ".benchkit"
    RESERVED = frozenset({MARK, "agent", "store", "records", "home"})

    def __init__(self, path: str) -> None:
        """Create the folder, or use one that is private, as the start-up program checks. Raises OperationError."""
        folder = Path(path).expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            names = {entry.name for entry in folder.iterdir()}
            if self.MARK not in names and not names <= self.RESERVED:
                raise OperationError("workdir", f"{folder} contains other files", "benchkit needs its own folder")
            (folder / self.MARK).touch(mode=0o600)
            self.root = folder.resolve()
            for name in ("store", "records", "home"):
                (self.root / name).mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise OperationError("workdir", f"cannot use the work directory {folder}", error.strerror) from None

    def working_folder(self, path: Union[str, PurePosixPath, None]) -> Path:
        """Return the working directory for a process: this folder, one below it, or an absolute path anywhere.

        Raises OperationError where an absolute path is not a folder.
        """
        if path is None:
            return self.root
        folder = Path(path)
        if not folder.is_absolute() or self.root in (folder, *folder.parents):
            return self.inside(path)
        if not folder.is_dir():
            raise OperationError("not-found", f"{path} is not a folder on this host")
        return folder

    def make_folder(self, folder: Path) -> None:
        """Make a folder below the work directory and its parents, unless they exist.

        Other users may pass through these folders, but get there from the work directory only, which they may not
        enter. A process that starts in one of them and changes to another user, as nginx's workers do, can use them.
        """
        folder.mkdir(mode=0o711, parents=True, exist_ok=True)

    def inside(self, path: Union[str, PurePosixPath], *, write: bool = False) -> Path:
        """Return the absolute form of a path below the work directory, given relative or absolute.

        Raises OperationError for any other path.
        """
        if "\0" in str(path):
            raise OperationError("bad-path", f"{str(path)!r} is not a path")
        full = self.root / path
        # A link as last part is followed for reading only: writing replaces the link, not its target.
        target = full.parent.resolve() / full.name if write else full.resolve()
        try:
            parts = target.relative_to(self.root).parts
        except ValueError:
            parts = ("..",)
        if ".." in parts or (write and (not parts or parts[0] in self.RESERVED)):
            raise OperationError("bad-path", f"{str(path)!r} is not below the work directory {self.root}")
        return target


MetricKey = Tuple[str, Optional[str]]
"""A metric of `benchkit.models.telemetry`, and its instance where it has one."""

Values = Dict[MetricKey, float]
"""One sample of a source, in seconds, bytes or counts."""

Collector = Callable[[], Values]
"""Reads a source. Raises OperationError or OSError where it has no data."""


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
    return OperationError(HOST_STATE, f"the disk of {folder} is full", f"{what}; free some room there, then try again")


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


def read_file(path: str) -> bytes:
    """Return the content of a file of the kernel. Raises OSError."""
    with open(path, "rb") as file:  # noqa: PTH123 - for each process and thread, often
        return file.read()


def number_after(content: bytes, word: bytes) -> Optional[int]:
    """Return the number after `word` at the start of a line; None where no line starts with it."""
    start = content.find(b"\n" + word)
    if start < 0:
        return None
    return int(content[start + 1 + len(word) : start + 1 + len(word) + 24].split(None, 1)[0])


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


def remove_path(path: Path) -> bool:
    """Remove a file, or a folder with its content; return False where there is none. Raises OSError."""
    try:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(str(path))
        else:
            path.unlink()
    except FileNotFoundError:
        return False
    return True


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
