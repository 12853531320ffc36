"""Reducing the rows that load tools wrote to files: after the load, on their hosts, one process for each generator.

A reducer that reads rows while the load runs shares the cores of the load tool, and thereby changes the load of a
closed loop: netpoll on one thread seemed as fast as net/http, and serves 0.87 times as many requests (see
tests/bench/README.md). A file costs the tool the same writes, and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from benchkit.agent.operations import ExitStatus
from benchkit.errors import HostError, HostStateError
from benchkit.hosts.host import Host
from benchkit.hosts.processes import ProcessSpec, ToFile
from benchkit.loadtools.generators.generator import Generator
from benchkit.services import deploy

REDUCERS_AT_ONCE = 16
REDUCE_S = 60.0
"""Time that a reducer may take for a file beyond the time of the load: it reads rows faster than tools write them."""
LOG = "reduce.txt"


@dataclass(frozen=True)
class RowFiles:
    """The files with rows that a generator wrote in one folder; each gets its reduction and other text beside it."""

    generator: Generator
    folder: PurePosixPath
    names: tuple[str, ...]
    log_folder: PurePosixPath

    @property
    def limit_s(self) -> float:
        """Time that reading them may take, in seconds."""
        return len(self.names) * (REDUCE_S + (self.generator.load.duration_s or 0.0))

    @property
    def log(self) -> PurePosixPath:
        """File for the messages of the reducer."""
        return self.log_folder / LOG

    def reducer(self) -> ProcessSpec:
        """Return how to start the reducer."""
        return ProcessSpec(
            (*(self.generator.reducer or ()), *self.names), cwd=self.folder, stderr=ToFile(self.log, None)
        )


def reduce_rows(host: Host, files: Sequence[RowFiles]) -> None:
    """Reduce the rows of generators on a host. Raises HostError where a reducer fails or does not end in time."""
    for first in range(0, len(files), REDUCERS_AT_ONCE):
        batch = files[first : first + REDUCERS_AT_ONCE]
        reducers = host.processes.start_all(each.reducer() for each in batch)
        for each, reducer in zip(batch, reducers, strict=True):
            status = reducer.wait(each.limit_s)
            if status is None or status.exit_code != 0:
                how = f"did not end within {each.limit_s:g} s" if status is None else f"failed with {status}"
                what = f"the reducer of {each.generator} {how}"
                raise HostError(what, where=host.name, why=deploy.last_log_lines(host, each.log))


def require_room(host: Host, generator: Generator, ended: ExitStatus | None, when: str) -> None:
    """Check that a load tool did not end on a full disk: it may have failed for that, or lost the end of its output.

    It writes to the disk itself, and the disk may have room again when the load ends. Raises HostStateError.
    """
    if ended is not None and ended.full_disk is not None:
        raise HostStateError(f"no room for the output of {generator} {when}", where=host.name, why=ended.full_disk)
