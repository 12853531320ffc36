"""psutil, where the host has it or the controller sent it."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import threading
from pathlib import Path
from typing import Any, Optional

from benchkit.agent.common import RefusedError
from benchkit.agent.files import Files
from benchkit.agent.frames import Json
from benchkit.agent.workdir import Workdir


class Psutil:
    """psutil, where the host has it or the controller sent it; without it /proc has to do."""

    MAX_UNPACKED = 64 << 20

    def __init__(self, workdir: Workdir, files: Files) -> None:
        self._folder = workdir.root / "psutil"
        self._files = files
        self._looking = threading.Thread(target=self._look, name="psutil", daemon=True)
        self._module: Any = None
        self.source: Optional[str] = None
        self._looking.start()

    def module(self) -> Any:  # noqa: ANN401 - a module, or None
        """The module; None where there is none."""
        self._looking.join()
        return self._module

    def version(self) -> Optional[str]:
        """Its version; None where there is none."""
        module = self.module()
        return None if module is None else str(module.__version__)

    def use(self, *, sha256: Optional[str] = None, mode: int = 0o600) -> Json:
        """Unpack an archive of the store and use the psutil in it; without one, only say what there is.

        Raises RefusedError where it does not work here.
        """
        import zipfile  # noqa: PLC0415 - seldom needed

        if self.module() is None and sha256 is not None:
            folder = self._folder / sha256[:16]
            if not folder.is_dir():
                part = self._folder / f".{sha256[:16]}.{os.getpid()}"
                shutil.rmtree(str(part), ignore_errors=True)
                part.mkdir(mode=0o700, parents=True)
                with zipfile.ZipFile(str(self._files.stored(sha256, mode))) as archive:
                    unpack(archive, part, self.MAX_UNPACKED)
                part.rename(folder)
            sys.path.append(str(folder))
            try:
                self._look("sent")
            finally:
                if self._module is None:
                    sys.path.remove(str(folder))
        return {"version": self.version(), "source": self.source}

    def _look(self, source: str = "host") -> None:
        try:
            import psutil  # noqa: PLC0415 - may be missing
        except ImportError as error:
            if source == "sent":
                raise RefusedError("unsupported", "the psutil sent does not work on this host", str(error)) from None
            return
        self._module = psutil
        self.source = source


def unpack(archive: Any, folder: Path, max_bytes: int) -> None:  # noqa: ANN401 - a ZipFile, imported where it is needed
    """Unpack the regular files of an archive below `folder`. Raises RefusedError for one that reaches out of it."""
    members = [member for member in archive.infolist() if not member.is_dir()]
    if sum(member.file_size for member in members) > max_bytes:
        raise RefusedError("bad-request", f"an archive of more than {max_bytes} bytes")
    for member in members:
        parts = member.filename.split("/")
        if "\\" in member.filename or not all(parts) or {".", ".."} & set(parts):
            raise RefusedError("bad-path", f"the archive has a file named {member.filename!r}")
        if stat.S_IFMT(member.external_attr >> 16) not in (0, stat.S_IFREG):
            raise RefusedError("bad-path", f"the archive has something at {member.filename!r} that is no file")
        target = folder.joinpath(*parts)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with archive.open(member) as source, target.open("xb") as file:
            shutil.copyfileobj(source, file)
