"""Jobs on many runs: one function called for each of them, in this process or by an executor of a plugin.

A job depends on nothing but its item, and has the same result wherever it runs. Where a worker ends in the middle of
one, another worker repeats it.
"""

from __future__ import annotations

import importlib.util
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Generic, TypeVar

from benchkit.errors import InputError
from benchkit.registry import Registry
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store

FEW_JOBS = 20
"""Number of jobs below which this process runs them itself: workers take some seconds to start."""

ItemT = TypeVar("ItemT")
ResultT = TypeVar("ResultT")

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Workers:
    """The processes that run jobs."""

    number: int | None = None
    """Processes on this machine; 1: this process alone; None: one for each core, where there are enough jobs."""
    cluster: str | None = None
    """Address of the scheduler of a cluster that exists, as tcp://192.0.2.10:8786; None: one on this machine."""


EXECUTORS: Registry[Callable[..., Sequence[Any]]] = Registry("benchkit.executors", {}, Callable)
"""Functions of plugins with the signature of `run_jobs`, which run jobs in other processes, by name."""


def run_jobs(
    function: Callable[[ItemT], ResultT],
    items: Sequence[ItemT],
    workers: Workers,
    *,
    notify: Callable[[str], None],
    advance: Callable[[], None],
) -> list[ResultT]:
    """Call a function for each item and return its results, in the order of the items.

    Function, items and results are sent to other processes. `notify` gets sentences for the user, and `advance` is
    called after each job. An error of a job is raised, and ends the others. Raises InputError where Dask is wanted and
    not installed, BenchkitError where the cluster cannot be reached, has other versions, or loses too many workers.
    """
    if _is_for_this_process(workers, len(items), notify):
        results = []
        for item in items:
            results.append(function(item))
            advance()
        return results
    return [*EXECUTORS["dask"](function, items, workers, notify=notify, advance=advance)]


def _is_for_this_process(workers: Workers, jobs: int, notify: Callable[[str], None]) -> bool:
    if workers.cluster is not None or workers.number is not None:
        return workers.number == 1 and workers.cluster is None
    if jobs >= FEW_JOBS and importlib.util.find_spec("distributed") is None:
        notify("this takes one core; with `pip install 'benchkit[dask]'` it takes all of them")
        return True
    return jobs < FEW_JOBS


@dataclass(frozen=True)
class RunResult(Generic[ValueT]):
    """The result of a job on one run."""

    run_id: str
    value: ValueT | None
    problem: str | None = None
    """Reason why there is no value: the run is damaged or in use, and stayed as it was."""


def run_on_runs(
    function: Callable[[Store, RunFolder], ValueT],
    store: Store,
    run_ids: Sequence[str],
    workers: Workers,
    *,
    notify: Callable[[str], None],
    advance: Callable[[], None],
) -> list[RunResult[ValueT]]:
    """Call a function for each run, and return the results in the order of the runs; see `run_jobs`.

    Workers reach the store by its path. An InputError of the function becomes the problem of its run.
    """
    job = partial(_job, function, store.files.absolute_location)
    return run_jobs(job, run_ids, workers, notify=notify, advance=advance)


def _job(function: Callable[[Store, RunFolder], ValueT], folder: str, run_id: str) -> RunResult[ValueT]:
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
