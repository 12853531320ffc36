"""`benchkit notebook`: JupyterLab on the shipped notebooks, with the store set."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from benchkit.cli.options import StoreToRead
from benchkit.errors import BenchkitError, InputError

FOLDER = "notebooks"


def notebook(
    context: typer.Context,
    run: Annotated[
        str | None, typer.Argument(metavar="[RUN]", help="The run they show: its id, the beginning of it, or `latest`.")
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
    from benchkit.cli.console import say
    from benchkit.explore import RUN
    from benchkit.store.store import ENVIRONMENT
    from benchkit.store.store_choice import open_store

    options = context.args
    if run is not None and run.startswith("-"):  # no run was named: all arguments are JupyterLab's
        options, run = [run, *options], None
    where = open_store(store)
    named = where.run(run).run_id if run is not None else None
    location = where.absolute_location
    del where  # with the copies of a store below a URL
    jupyter = Path(sys.executable).with_name("jupyter-lab")
    if not jupyter.exists():
        raise InputError("JupyterLab is not installed beside benchkit", hint="pip install 'benchkit[notebooks]'")
    folder = _copies(into)
    say(f"notebooks in {folder}, store {location}")
    if os.geteuid() == 0:  # JupyterLab refuses root unless it is told
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
