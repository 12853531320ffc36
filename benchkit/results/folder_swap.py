"""Folders put in the place of others at one stroke, on disk; and what crashes leave of that, cleared away.

A scratch folder is `NAME` while it is in use, locked by whoever uses it, and `NAME.gone` when it may be removed by
anybody. None that is not locked is in use: whoever makes one keeps `tidy` away until it is.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

from benchkit.results.durable_files import exchange, locked, make_folders, shared, sync_folder, write_synced

_LOCK, _PLACE, _GONE = ".lock", "place", ".gone"


class Scratch:
    """A folder, on the same file system as what it serves, where new folders are made."""

    def __init__(self, root: Path, path: Path) -> None:
        """`path` is the folder; what it serves is below `root`."""
        self._root = root
        self._path = path

    def replace(self, folder: Path, fill: Callable[[Path], None]) -> None:
        """Put a folder that `fill` fills in the place of `folder`, on disk and at one stroke.

        Where the file system cannot do that, `folder` is missing for a moment; after a crash in it, `tidy` ends the job.
        """
        make_folders(folder.parent)
        make_folders(self._path)
        with self._scratch() as scratch:
            self._replace(folder, fill, scratch)

    @contextlib.contextmanager
    def _scratch(self) -> Iterator[Path]:
        """A new scratch folder, locked."""
        scratch = self._path / secrets.token_hex(4)
        with contextlib.ExitStack() as held:
            with shared(self._path / _LOCK):
                scratch.mkdir()
                try:
                    held.enter_context(locked(scratch / _LOCK))
                except OSError:  # a full disk, above all
                    scratch.rmdir()
                    raise
            yield scratch

    def _replace(self, folder: Path, fill: Callable[[Path], None], scratch: Path) -> None:
        new, old = scratch / "new", scratch / "old"
        try:
            new.mkdir()
            fill(new)
            sync_folder(new)
            sync_folder(scratch)
            if not folder.exists():
                new.rename(folder)
            elif not exchange(new, folder):
                write_synced(scratch / _PLACE, str(folder.relative_to(self._root)).encode())
                sync_folder(scratch)
                folder.rename(old)
                new.rename(folder)
            sync_folder(folder.parent)
        finally:
            if folder.exists() or not old.exists():  # else it came between the two renames: the new one is needed
                _remove(scratch)

    def tidy(self) -> None:
        """Clear away what processes that are gone have left, and end what they had begun."""
        if not self._path.is_dir():
            return
        with locked(self._path / _LOCK) as is_alone:
            for scratch in self._path.iterdir() if is_alone else ():
                with contextlib.suppress(FileNotFoundError):  # whose it was has just removed it
                    self._tidy(scratch)

    def _tidy(self, scratch: Path) -> None:
        if scratch.name.endswith(_GONE):
            shutil.rmtree(scratch, ignore_errors=True)
        elif scratch.is_dir():
            with locked(scratch / _LOCK) as is_left_behind:
                if not is_left_behind:
                    return
                if (scratch / "old").is_dir():  # between the two renames
                    folder = self._root / (scratch / _PLACE).read_text()
                    if not folder.exists():
                        (scratch / "new").rename(folder)
                        sync_folder(folder.parent)
                _remove(scratch)


def _remove(scratch: Path) -> None:
    gone = scratch.with_name(scratch.name + _GONE)
    scratch.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)
