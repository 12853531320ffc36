"""`benchkit results push` and `pull`: runs published to a store for a team, and fetched from it."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit.cli.console import print_json, say
from benchkit.cli.options import Json, StoreFolder, complete_run
from benchkit.errors import ExitCode, InputError
from benchkit.units import counted, size

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from benchkit.store.transfer import Transfer

All = Annotated[bool, typer.Option("--all", help="All runs that have ended.")]


def push(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN]… URL",
            help="Ids of runs, their beginnings, or `latest`; then the store to publish to, as s3://bucket/folder.",
            autocompletion=complete_run,
        ),
    ],
    *,
    every: All = False,
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
    from benchkit.store.transfer import UNFINISHED
    from benchkit.store.transfer import push as publish

    names, url = _split(arguments, every=every)
    where, remote = Store(existing_store(store)), RemoteStore(url)
    if every:
        found, unreadable = where.survey()
        runs = [run for run, manifest in found if manifest.status not in UNFINISHED]
        for run, manifest in found:
            if run not in runs:
                say(f"skipped: {run.run_id} is {manifest.status}")
        for error in unreadable.values():
            say(f"skipped: {error}")
    else:
        runs = list({run.run_id: run for run in map(where.run, names)}.values())
    _transfer((partial(publish, where, run, remote) for run in runs), "published", every=every, json=json)


def pull(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="[RUN]… URL",
            help="Ids of runs, their beginnings, or `latest`; then the store that has them, as s3://bucket/folder.",
        ),
    ],
    *,
    every: All = False,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Fetch published runs into a folder, every file verified against its checksum.

    The manifest comes last. A run whose id the folder has with other content is refused.
    """
    from benchkit.store.remote_store import RemoteStore
    from benchkit.store.store import Store, store_path
    from benchkit.store.transfer import pull as fetch

    names, url = _split(arguments, every=every)
    where, remote = Store(store_path(store)), RemoteStore(url)
    source = Store(remote)
    runs = source.runs() if every else [source.run(name) for name in names]
    ids = dict.fromkeys(run.run_id for run in runs)
    _transfer((partial(fetch, remote, run_id, where) for run_id in ids), "fetched", every=every, json=json)


def _split(arguments: list[str], *, every: bool) -> tuple[list[str], str]:
    """Return the names of runs and the URL. Raises InputError where either is missing."""
    from benchkit.store.remote_store import is_url

    *names, url = arguments
    if not is_url(url):
        raise InputError(
            "the last argument is no URL of a store", where=url, hint="as s3://bucket/folder, or file:///folder"
        )
    if bool(names) == every:
        why = "both runs and --all are given" if every else "no run is given"
        raise InputError("name the runs, or give --all", why=why)
    return names, url


def _transfer(transfers: Iterable[Callable[[], Transfer]], done: str, *, every: bool, json: bool) -> None:
    """Transfer runs one after the other; with `every`, a run that is refused is named, and the others go on."""
    from dataclasses import asdict

    results, refused = [], []
    for transfer in transfers:
        try:
            result = transfer()
        except InputError as error:
            if not every:
                raise
            refused.append(str(error))
            say(f"refused: {error}")
            continue
        results.append(result)
        copied = f"{done}, {counted(result.files, 'file')}, {size(result.bytes)}" if result.is_new else "already there"
        say(f"{result.run_id}: {copied}")
    if json:
        print_json({"runs": [asdict(result) for result in results], "refused": refused})
    if refused:
        raise typer.Exit(ExitCode.FAILED)
