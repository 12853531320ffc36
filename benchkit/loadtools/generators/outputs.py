"""Output of generators: the rows of load tools are reduced on their hosts, then all files of a host are fetched.

A reducer that reads rows while the load runs shares the cores of the load tool. It changes the load of a closed loop:
netpoll on one thread seemed as fast as net/http, and serves 0.87 times as many requests (tests/bench/RESULTS.md). A
file costs the tool the same writes, and no more.

The time to reduce and fetch hardly grows with the number of slices. One reducer reads all slices of a generator, and
one archive has all outputs of a host.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Mapping, Sequence

from benchkit.agent.files import FileStore
from benchkit.agent.operations import ProcessSpec, ToFile
from benchkit.errors import HostError
from benchkit.hosts.connections import Hosts, run_on_hosts
from benchkit.hosts.host import Host
from benchkit.loadtools.generators.execution import SUFFIXES, GeneratorRun, OutputKind, PlacedGenerator
from benchkit.loadtools.registry import get_tool
from benchkit.services import deploy

REDUCERS_AT_ONCE = 16
REDUCE_S = 60.0
"""Time that a reducer may take for a file beyond the time of the load: it reads rows faster than tools write them."""
LOG = "reduce.txt"
ARCHIVE = "outputs.tar"

Outputs = Mapping[OutputKind, bytes]
"""Files of a generator in one slice, without empty ones."""


def fetch_outputs(hosts: Hosts, runs: Sequence[GeneratorRun]) -> list[Outputs]:
    """Reduce the rows of generators that ended well, and return the output files of all. Raises HostError."""
    by_host: dict[str, list[GeneratorRun]] = {}
    for run in runs:
        by_host.setdefault(run.generator.host, []).append(run)

    def fetch(host: Host) -> list[Outputs]:
        on_host = by_host[host.name]
        _reduce_rows(host, [run.placed for run in on_host if run.failure is None])
        return _read_outputs(host, [run.placed for run in on_host])

    names = list(by_host)
    fetched = dict(zip(names, map(iter, run_on_hosts([hosts[name] for name in names], fetch)), strict=True))
    return [next(fetched[run.generator.host]) for run in runs]


def failure_of(run: GeneratorRun, output: Outputs) -> str | None:
    """Return why the output of a generator cannot be used: it failed, or was ended and had printed no result."""
    if not has_hung(run, output):
        return run.failure
    what = f"{run.generator} did not end within {run.limit_s:.3g} s, and printed no result"
    return ": ".join(filter(None, (what, output.get("stderr", b"").decode(errors="replace"))))


def has_hung(run: GeneratorRun, output: Outputs) -> bool:
    """Return True where a generator was ended and had printed no result."""
    stream = get_tool(run.generator.load.tool).summary
    return run.failure is None and run.overran and stream is not None and stream not in output


def _reduce_rows(host: Host, placed: Sequence[PlacedGenerator]) -> None:
    """Reduce the rows of generators on a host, with one process for all slices of each.

    Raises HostError where a reducer fails or does not end in time.
    """
    by_generator: dict[str, list[PlacedGenerator]] = {}
    for each in placed:
        if each.generator.reducer is not None:
            by_generator.setdefault(str(each.working_directory), []).append(each)
    groups = list(by_generator.values())
    for first in range(0, len(groups), REDUCERS_AT_ONCE):
        batch = groups[first : first + REDUCERS_AT_ONCE]
        reducers = host.processes.start_all([_reducer(slices) for slices in batch])
        for slices, reducer in zip(batch, reducers, strict=True):
            generator = slices[0].generator
            limit_s = len(slices) * (REDUCE_S + (generator.load.duration_s or 0.0))
            status = reducer.wait(limit_s)
            if status is None or status.exit_code != 0:
                how = f"did not end within {limit_s:g} s" if status is None else f"failed with {status}"
                printed = deploy.last_log_lines(host, slices[0].working_directory / LOG)
                raise HostError(f"the reducer of {generator} {how}", where=host.name, why=printed)


def _reducer(slices: Sequence[PlacedGenerator]) -> ProcessSpec:
    first = slices[0]
    return ProcessSpec(
        (*(first.generator.reducer or ()), *(each.rows.name for each in slices)),
        cwd=first.rows.parent,
        stderr=ToFile(first.working_directory / LOG, None),
    )


def _read_outputs(host: Host, placed: Sequence[PlacedGenerator]) -> list[Outputs]:
    folder = placed[0].rows.parent
    sizes = host.call(FileStore.list_folder, folder)
    names = [path.name for each in placed for kind in SUFFIXES if sizes.get((path := each.output(kind)).name)]
    contents: dict[str, bytes] = {}
    if names:
        host.call(FileStore.archive, folder / ARCHIVE, names)
        with tarfile.open(fileobj=io.BytesIO(host.files.read(folder / ARCHIVE))) as archive:
            contents = {member.name: file.read() for member in archive if (file := archive.extractfile(member))}
        host.call(FileStore.remove, folder / ARCHIVE)
    return [
        {kind: contents[name] for kind in SUFFIXES if (name := each.output(kind).name) in contents} for each in placed
    ]
