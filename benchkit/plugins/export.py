"""`results export` writes HdrHistogram's .hgrm, and `profile export` a profile for speedscope."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer

from benchkit.cli.options import Json, RunId, StoreToRead, in_existing_folder
from benchkit.cli.profile import CellOption, File, ServiceOption, profile_of

if TYPE_CHECKING:
    import pandas as pd

    from benchkit.models.profile import Profile

SPEEDSCOPE = "https://www.speedscope.app/file-format-schema.json"
SERIES = "raw"
"""The exported series of `latency`: times as the load tool measured them."""
_US_PER_S = 1e6


def export_histograms(
    run: RunId,
    *,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="DIR", callback=in_existing_folder, help="Folder to write to.")
    ] = Path("histograms"),
    cell: Annotated[str | None, typer.Option(help="Only this cell.")] = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write the latency histogram of each cell as HdrHistogram's .hgrm, in microseconds.

    Histograms of a cell's trials are merged, without invalid trials. For everything else, read the tables:
    `benchkit.load("trials", run=…).to_csv("trials.csv")`.
    """
    from benchkit.comparison.stored_tables import load
    from benchkit.errors import InputError, suggestion
    from benchkit.models.metrics import P50
    from benchkit.store.store import open_store

    where = open_store(store)
    found = where.run(run)
    cells = [record.cell_id for record in found.manifest().cells]
    if cell is not None and cell not in cells:
        raise InputError(f"no cell {cell!r}", why=suggestion(cell, cells))
    trials = load("trials", store=where, run_id=found.run_id, valid_for=P50)
    buckets = load("latency", store=where, run_id=found.run_id, valid_for=P50)
    by_cell = buckets[buckets["series"] == SERIES].merge(trials[["trial_id", "cell_id"]], on="trial_id")
    texts = {
        name: hgrm(of_cell)
        for name in ([cell] if cell is not None else cells)
        if not (of_cell := by_cell[by_cell["cell_id"] == name]).empty
    }
    if not texts:
        raise InputError(
            "no histogram of a valid trial",
            where=found.run_id,
            hint="use a tool that records every request, such as wrk2",
        )
    # A quoted name has no slash, so that each file stays in the folder.
    files = {out / f"{quote(name, safe='=,+@:~').replace('..', '%2E%2E')}.hgrm": text for name, text in texts.items()}
    _write(files, json=json)


def hgrm(buckets: pd.DataFrame) -> str:
    """Return a percentile distribution as HdrHistogram writes it, in microseconds.

    `buckets` are rows of `latency` of one series, of one or several trials.
    """
    from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types

    counts = (buckets["high_s"] * _US_PER_S).round().astype(int).to_frame("us").assign(count=buckets["count"])
    histogram = HdrHistogram(1, max(int(counts["us"].max()), 2), 3)
    for us, count in counts.itertuples(index=False):
        histogram.record_value(us, count)
    text = BytesIO()
    histogram.output_percentile_distribution(text, 1)
    return text.getvalue().decode()


def export_profile(
    file: File,
    *,
    out: Annotated[
        Path, typer.Option("-o", "--out", metavar="FILE", callback=in_existing_folder, help="File to write.")
    ] = Path("profile.speedscope.json"),
    cell: CellOption = None,
    service: ServiceOption = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Write a profile for https://www.speedscope.app, which draws flame graphs that zoom and search."""
    from json import dumps

    profile, name = profile_of(file, cell=cell, service=service, store=store)
    _write({out: dumps(speedscope(profile, name), ensure_ascii=False)}, json=json)


def speedscope(profile: Profile, name: str) -> dict[str, Any]:
    """Return the document of speedscope.

    The format is published (github.com/jlfwong/speedscope, src/lib/file-format-spec.ts). Frames are stored once, and a
    sampled profile is a list of stacks, outermost frame first, with a weight each. Times have their unit; counts none.
    """
    from benchkit.models.profile import PER_SECOND
    from benchkit.version import __version__

    stacks = [(stack, weight) for stack, weight in zip(profile.stacks, profile.weights, strict=True) if weight > 0]
    sampled = {
        "type": "sampled",
        "name": f"{name}: {profile.value_type.kind}",
        "unit": profile.value_type.unit if profile.value_type.unit in {*PER_SECOND, "bytes"} else "none",
        "startValue": 0,
        "endValue": sum(weight for _, weight in stacks),
        "samples": [stack[::-1] for stack, _ in stacks],
        "weights": [weight for _, weight in stacks],
    }
    return {
        "$schema": SPEEDSCOPE,
        "name": name,
        "exporter": f"benchkit@{__version__}",
        "activeProfileIndex": 0,
        "shared": {
            "frames": [
                {"name": frame.label, **({"file": where} if (where := frame.file or frame.module) else {})}
                for frame in profile.frames
            ]
        },
        "profiles": [sampled],
    }


def _write(files: dict[Path, str], *, json: bool) -> None:
    from benchkit.cli.console import print_json
    from benchkit.errors import InputError

    for path, text in files.items():
        try:
            path.parent.mkdir(exist_ok=True)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise InputError("cannot write the file", where=str(path), why=error.strerror) from None
    if json:
        print_json({"written": [str(path) for path in files]})
    else:
        print(*files, sep="\n")
