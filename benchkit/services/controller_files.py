"""Files of the controller: those that a scenario names, caches of what is built, and secrets of deployed services.

A secret is created once, in a file that only its user reads.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchkit.errors import BenchkitError, InputError
from benchkit.files import read_regular
from benchkit.services.service import ControllerFile, ServiceFile

TEMPLATE_SUFFIX = ".j2"

MAX_FILES = 20_000
"""Largest number of files of a folder; one with more was most likely named by mistake."""

LEFT_OUT = frozenset({".git", ".hg", ".svn"})
"""Folders of version control, which no server reads."""


@dataclass(frozen=True)
class LocalFile(ControllerFile):
    """A file of the controller, as it is when it is deployed."""

    path: Path

    def read(self) -> bytes:
        """Return its content. Raises InputError."""
        try:
            return read_regular(self.path)
        except OSError as error:
            raise InputError(f"cannot read {self.path}", why=error.strerror) from None


def files_in(source: Path, target: PurePosixPath) -> tuple[ServiceFile, ...]:
    """Return the files below a folder, or the file itself, to be placed at `target`; executables stay executable.

    Links are followed. Raises InputError for what is neither file nor folder, such as a link to nothing, and for a
    folder with more than MAX_FILES files.
    """
    files: list[ServiceFile] = []
    for path in files_below(source) if source.is_dir() else [source]:
        if not path.is_file():
            raise InputError(f"{path} is neither a file nor a folder")
        place = target / path.relative_to(source) if path != source else target
        files.append(ServiceFile(place, LocalFile(path), mode_of(path)))
    return tuple(files)


def files_below(folder: Path) -> list[Path]:
    """Return the files below a folder and its subfolders, in a fixed order. Links are followed."""
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        found += (Path(parent, name) for name in sorted(names))
        if len(found) > MAX_FILES:
            raise InputError(f"{folder} has more than {MAX_FILES:,} files", hint="name the files that the server needs")
    return found


def content_sha256(source: Path) -> str:
    """Return the SHA-256 of a file's content, or of names, modes and contents of all files below a folder.

    Raises InputError for a folder with more than MAX_FILES files, and for a file that cannot be read.
    """
    if not source.is_dir():
        return hashlib.sha256(LocalFile(source).read()).hexdigest()
    listed = [
        (path.relative_to(source).as_posix(), mode_of(path), hashlib.sha256(LocalFile(path).read()).hexdigest())
        for path in files_below(source)
    ]
    return hashlib.sha256(json.dumps(listed).encode()).hexdigest()


def mode_of(path: Path) -> int:
    """Return the mode that a file gets on a host: executable by all, or by nobody."""
    return 0o755 if path.stat().st_mode & 0o111 else 0o644


CACHE_ENVIRONMENT = "XDG_CACHE_HOME"


def cache_folder(name: str) -> Path:
    """Return the folder of a cache. It may be deleted at any time."""
    base = os.environ.get(CACHE_ENVIRONMENT)
    return (Path(base) if base else Path.home() / ".cache") / "benchkit" / name


def cached(folder: Path, make: Callable[[Path], object]) -> Path:
    """Return a folder of a cache; let `make` fill it first if it is not there. Safe for many processes at once.

    Raises BenchkitError where the cache cannot be written.
    """
    if folder.is_dir():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".making-", dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        make(made)
        try:
            made.rename(folder)
        except OSError as error:  # another process was faster, or the folder cannot be written
            if not folder.is_dir():
                raise BenchkitError("cannot store a build", where=str(folder), why=error.strerror) from None
    return folder


STATE_ENVIRONMENT = "XDG_STATE_HOME"
_UNSAFE = re.compile(r"[^A-Za-z0-9]+")


def secrets_folder() -> Path:
    """Return the folder of the secrets.

    A deleted secret is replaced by a new one, and hosts reject copies of the old.
    """
    base = os.environ.get(STATE_ENVIRONMENT)
    return (Path(base) if base else Path.home() / ".local" / "state") / "benchkit" / "kept"


def get_or_create(name: str, create: Callable[[], bytes]) -> bytes:
    """Return the secret of this name; create it first if there is none. Safe for many processes at once."""
    path = secret_path(name)
    if not path.exists():
        temporary = _write_temporary(path, create())
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)  # fails if another process was faster: its secret is used then
        temporary.unlink()
    return path.read_bytes()


def save_copy(name: str, content: bytes) -> bytes:
    """Save content under this name, and return it; the instructions of a service name the file to its users."""
    path = secret_path(name)
    _write_temporary(path, content).replace(path)
    return content


def secret_path(name: str) -> Path:
    """Return the file of this name: readable where the name is plain ASCII, and different for different names."""
    digest = hashlib.sha256(name.encode()).hexdigest()[:16]
    return secrets_folder() / f"{_UNSAFE.sub('-', name).strip('-')[:60]}.{digest}"


def _write_temporary(path: Path, content: bytes) -> Path:
    """Write content to a synced file in the folder of `path`, which only its user reads; return its path."""
    for folder in (path.parent.parent, path.parent):  # mkdir gives its mode only to the last folder of a path
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{os.urandom(4).hex()}")
    with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return temporary
