"""`benchkit report`: stored runs as one HTML file and its figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from benchkit.cli.completion import complete_run
from benchkit.cli.options import Json, StoreFolder


def report(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN…", help="Runs for one page: ids, their beginnings, or `latest`.", autocompletion=complete_run
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option("-o", "--out", metavar="DIR", help="Folder to write to. [default: report/ in the first run]"),
    ] = None,
    store: StoreFolder = None,
    json: Json = False,
) -> None:
    """Write report.html, one self-contained file, and its figures as SVG and PNG."""
    from benchkit.cli.console import print_json
    from benchkit.report.report_files import write_report
    from benchkit.report.run_reader import read_run
    from benchkit.results.store import Store, store_path

    where = Store(store_path(store))
    found = list({run.run_id: run for run in map(where.run, runs)}.values())
    first, *others = (read_run(where, run) for run in found)
    path = write_report(first, out or found[0].report, *others)
    if json:
        print_json({"run_id": found[0].run_id, "runs": [run.run_id for run in found], "report": path})
    else:
        print(path)
