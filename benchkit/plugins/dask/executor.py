"""Jobs on worker processes of Dask: of a cluster that exists, or of one on this machine for as long as they run."""

from __future__ import annotations

import contextlib
import importlib.metadata
import logging
import platform
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from benchkit.errors import BenchkitError, InputError
from benchkit.store.run_jobs import ItemT, ResultT, Workers
from benchkit.units import counted

if TYPE_CHECKING:
    from distributed import Client

CONNECT_TIMEOUT_S = 10.0
LOOPBACK = "127.0.0.1"
_PACKAGES = ("benchkit", "numpy", "scipy", "pandas", "pyarrow", "pydantic", "dask", "distributed")
"""Packages whose versions decide about results, or about the protocol."""


@contextlib.contextmanager
def needs_extra(extra: str, where: str) -> Iterator[None]:
    """Import packages of an extra within the block; `where` names what asked for them. Raises InputError without it."""
    try:
        yield
    except ImportError as error:
        raise InputError(
            f"a package of the extra {extra!r} is not installed here",
            where=where,
            why=str(error),
            hint=f"pip install 'benchkit[{extra}]'",
        ) from None


def run_on_workers(
    function: Callable[[ItemT], ResultT],
    items: Sequence[ItemT],
    workers: Workers,
    *,
    notify: Callable[[str], None],
    advance: Callable[[], None],
) -> list[ResultT]:
    """Call a function for each item on the workers of a cluster, and return its results, in the order of the items."""
    with _client(workers, len(items), notify) as client:
        return _run_on(client, function, items, advance)


@contextlib.contextmanager
def _client(workers: Workers, jobs: int, notify: Callable[[str], None]) -> Iterator[Client]:
    """Yield a client of the cluster: of the given one, or of one that lasts as long as the block."""
    with needs_extra("dask", "--cluster" if workers.cluster is not None else "--workers"):
        import distributed
        from dask.system import CPU_COUNT
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
    """Yield a client of the cluster whose scheduler has this address, once it has `wait_for` workers.

    Raises InputError for an invalid address, and for workers with other versions than this process. Raises
    BenchkitError where no scheduler answers, or workers are missing after `timeout_s` seconds.
    """
    with needs_extra("dask", "--cluster"):
        import distributed
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
    client: Client, function: Callable[[ItemT], ResultT], items: Sequence[ItemT], advance: Callable[[], None]
) -> list[ResultT]:
    import distributed

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
