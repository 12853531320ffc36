"""`benchkit history`: the series of a scenario over its runs, and the shifts of its level."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchkit import units
from benchkit.cli.console import announced_if_slow, print_json, print_table
from benchkit.cli.options import Json, ScenarioName, StoreToRead, complete_metric, in_existing_folder
from benchkit.units import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchkit.run_history.series import History, HistorySeries, Point

SHOWN_RUNS = 30
"""Runs of a series that are listed, the latest ones; `--json` has all."""


def history(
    scenario: ScenarioName,
    *,
    metric: Annotated[
        str, typer.Option("--metric", help="A numeric column of `trials`.", autocompletion=complete_metric)
    ] = "rps",
    cell: Annotated[
        str | None, typer.Option("--cell", metavar="CELL", help="Only this cell, or all with these levels: stack=go.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only runs since a date (2026-01-31) or an age (90d).")
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Values in place of ratios, for each group of equal hosts.")
    ] = False,
    out: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--out",
            metavar="DIR",
            callback=in_existing_folder,
            help="Also draw each series, as SVG and PNG, in this folder.",
        ),
    ] = None,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Show how the ratios of a scenario changed over its runs, and with which run their level shifted.

    Each ratio is to the baseline of the same run, so that it survives a change of hosts, which is stated. A shift has
    at least three runs on either side, and is significant in a permutation test.
    """
    from benchkit.run_history.series import history as read_history

    if scenario.endswith((".yaml", ".yml")):
        from benchkit.scenario.read import read_experiment

        scenario = read_experiment(scenario).scenario.name
    with announced_if_slow(f"reading the runs of {scenario}"):
        found = read_history(scenario, metric=metric, cell=cell, since=since, values=values, store=store)
    figures = [] if out is None else _draw(found, out)
    if json:
        print_json({**found.model_dump(mode="json"), **({} if out is None else {"figures": figures})})
        return
    _show(found)
    for path in figures:
        print(path)


def _draw(found: History, folder: Path) -> list[str]:
    import re

    from benchkit.report.figures.history import render_series
    from benchkit.report.pages.report_files import write_file

    written = []
    for series in found.series:
        title = f"{found.scenario} {series.scale} {found.metric} {series.title}"
        name = re.sub(r"[^A-Za-z0-9.]+", "-", title).strip("-")
        files = render_series(found, series)
        for suffix, content in ((".svg", files.svg), (".png", files.png)):
            write_file(folder / f"{name}{suffix}", content)
            written.append(str(folder / f"{name}{suffix}"))
    return written


def _show(found: History) -> None:
    from benchkit.models.metrics import metric_named

    print(f"{metric_named(found.metric).title} of {found.scenario} over {counted(found.runs, 'run')}")
    for note in found.notes:
        print(f"! {note}")
    for series in found.series:
        print(f"\n{series.title} ({series.scale} scale)")
        _show_points(series, found.metric)
        for segment in series.segments[1:]:
            print(f"- segment {segment.number} from {segment.first_run}: {'; '.join(segment.differences)}")
        for sentence in series.sentences:
            print(f"- {sentence}")


def _show_points(series: HistorySeries, metric: str) -> None:
    from benchkit.models.metrics import metric_named

    shown = units.ratio if series.baseline is not None else metric_named(metric).format
    marks = {shift.first_run: f"← {shift.kind}" for shift in series.shifts}
    earlier = len(series.points) - SHOWN_RUNS
    if earlier > 0:
        print(f"{units.counted(earlier, 'earlier run')} not listed; --json has all")

    def row(point: Point) -> tuple[str, ...]:
        about = [f"{name}={value}" for name, value in point.tags.items()]
        interval = "" if point.low is None else f"{shown(point.low)} to {shown(point.high)}"
        return (
            point.run_id,
            f"{point.started_at:%Y-%m-%d %H:%M}",
            str(point.segment),
            " ".join(filter(None, (point.code or "", *about))),
            shown(point.value),
            interval,
            marks.get(point.run_id, ""),
        )

    value = "ratio" if series.baseline else "value"
    heads = ("run", "started (UTC)", "segment", "code", value, "95 % interval", "")
    points = series.points[-SHOWN_RUNS:]
    print_table(heads, map(row, points), right=(2, 4))
    for note, runs in _runs_by_note(points).items():
        print(f"- {', '.join(runs)}: {note}")


def _runs_by_note(points: Sequence[Point]) -> dict[str, list[str]]:
    """Return the runs to which each note belongs: a column of notes would leave no room for the numbers."""
    runs: dict[str, list[str]] = {}
    for point in points:
        status = point.status if point.status != "done" else ""
        if note := "; ".join(filter(None, (status, "" if point.is_used else "not used", point.note))):
            runs.setdefault(note, []).append(point.run_id)
    return runs
