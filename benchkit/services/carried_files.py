"""Files of the controller that a scenario names, carried to the folder of a service on its host."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from benchkit.errors import BenchkitError, InputError
from benchkit.files import read_regular
from benchkit.services.service import ControllerFile, File

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
        """Return its content. Raises BenchkitError."""
        try:
            return read_regular(self.path)
        except OSError as error:
            raise BenchkitError(f"cannot read {self.path}", why=error.strerror) from None


def files_in(source: Path, target: PurePosixPath) -> tuple[File, ...]:
    """Return the files below a folder, or the file itself, to be placed at `target`; executables stay executable.

    Links are followed. Raises InputError for a link to nothing, what is neither file nor folder, and a folder with more
    than MAX_FILES files.
    """
    files: list[File] = []
    for path in files_below(source) if source.is_dir() else [source]:
        if not path.exists():
            raise InputError(
                f"cannot read {path}", why="it is a link to nothing" if path.is_symlink() else "it is gone"
            )
        if not path.is_file():
            raise InputError(f"{path} is neither a file nor a folder")
        place = target / path.relative_to(source) if path != source else target
        files.append(File(place, LocalFile(path), mode_of(path)))
    return tuple(files)


def files_below(folder: Path) -> list[Path]:
    """Return the files below a folder, those of its subfolders too, in a fixed order. Links are followed."""
    found: list[Path] = []
    for parent, folders, names in os.walk(folder, followlinks=True):
        folders[:] = sorted(name for name in folders if name not in LEFT_OUT)
        found += (Path(parent, name) for name in sorted(names))
        if len(found) > MAX_FILES:
            raise InputError(f"{folder} has more than {MAX_FILES:,} files", hint="name the files that the server needs")
    return found


def content_sha256(source: Path) -> str:
    """Return the SHA-256 of a file's content, or of names, modes and contents of all files below a folder.

    Raises InputError for a folder with more than MAX_FILES files, BenchkitError for a file that cannot be read.
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
