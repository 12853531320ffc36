"""The one folder below which the agent writes."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from benchkit.agent.common import RefusedError


class Workdir:
    """The one folder below which the agent writes: its own, private, and no other's by some trick of links."""

    MARK = ".benchkit"
    RESERVED = frozenset({MARK, "agent", "store", "psutil", "records", "home"})

    def __init__(self, path: str) -> None:
        """Create or check it. Raises RefusedError."""
        folder = Path(path).expanduser().absolute()
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            pass
        except OSError as error:
            raise RefusedError("workdir", f"cannot create the work directory {folder}", error.strerror) from None
        found = folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise RefusedError("workdir", f"the work directory {folder} is no directory")
        if found.st_uid != os.geteuid():
            raise RefusedError("workdir", f"the work directory {folder} belongs to another user (uid {found.st_uid})")
        if found.st_mode & 0o077:
            raise RefusedError("workdir", f"the work directory {folder} is open to others", f"chmod 700 {folder}")
        names = {entry.name for entry in folder.iterdir()}
        if self.MARK not in names and not names <= self.RESERVED:
            raise RefusedError("workdir", f"{folder} holds other things already", "benchkit needs a folder of its own")
        (folder / self.MARK).touch(mode=0o600)
        self.root = folder.resolve()
        for name in ("store", "records", "home"):
            (self.root / name).mkdir(mode=0o700, exist_ok=True)

    def inside(self, path: str, *, write: bool = False) -> Path:
        """A path below the work directory, relative to it or absolute. Raises RefusedError for any other."""
        if "\0" in path:
            raise RefusedError("bad-path", f"{path!r} is no path")
        full = self.root / path
        # A last part that is a link is followed for reading only: writing replaces names, and what they point to stays.
        place = full.parent.resolve() / full.name if write else full.resolve()
        try:
            parts = place.relative_to(self.root).parts
        except ValueError:
            parts = ("..",)
        if ".." in parts or (write and (not parts or parts[0] in self.RESERVED)):
            raise RefusedError("bad-path", f"{path!r} is not below the work directory {self.root}")
        return place
