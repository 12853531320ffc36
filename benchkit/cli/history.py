"""`benchkit history`: the series of a scenario over its runs, and the shifts of its level."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from benchkit import units
from benchkit.cli.console import print_json, print_table
from benchkit.cli.options import Json, ScenarioName, StoreToRead
from benchkit.units import counted

if TYPE_CHECKING:
    from benchkit.models.columns import Metric
    from benchkit.run_history.series import History, HistorySeries

SHOWN_RUNS = 30
"""Runs of a series that are listed, the latest ones; `--json` has all."""


def history(
    scenario: ScenarioName,
    *,
    metric: Annotated[str, typer.Option("--metric", help="A numeric column of `trials`.")] = "rps",
    cell: Annotated[
        str | None, typer.Option("--cell", metavar="CELL", help="Only this cell, or all with these levels: stack=go.")
    ] = None,
    since: Annotated[
        str | None, typer.Option("--since", metavar="WHEN", help="Only runs since a date (2026-01-31).")
    ] = None,
    values: Annotated[
        bool, typer.Option("--values", help="Values in place of ratios, for each group of equal hosts.")
    ] = False,
    store: StoreToRead = None,
    json: Json = False,
) -> None:
    """Show how the ratios of a scenario changed over its runs, and with which run their level shifted.

    Each ratio is to the baseline of the same run, so that hosts may change, which is stated. A shift has at least three
    runs on either side.
    """
    from benchkit.run_history.series import history as read_history

    if scenario.endswith((".yaml", ".yml")):
        from benchkit.scenario.read import read_experiment

        scenario = read_experiment(scenario).scenario.name
    found = read_history(scenario, metric=metric, cell=cell, since=since, values=values, store=store)
    if json:
        print_json(found)
    else:
        _show(found)


def _show(found: History) -> None:
    from benchkit.models.metrics import metric_named

    metric = metric_named(found.metric)
    print(f"{metric.title} of {found.scenario} over {counted(found.runs, 'run')}")
    for note in found.notes:
        print(f"! {note}")
    for series in found.series:
        print(f"\n{series.title} ({series.scale} scale)")
        _show_points(series, metric)
        for segment in series.segments[1:]:
            print(f"- segment {segment.number} from {segment.first_run}: {'; '.join(segment.differences)}")
        for sentence in series.sentences:
            print(f"- {sentence}")


def _show_points(series: HistorySeries, metric: Metric) -> None:
    shown = units.ratio if series.baseline is not None else metric.format
    shifts = {shift.first_run for shift in series.shifts}
    points = series.points[-SHOWN_RUNS:]
    if earlier := len(series.points) - len(points):
        print(f"{counted(earlier, 'earlier run')} not listed; --json has all")
    rows = []
    notes: dict[str, list[str]] = {}
    for point in points:
        about = [f"{name}={value}" for name, value in point.tags.items()]
        rows.append(
            (
                point.run_id,
                f"{point.started_at:%Y-%m-%d %H:%M}",
                str(point.segment),
                " ".join(filter(None, (point.code, *about))),
                shown(point.value),
                "" if point.low is None else f"{shown(point.low)} to {shown(point.high)}",
                "← shift" if point.run_id in shifts else "",
            )
        )
        status = "" if point.status == "done" else point.status
        if note := "; ".join(filter(None, (status, "" if point.is_used else "not used", point.note))):
            notes.setdefault(note, []).append(point.run_id)
    value = "ratio" if series.baseline else "value"
    print_table(("run", "started (UTC)", "segment", "code", value, "95 % interval", ""), rows, right=(2, 4))
    for note, runs in notes.items():
        print(f"- {', '.join(runs)}: {note}")
