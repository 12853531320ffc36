"""`benchkit results export`: results of a run for other tools, spreadsheets and services."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from benchkit.cli.options import Json, RunId, StoreToRead, in_existing_folder

if TYPE_CHECKING:
    from collections.abc import Mapping

Format = Literal["csv", "benchstat", "hgrm", "otava", "bmf", "conbench", "openmetrics"]
HistogramSeries = Literal["raw", "corrected"]


def export(
    run: RunId,
    *,
    form: Annotated[Format, typer.Option("--format", help="Form of the output.")] = "csv",
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="PATH",
            callback=in_existing_folder,
            help="A file; for hgrm a folder. [default: stdout]",
        ),
    ] = None,
    cell: Annotated[str | None, typer.Option(help="For hgrm: only this cell.")] = None,
    series: Annotated[
        HistogramSeries, typer.Option(help="For hgrm: raw, or corrected for coordinated omission by the tool.")
    ] = "raw",
    invalid: Annotated[
        bool, typer.Option("--invalid", help="For all but csv and otava: include invalid values.")
    ] = False,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write the results of a run for other tools.

    Trials: CSV with every trial and its verdict, benchstat's text, HdrHistogram's .hgrm of each cell. Values and ratios
    with intervals: bmf (Bencher), conbench, openmetrics (Prometheus), and otava, a CSV with a row for each run of the
    scenario. All but the first have no place for a verdict and skip invalid values.
    """
    from benchkit.cli.console import print_json
    from benchkit.errors import InputError

    if json and out is None:
        raise InputError("--json lists the files written, and none is written without -o", hint="add -o PATH")
    texts = _texts(run, form, cell, series, store, include_invalid=invalid)
    if out is None:
        if len(texts) != 1:
            raise InputError(f"{len(texts)} cells have latencies", hint="name one with --cell, or a folder with -o")
        print(*texts.values(), sep="", end="")
        return
    written = _write(texts, out, folder=form == "hgrm")
    if json:
        print_json({"written": written})
    else:
        print(*written, sep="\n")


def _texts(
    run: str, form: str, cell: str | None, series: str, store: str | None, *, include_invalid: bool
) -> Mapping[str, str]:
    from urllib.parse import quote

    from benchkit.comparison.runs.run_data import read_run_data
    from benchkit.errors import InputError, suggestion
    from benchkit.models.metrics import P99, RPS
    from benchkit.plugins.export.formats import (
        bencher_json,
        benchstat,
        conbench_json,
        merged_by_cell,
        openmetrics,
        otava_csv,
    )
    from benchkit.run_history.series import history
    from benchkit.store.store import open_store
    from benchkit.store.tables import load

    where = open_store(store)
    found = where.run(run)
    data = read_run_data(where, found, () if include_invalid else None)
    cells = [record.cell_id for record in data.manifest.cells]
    if cell is not None and cell not in cells:
        raise InputError(f"no cell {cell!r}", why=suggestion(cell, cells))
    if cell is not None and form != "hgrm":
        raise InputError("--cell selects one of several files, and only hgrm has several", where=f"--format {form}")
    trials = data.trials.sort_values("trial_id")
    if form == "csv":
        return {f"{found.run_id}.csv": trials.to_csv(index=False, lineterminator="\r\n")}  # RFC 4180
    if form == "benchstat":
        return {f"{found.run_id}.txt": benchstat(data.manifest, trials, data.exclusions)}
    if form == "otava":
        metrics = [name for name in (RPS, P99) if trials[name].notna().any()]
        name = data.manifest.scenario_name
        return {f"{name}.csv": otava_csv([history(name, metric=metric, store=where) for metric in metrics])}
    if form == "openmetrics":
        return {f"{found.run_id}.txt": openmetrics(data)}
    if form in {"bmf", "conbench"}:
        return {f"{found.run_id}.json": bencher_json(data) if form == "bmf" else conbench_json(data)}
    latency = load("latency", store=where, run_id=found.run_id)
    texts = merged_by_cell(trials, latency, series, [cell] if cell is not None else cells, data.exclusions)
    if not texts:
        hint = "only tools that report every request have one"
        if data.exclusions:
            hint += ", and some trials here are invalid: add --invalid"
        raise InputError(f"no {series} histogram in {found.run_id}", hint=hint)
    names = {cell: quote(cell, safe="=,+@:~").replace("..", "%2E%2E") for cell in texts}  # each stays in its folder
    return {f"{names[cell]}.{series}.hgrm": text for cell, text in texts.items()}


def _write(texts: Mapping[str, str], out: Path, *, folder: bool) -> list[str]:
    from benchkit.errors import InputError

    files = {out / name: text for name, text in texts.items()} if folder else {out: "".join(texts.values())}
    for path, text in files.items():
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="")
        except OSError as error:
            raise InputError("cannot write the export", where=str(path), why=error.strerror) from None
    return [str(path) for path in files]
