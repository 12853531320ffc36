"""What perf needs of a host beside its own command: its text packed for the way home, its maps cleared away."""

from __future__ import annotations

import contextlib
import gzip
import os
import shutil
import stat
from pathlib import Path
from typing import List

from benchkit.agent.basics import RefusedError
from benchkit.agent.frames import Json
from benchkit.agent.workdir import Workdir

MAPS = Path("/tmp")  # noqa: S108 - where perf looks for them, and V8 writes them (tools/perf/Documentation/jit-interface.txt)
LEVEL = 6


class Perf:
    """Files that perf and what it looks at leave behind."""

    def __init__(self, workdir: Workdir) -> None:
        self._workdir = workdir

    def pack(self, *, path: str) -> Json:
        """Write a file below the work directory once more as `path`.gz; its name and size."""
        source = self._workdir.inside(path)
        packed = self._workdir.inside(f"{path}.gz", write=True)
        # No name and no time in it: the same content gives the same bytes.
        with source.open("rb") as plain, packed.open("xb") as file:
            with gzip.GzipFile("", "wb", LEVEL, file, mtime=0) as stream:
                shutil.copyfileobj(plain, stream, 1 << 20)
            size = file.tell()
        return {"path": str(packed), "size": size}

    def drop_maps(self, *, pids: List[int]) -> Json:
        """Remove the maps of compiled code that these processes of ours, now ended, left for perf; which there were."""
        dropped = []
        for pid in pids:
            path = MAPS / f"perf-{int(pid)}.map"
            with contextlib.suppress(FileNotFoundError):
                found = path.lstat()
                if not stat.S_ISREG(found.st_mode) or found.st_uid != os.geteuid():
                    raise RefusedError("denied", f"{path} is not a file of ours")
                path.unlink()
                dropped.append(str(path))
        return {"dropped": dropped}
