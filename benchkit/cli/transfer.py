"""`benchkit results push` and `pull`: runs published to a store for a team, and fetched from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.console import print_json, say
from benchkit.cli.options import Json, StoreFolder
from benchkit.units import counted, size

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchkit.store.transfer import Transfer

Runs = Annotated[list[str], typer.Argument(metavar="RUN…", help="Ids of runs, their beginnings, or `latest`.")]


def push(
    runs: Runs,
    url: Annotated[str, typer.Argument(metavar="URL", help="Store to publish to, as s3://bucket/folder.")],
    *,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Publish runs that have ended to a store below a URL, for others to read.

    The manifest comes last, so that nobody sees half a run. An interrupted push continues where it stopped. A run whose
    id the store has with other content is refused; nothing is deleted. Credentials come from the environment and the
    service's config files.
    """
    from benchkit.store.remote_store import RemoteStore
    from benchkit.store.store import Store, existing_store
    from benchkit.store.transfer import push as publish

    where, remote = Store(existing_store(store)), RemoteStore(url)
    named = {run.run_id: run for run in map(where.run, runs)}
    _show((publish(where, run, remote) for run in named.values()), "published", json=json)


def pull(
    runs: Runs,
    url: Annotated[str, typer.Argument(metavar="URL", help="Store that has them, as s3://bucket/folder.")],
    *,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Fetch published runs into a folder, every file verified against its checksum.

    The manifest comes last. A run whose id the folder has with other content is refused.
    """
    from benchkit.store.remote_store import RemoteStore
    from benchkit.store.store import Store, store_path
    from benchkit.store.transfer import pull as fetch

    where, remote = Store(store_path(store)), RemoteStore(url)
    ids = dict.fromkeys(Store(remote).run(name).run_id for name in runs)
    _show((fetch(remote, run_id, where) for run_id in ids), "fetched", json=json)


def _show(transfers: Iterable[Transfer], done: str, *, json: bool) -> None:
    """Print each transfer once it is done."""
    from dataclasses import asdict

    results = []
    for result in transfers:
        results.append(result)
        copied = f"{done}, {counted(result.files, 'file')}, {size(result.bytes)}" if result.is_new else "already there"
        say(f"{result.run_id}: {copied}")
    if json:
        print_json({"runs": [asdict(result) for result in results]})
