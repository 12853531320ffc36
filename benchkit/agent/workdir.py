"""The work directory, the only folder in which the agent writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path, PurePosixPath
from typing import Union

from benchkit.agent.common import OperationError, describe_disk


class Workdir:
    """The work directory: private, and owned by this user; links cannot lead out of it."""

    MARK = ".benchkit"
    RESERVED = frozenset({MARK, "agent", "store", "psutil", "records", "home"})

    def __init__(self, path: str) -> None:
        """Create the folder, or check an existing one. Raises OperationError."""
        folder = Path(path).expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            pass
        except OSError as error:
            raise OperationError("workdir", f"cannot create the work directory {folder}", error.strerror) from None
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode):
            raise OperationError("workdir", f"the work directory {folder} is not a directory")
        if status.st_uid != os.geteuid():
            raise OperationError(
                "workdir", f"the work directory {folder} belongs to another user (uid {status.st_uid})"
            )
        if status.st_mode & 0o077:
            raise OperationError(
                "workdir", f"the work directory {folder} is accessible to other users", f"chmod 700 {folder}"
            )
        try:
            self._prepare(folder)
        except OSError as error:
            raise OperationError(
                "workdir", f"cannot use the work directory {folder}", f"{error.strerror}; {describe_disk(folder)}"
            ) from None

    def _prepare(self, folder: Path) -> None:
        """Mark a folder as the work directory, and make its standard subfolders."""
        names = {entry.name for entry in folder.iterdir()}
        if self.MARK not in names and not names <= self.RESERVED:
            raise OperationError("workdir", f"{folder} contains other files", "benchkit needs its own folder")
        (folder / self.MARK).touch(mode=0o600)
        self.root = folder.resolve()
        for name in ("store", "records", "home"):
            (self.root / name).mkdir(mode=0o700, exist_ok=True)

    def working_folder(self, path: Union[str, PurePosixPath, None]) -> Path:
        """Return the working directory for a process: this folder, one below it, or an absolute path anywhere.

        Raises OperationError where an absolute path is no folder.
        """
        if path is None:
            return self.root
        folder = Path(path)
        if not folder.is_absolute() or self.root in (folder, *folder.parents):
            return self.inside(path)
        if not folder.is_dir():
            raise OperationError("not-found", f"{path} is no folder on this host")
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
