"""Jobs on many runs: one function called for each of them, in this process or by an executor of a plugin.

A job depends on nothing but its item, has the same result wherever it runs, and may be run again: where a worker ends
in the middle of one, another worker repeats it.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from benchkit.registry import Registry

FEW_JOBS = 20
"""Jobs below which this process has done them before workers have started, which takes some seconds."""

Item = TypeVar("Item")
Result = TypeVar("Result")


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
    function: Callable[[Item], Result],
    items: Sequence[Item],
    workers: Workers,
    *,
    notify: Callable[[str], None],
    advance: Callable[[], None],
) -> list[Result]:
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
