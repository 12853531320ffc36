"""`benchkit report` and `benchkit notebook`: stored runs as pages, and as notebooks to explore them."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchkit.cli.console import print_json, say
from benchkit.cli.options import Json, RunId, StoreToRead, in_existing_folder
from benchkit.errors import BenchkitError, InputError

FOLDER = "notebooks"


def report(
    run: RunId,
    *,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            callback=in_existing_folder,
            help="Folder to write to. [default: report/ in the run; for a store at a URL, report-RUN/ here]",
        ),
    ] = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write report.html, one self-contained file, and its figures as SVG and PNG."""
    from benchkit.report.report_files import write_report
    from benchkit.report.stored_run import read_run
    from benchkit.store.store import open_store

    where = open_store(store)
    found = where.run(run)
    path = write_report(read_run(where, found), out or found.report)
    if json:
        print_json({"run_id": found.run_id, "report": path})
    else:
        print(path)


def notebook(
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="Run to show: its id, the beginning of its id, or `latest`.")
    ] = None,
    store: StoreToRead = None,
    into: Annotated[Path, typer.Option("--dir", metavar="DIR", help="Folder of your copies of the notebooks.")] = Path(
        FOLDER
    ),
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open a browser.")] = True,
) -> None:
    """Open JupyterLab on your copies of the notebooks in DIR; missing ones are copied there first."""
    from benchkit.explore import RUN
    from benchkit.store.store import ENVIRONMENT, open_store

    where = open_store(store)
    named = where.run(run).run_id if run is not None else None
    location = where.absolute_location
    del where  # removes the local copies of a store at a URL
    jupyter = Path(sys.executable).with_name("jupyter-lab")
    if not jupyter.exists():
        raise InputError("JupyterLab is not installed where benchkit is", hint="pip install 'benchkit[notebooks]'")
    folder = _copies(into)
    say(f"notebooks in {folder}, store {location}")
    options = [f"--notebook-dir={folder}"]
    if os.geteuid() == 0:
        options.append("--allow-root")  # JupyterLab refuses root without it
    if not browser:
        options.append("--no-browser")
    environment = {**os.environ, ENVIRONMENT: location, **({RUN: named} if named else {})}
    os.execve(jupyter, [str(jupyter), *options], environment)  # noqa: S606 - no shell meant


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
