"""Work on many runs as the command line shows it: the cluster it runs on, and a progress bar on a terminal."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from benchkit.store.run_jobs import RunResult, ValueT, Workers
    from benchkit.store.store import RunFolder, Store


def run_on_all(
    title: str,
    function: Callable[[Store, RunFolder], ValueT],
    store: Store,
    workers: int | None,
    cluster: str | None,
) -> list[RunResult[ValueT]]:
    """Call a function for each run of a store, and show how far it is; runs with a problem are named.

    `workers` and `cluster` are the options of these names. Raises InputError where both are given.
    """
    from benchkit.cli.console import say
    from benchkit.store.run_jobs import RunResult, run_on_runs

    chosen = _workers(workers, cluster)
    found, unreadable = store.survey()
    run_ids = [run.run_id for run, _ in found]
    with _progress_bar(title, len(run_ids)) as advance:
        results = run_on_runs(function, store, run_ids, chosen, notify=say, advance=advance)
    results += [RunResult(run_id, None, str(error)) for run_id, error in unreadable.items()]
    for result in results:
        if result.problem is not None:
            say(f"{result.run_id} stays as it was: {result.problem}")
    return results


def _workers(number: int | None, cluster: str | None) -> Workers:
    """Return the workers that the options name. Raises InputError where both are given."""
    from benchkit.errors import InputError
    from benchkit.store.run_jobs import Workers

    if number is not None and cluster is not None:
        raise InputError("--workers and --cluster exclude each other", hint="a cluster has its own number of workers")
    return Workers(number, cluster)


@contextlib.contextmanager
def _progress_bar(title: str, total: int) -> Iterator[Callable[[], None]]:
    """Show a bar on stderr, if that is a terminal; yield the function to call after each part."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from benchkit.cli.terminal import Terminal

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Terminal("stderr")) as progress:
        task = progress.add_task(title, total=total)
        yield lambda: progress.advance(task)
