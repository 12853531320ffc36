"""`benchkit report`: stored runs as one HTML file and its figures, or the whole store as a site."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchkit.cli.completion import complete_run
from benchkit.cli.options import ClusterAddress, Json, StoreToRead, WorkerProcesses, in_existing_folder
from benchkit.registry import Registry

if TYPE_CHECKING:
    from benchkit.store.store import Store


SITES: Registry[Callable[..., Any]] = Registry("benchkit.sites", {}, Callable)
"""Functions of plugins that write a site of a store into a folder."""


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]…",
            help="Runs for one page: ids, their beginnings, or `latest`. None: a site of all runs.",
            autocompletion=complete_run,
            show_default=False,
        ),
    ] = None,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            callback=in_existing_folder,
            help="Folder to write to. [default: report/ in the first run, site/ in the store for all runs; of a store below a URL, report-RUN/ and site/ here]",
        ),
    ] = None,
    every: Annotated[
        bool, typer.Option("--all", help="Write the report of each run into its folder, then the site.")
    ] = False,
    workers: WorkerProcesses = None,
    cluster: ClusterAddress = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write report.html, one self-contained file, and its figures as SVG and PNG.

    Without a run, write a site of the whole store: its scenarios with their history, and its runs with the reports that
    were written of them. It needs no server; written again, only pages that changed are. With --all, the reports of all
    runs are written first: with all cores, or on a cluster of Dask.
    """
    from benchkit.cli.console import print_json
    from benchkit.report.report_files import write_report
    from benchkit.report.run_reader import read_run
    from benchkit.store.store_choice import open_store

    if every:
        _write_all(runs, workers, cluster, store)
    if not runs:
        _write_site(open_store(store, must_exist=True), out, json=json)
        return
    where = open_store(store)
    found = list({run.run_id: run for run in map(where.run, runs)}.values())
    first, *others = (read_run(where, run) for run in found)
    path = write_report(first, out or found[0].report, *others)
    if json:
        print_json({"run_id": found[0].run_id, "runs": [run.run_id for run in found], "report": path})
    else:
        print(path)


def _write_all(runs: list[str] | None, workers: int | None, cluster: str | None, store: str | None) -> None:
    """Write the reports of all runs of a store into their folders. Raises InputError where runs are named as well."""
    from benchkit.cli.jobs import run_on_all
    from benchkit.errors import InputError
    from benchkit.report.report_files import write_run_report
    from benchkit.store.store import Store, existing_store

    if runs:
        raise InputError("name runs, or give --all", why="both are given")
    run_on_all("report", write_run_report, Store(existing_store(store)), workers, cluster)


def _write_site(store: Store, out: Path | None, *, json: bool) -> None:
    from benchkit.cli.console import announced_if_slow, print_json

    with announced_if_slow("reading the runs of the store"):
        site = SITES["site"](store, out or store.site)
    if json:
        print_json({"site": site.page, "pages": site.pages, "written": site.written})
    else:
        print(site.page)
