"""`benchkit report` and `benchkit notebook`: stored runs as pages, and as notebooks to explore them."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from benchkit.cli.console import announced_if_slow, print_json, say
from benchkit.cli.options import Json, StoreToRead, complete_run, in_existing_folder
from benchkit.errors import BenchkitError, InputError
from benchkit.registry import Registry

SITES: Registry[Callable[..., Any]] = Registry("benchkit.sites", {}, Callable)
"""Functions of plugins that write a site of a store into a folder."""

FOLDER = "notebooks"


def report(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[RUN]…",
            help="Runs for one page: ids, their beginnings, or `latest`. Without: a site of all runs.",
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
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write report.html, one self-contained file, and its figures as SVG and PNG.

    Without a run, write a site of the whole store: its scenarios with their history, and its runs with their written
    reports. The site needs no server. A second call writes only the pages that changed.
    """
    from benchkit.report.pages.report_files import write_report
    from benchkit.report.stored_run import read_run
    from benchkit.store.store import open_store

    if not runs:
        whole = open_store(store, must_exist=True)
        with announced_if_slow("reading the runs of the store"):
            site = SITES["site"](whole, out or whole.files.site)
        if json:
            print_json({"site": site.page, "pages": site.pages, "written": site.written})
        else:
            print(site.page)
        return
    where = open_store(store)
    found = list({run.run_id: run for run in map(where.run, runs)}.values())
    first, *others = (read_run(where, run) for run in found)
    path = write_report(first, out or found[0].report, *others)
    if json:
        print_json({"run_id": found[0].run_id, "runs": [run.run_id for run in found], "report": path})
    else:
        print(path)


def notebook(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run that they show: its id, its beginning, or `latest`.")
    ] = None,
    store: StoreToRead = None,
    into: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder of your copies of the notebooks.")] = Path(
        FOLDER
    ),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Open JupyterLab on your copies of the notebooks in DIR; missing ones are copied there first.

    Arguments after `--` go to JupyterLab unchanged: `benchkit notebook latest -- --port=9000`.
    """
    from benchkit.explore import RUN
    from benchkit.store.store import ENVIRONMENT, open_store

    options = context.args
    if run is not None and run.startswith("-"):  # no run was named: all arguments are JupyterLab's
        options, run = [run, *options], None
    where = open_store(store)
    named = where.run(run).run_id if run is not None else None
    location = where.files.absolute_location
    del where  # removes the local copies of a store below a URL
    jupyter = Path(sys.executable).with_name("jupyter-lab")
    if not jupyter.exists():
        raise InputError("JupyterLab is not installed beside benchkit", hint="pip install 'benchkit[notebooks]'")
    folder = _copies(into)
    say(f"notebooks in {folder}, store {location}")
    if os.geteuid() == 0:  # JupyterLab refuses root without this option
        options = ["--allow-root", *options]
    environment = {**os.environ, ENVIRONMENT: location, **({RUN: named} if named else {})}
    if not browser:
        options = ["--no-browser", *options]
    os.execve(jupyter, [str(jupyter), f"--notebook-dir={folder}", *options], environment)  # noqa: S606 - no shell meant


def _copies(into: Path) -> Path:
    """Copy missing notebooks to the user's folder and return it; existing files stay unchanged."""
    from benchkit.files import shipped

    try:
        into.mkdir(exist_ok=True)
        for source in sorted(shipped(FOLDER).glob("*.ipynb")):
            target = into / source.name
            if not target.exists():
                shutil.copyfile(source, target)
    except OSError as error:
        raise BenchkitError("cannot copy the notebooks", where=str(into), why=error.strerror) from error
    return into.resolve()
