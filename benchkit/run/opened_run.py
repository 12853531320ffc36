"""Opening of a run: its hosts are held, then its plan is made, then its folder in the store is locked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

from benchkit.errors import raise_first
from benchkit.hosts.connections import Hosts
from benchkit.plan.model import RunPlan
from benchkit.run.manifest import code_of, make_manifest, new_run_id
from benchkit.run.resume import Resumption, check_resumption
from benchkit.store.run_folder import RunFolder
from benchkit.store.store import Store

Plan = Callable[[], RunPlan]
"""Makes the plan of a run when its hosts are held: what an earlier run left changes the facts of a host."""


@dataclass(frozen=True)
class OpenedRun:
    """A run that can be executed: its plan, the hosts that are held for it, and its locked folder in the store."""

    plan: RunPlan
    hosts: Hosts
    store: Store
    folder: RunFolder
    resumption: Resumption | None = None
    """Its resumption; None for a new run."""


@contextmanager
def open_run(
    plan: Plan,
    hosts: Hosts,
    store: Store,
    run_id: str | None = None,
    *,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> Iterator[OpenedRun]:
    """Open a new run, by default with a new id. The hosts stay held for it until they are closed.

    Raises HostError where a host is held by another run or lacks something, BenchkitError where the store cannot be
    written; nothing is stored then.
    """
    run_id = run_id or new_run_id()
    hosts.lock(run_id)
    run_plan = plan()
    raise_first(run_plan.obstacles)
    folder = store.create(make_manifest(run_plan, hosts, run_id, tags=tags, code=code_of(run_plan)))
    with folder.locked():
        yield OpenedRun(run_plan, hosts, store, folder)


@contextmanager
def reopen_run(
    plan: Plan, hosts: Hosts, store: Store, folder: RunFolder, *, accept_changes: bool, retry_failed: bool
) -> Iterator[OpenedRun]:
    """Open a stored run again, to run the trials that are left. The hosts stay held for it until they are closed.

    Raises InputError where the run cannot be resumed (see `check_resumption`), HostError as `open_run` does.
    """
    with folder.locked():
        hosts.lock(folder.run_id)
        run_plan = plan()
        resumption = check_resumption(run_plan, hosts, folder, accept_changes=accept_changes, retry_failed=retry_failed)
        raise_first(run_plan.obstacles)
        yield OpenedRun(run_plan, hosts, store, folder, resumption)
