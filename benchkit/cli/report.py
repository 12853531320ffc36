"""`benchkit report`: a stored run as one HTML file and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchkit.cli.options import Json, RunId, StoreFolder


def report(
    run: RunId,
    out: Annotated[
        Path | None, typer.Option("-o", "--out", metavar="DIR", help="Where to write; left out: beside the run.")
    ] = None,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Write report.html, one self-contained file, and its figures as SVG and PNG."""
    from benchkit.cli.console import print_json
    from benchkit.report.read import read_run
    from benchkit.report.write import write_report
    from benchkit.results.store import Store, store_path

    where = Store(store_path(store))
    found = where.run(run)
    path = write_report(read_run(where, found), out or found.report)
    if json:
        print_json({"run_id": found.run_id, "report": path})
    else:
        print(path)
