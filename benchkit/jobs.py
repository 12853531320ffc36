"""Jobs on many runs: one function called for each of them, in this process or on a cluster of Dask.

A job depends on nothing but its item, has the same result wherever it runs, and may be run again: where a worker ends
in the middle of one, another worker repeats it.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import logging
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from benchkit.errors import BenchkitError, InputError
from benchkit.extras import needs_extra
from benchkit.units import counted

if TYPE_CHECKING:
    from distributed import Client

FEW_JOBS = 20
"""Jobs below which this process has done them before workers have started, which takes some seconds."""
CONNECT_TIMEOUT_S = 10.0
LOOPBACK = "127.0.0.1"
_PACKAGES = ("benchkit", "numpy", "scipy", "pandas", "pyarrow", "pydantic", "dask", "distributed")
"""Packages whose versions decide about results, or about the protocol."""

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """The processes that run jobs."""

    number: int | None = None
    """Processes on this machine; 1: this process alone; None: one for each core, where there are enough jobs."""
    cluster: str | None = None
    """Address of the scheduler of a cluster that exists, as tcp://192.0.2.10:8786; None: one on this machine."""


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
    with _client(workers, len(items), notify) as client:
        return _run_on(client, function, items, advance)


def _is_for_this_process(workers: Workers, jobs: int, notify: Callable[[str], None]) -> bool:
    if workers.cluster is not None or workers.number is not None:
        return workers.number == 1 and workers.cluster is None
    if jobs >= FEW_JOBS and importlib.util.find_spec("distributed") is None:
        notify("this takes one core; with `pip install 'benchkit[dask]'` it takes all of them")
        return True
    return jobs < FEW_JOBS


@contextlib.contextmanager
def _client(workers: Workers, jobs: int, notify: Callable[[str], None]) -> Iterator[Client]:
    """Yield a client of the cluster: of the given one, or of one that lasts as long as the block."""
    with needs_extra("dask", "--cluster" if workers.cluster is not None else "--workers"):
        import distributed  # noqa: PLC0415 - optional, and slow to import
        from dask.system import CPU_COUNT  # noqa: PLC0415
    with contextlib.ExitStack() as stack:
        if workers.cluster is not None:
            client = stack.enter_context(connect_client(workers.cluster))
        else:
            cluster = distributed.LocalCluster(
                n_workers=min(workers.number or CPU_COUNT, jobs),
                threads_per_worker=1,
                host=LOOPBACK,
                dashboard_address=f"{LOOPBACK}:0",
                security=True,  # other users of this machine reach the loopback interface too
                silence_logs=logging.CRITICAL,
            )
            stack.enter_context(cluster)
            client = stack.enter_context(distributed.Client(cluster, set_as_default=False))
        number = len(client.scheduler_info()["workers"])
        notify(f"{counted(number, 'worker')}; dashboard: {client.dashboard_link}")
        yield client


@contextlib.contextmanager
def connect_client(address: str, *, wait_for: int = 1, timeout_s: float | None = None) -> Iterator[Client]:
    """Yield a client of a cluster with the versions of this process; `address` is its scheduler's.

    It is waited for until it has that many workers, for a limited time. Raises InputError for what is no address and
    for other versions, BenchkitError where no scheduler answers, or workers are missing at the timeout.
    """
    with needs_extra("dask", "--cluster"):
        import distributed  # noqa: PLC0415 - optional, and slow to import
    timeout_s = CONNECT_TIMEOUT_S if timeout_s is None else timeout_s
    try:
        client = distributed.Client(address, timeout=timeout_s, set_as_default=False)
    except ValueError as error:
        raise InputError(
            "no address of a scheduler", where=address, why=str(error), hint="as tcp://192.0.2.10:8786"
        ) from None
    except OSError as error:
        raise BenchkitError(
            "no scheduler of Dask answers",
            where=address,
            why=str(error),
            hint="`benchkit cluster up` starts one on the hosts of an inventory",
        ) from None
    with client:
        try:
            client.wait_for_workers(wait_for, timeout=timeout_s)
        except TimeoutError as error:
            raise BenchkitError("the cluster lacks workers", where=address, why=str(error)) from None
        _require_versions(client, address)
        yield client


def versions() -> Mapping[str, str]:
    """Return the versions of Python and of the packages that results depend on, here."""
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        **{name: importlib.metadata.version(name) for name in _PACKAGES},
    }


def version_differences(own: Mapping[str, str], others: Mapping[str, str]) -> str:
    """Return how versions differ from those here, as a phrase; empty where they do not."""
    return ", ".join(
        f"{name} {others.get(name, 'missing')}, here {version}"
        for name, version in own.items()
        if others.get(name) != version
    )


def _require_versions(client: Client, address: str) -> None:
    """Raise InputError unless all workers have the versions of this process: others may compute other last bits."""
    hint = "`benchkit cluster up` checks it on its hosts, and says what to install"
    try:
        found = client.run(versions)
    except ModuleNotFoundError as error:
        raise InputError(
            "the workers of the cluster lack a package", where=address, why=str(error), hint=hint
        ) from None
    own = versions()
    for worker, others in found.items():
        if differences := version_differences(own, others):
            raise InputError("a worker has other versions", where=worker, why=differences, hint=hint)


def _run_on(
    client: Client, function: Callable[[Item], Result], items: Sequence[Item], advance: Callable[[], None]
) -> list[Result]:
    import distributed  # noqa: PLC0415 - optional, and slow to import

    futures: list[Any] = client.map(function, items, pure=False)
    try:
        for _ in distributed.as_completed(futures, loop=client.loop):
            advance()
        return list(client.gather(futures))
    except distributed.KilledWorker as error:
        raise BenchkitError(
            "a job ended several workers",
            why=str(error),
            hint="memory may be short: try fewer workers with --workers, 1 for this process alone",
        ) from None
    except distributed.CancelledError as error:
        raise BenchkitError(
            "the cluster was lost", why=str(error), hint="start it again, then the command: it repeats all jobs"
        ) from None
