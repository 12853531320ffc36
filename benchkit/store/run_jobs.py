"""Jobs on the runs of a store in a folder, each on the files of one run."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, TypeVar

from benchkit.errors import InputError
from benchkit.jobs import Workers, run_jobs
from benchkit.store.store import RunFolder, Store

Value = TypeVar("Value")


@dataclass(frozen=True)
class RunResult(Generic[Value]):
    """The result of a job on one run."""

    run_id: str
    value: Value | None
    problem: str | None = None
    """Reason why there is no value: the run is damaged or in use, and stayed as it was."""


def run_on_runs(
    function: Callable[[Store, RunFolder], Value],
    store: Store,
    run_ids: Sequence[str],
    workers: Workers,
    *,
    notify: Callable[[str], None],
    advance: Callable[[], None],
) -> list[RunResult[Value]]:
    """Call a function for each run, and return the results in the order of the runs; see `benchkit.jobs.run_jobs`.

    Workers reach the store by its path. An InputError of the function becomes the problem of its run.
    """
    job = partial(_job, function, store.absolute_location)
    return run_jobs(job, run_ids, workers, notify=notify, advance=advance)


def _job(function: Callable[[Store, RunFolder], Value], folder: str, run_id: str) -> RunResult[Value]:
    if not Path(folder).is_dir():
        raise InputError(
            "a worker does not see the store",
            where=f"{socket.gethostname()}: {folder}",
            hint="workers on other hosts need a folder that all hosts share, under the same path",
        )
    store = Store(Path(folder))
    try:
        return RunResult(run_id, function(store, store.folder(run_id)))
    except InputError as error:
        return RunResult(run_id, None, str(error))
