"""The history of a scenario: its series over the runs of a store, in segments of equal conditions, and their shifts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from benchkit import units
from benchkit.comparison.ratios import Direction
from benchkit.errors import InputError, suggestion
from benchkit.models.base import Frozen, Name
from benchkit.models.columns import Metric
from benchkit.models.metrics import METRICS, metric_column, metric_named
from benchkit.models.run import RunStatus
from benchkit.run_history.estimates import Estimate, RunEstimates, condition_differences, read_estimates
from benchkit.store.store import Store, open_store
from benchkit.validation import is_valid_name

if TYPE_CHECKING:
    import pandas as pd

    from benchkit.run_history.change_points import Shift


class Point(Frozen, serialize_by_alias=True):
    """A run of a series. Without an interval it is shown and not used."""

    run_id: str
    started_at: datetime
    status: RunStatus
    segment: int
    """Number of the segment, from 1."""
    code: str | None
    """State of the checkout that it was started from: the beginning of the commit, `+` where files differed."""
    commits: tuple[str, ...]
    """Commits that the cell was built from."""
    tags: Mapping[str, str]
    value: float | None
    """Ratio to the baseline, or the value itself."""
    low: float | None
    high: float | None
    blocks: int
    is_used: bool
    note: str = Field(serialization_alias="remark")


class Segment(Frozen):
    """Runs of a series that follow one another under the same conditions."""

    number: int
    first_run: str
    last_run: str
    runs: int
    differences: tuple[str, ...]
    """Differences from the segment before."""


class SeriesShift(Frozen):
    """A change of the level of a series, as a ratio of the level after it to the level before it."""

    ratio: float
    low: float
    high: float
    p: float
    worth: Direction | None
    last_good_run: str
    """The last run before it."""
    first_run: str
    runs_before: int
    runs_after: int
    conditions: tuple[str, ...]
    """Differences of hosts and settings that came with its first run, and may be its cause."""
    sentence: str


class HistorySeries(Frozen):
    """A cell over the runs of a store: relative to its baseline, or its values under equal conditions."""

    scale: str
    cell_id: str
    baseline: str | None
    points: tuple[Point, ...]
    segments: tuple[Segment, ...]
    shifts: tuple[SeriesShift, ...]
    level: float | None
    """Geometric mean of the used runs since the last step."""
    sentences: tuple[str, ...]

    @property
    def title(self) -> str:
        """Cell and baseline in a few words."""
        return self.cell_id if self.baseline is None else f"{self.cell_id} relative to {self.baseline}"


class History(Frozen, serialize_by_alias=True):
    """The series of one metric of a scenario."""

    scenario: str
    metric: str
    kind: Literal["ratios", "values"]
    runs: int
    series: tuple[HistorySeries, ...]
    notes: tuple[str, ...] = Field(serialization_alias="notices")

    def frame(self) -> pd.DataFrame:
        """Return the points of all series as a table, a row for each run and cell."""
        import pandas as pd  # noqa: PLC0415 - slow, and only this table needs it

        columns = [field.serialization_alias or name for name, field in Point.model_fields.items()]
        rows = [
            {"scale": series.scale, "cell_id": series.cell_id, "baseline": series.baseline, **point.model_dump()}
            for series in self.series
            for point in series.points
        ]
        return pd.DataFrame(rows, columns=["scale", "cell_id", "baseline", *columns])


def history(
    scenario: str,
    *,
    metric: str = "rps",
    cell: str | None = None,
    since: str | datetime | None = None,
    values: bool = False,
    store: str | Path | Store | None = None,
) -> History:
    """Return the history of a scenario: its series over all runs with a finished trial, and their shifts.

    Each series is of one scale and cell. Ratios to the baseline within each run are comparable over a change of hosts:
    their series go on. With `values`, and where runs have no baseline, the series are of the values themselves, one for
    all runs with equal hosts and settings. `cell` is a cell or a part of its levels (`stack=go`), `since` a date
    (2026-01-31). Raises InputError.
    """
    where = open_store(store, must_exist=True)
    known = sorted({name for name, _ in where.partitions("trials", None, None)})
    if not is_valid_name(scenario, Name) or scenario not in known:
        raise InputError(
            f"the store has no run of scenario {scenario!r} with a finished trial",
            where=where.location,
            why=suggestion(scenario, known) if known else None,
            hint="`benchkit results list` shows the runs of the store",
        )
    metric = metric_column(metric)
    if metric not in METRICS:
        raise InputError(f"no metric {metric!r}", why=suggestion(metric, METRICS))
    runs = read_estimates(where, scenario, metric)
    start = None if since is None else _start(since)
    chosen = [run for run in runs if start is None or run.manifest.started_at >= start]
    if not chosen:
        what = f"no run of {scenario} started since {since}" if runs else f"no run of {scenario} can be read"
        raise InputError(what, where=where.location, hint="`benchkit results check` names what is damaged")
    has_ratios = any(each.baseline is not None for run in chosen for each in run.estimates)
    shows_ratios = has_ratios and not values
    grouped: dict[tuple[str, ...], list[tuple[RunEstimates, Estimate]]] = {}
    for run in chosen:
        for estimate in run.estimates:
            if (estimate.baseline is not None) == shows_ratios and _is_chosen(cell, estimate.cell_id):
                conditions = () if shows_ratios else (run.conditions,)
                key = (run.manifest.scale, estimate.cell_id, estimate.baseline or "", *conditions)
                grouped.setdefault(key, []).append((run, estimate))
    if not grouped:
        cells = dict.fromkeys(each.cell_id for run in chosen for each in run.estimates)
        raise InputError(f"no cell {cell!r}", where=scenario, why=suggestion(cell or "", list(cells)))
    imported = sum(run.manifest.is_imported for run in chosen)
    described = metric_named(metric)
    series = tuple(_make_series(rows, described) for rows in grouped.values())
    notes = []
    if not shows_ratios:
        notes.append(
            "Values of runs differ with the state of their hosts; ratios to a baseline within each run do not."
            if has_ratios
            else "These runs have one cell, so they have no ratio, and their values differ with the state of their "
            "hosts."
        )
    if imported:
        notes.append(f"{units.counted(imported, 'run')} imported: measured elsewhere, on hosts that are not known.")
    return History(
        scenario=scenario,
        metric=metric,
        kind="ratios" if shows_ratios else "values",
        runs=len(chosen),
        series=series,
        notes=tuple(notes),
    )


def _make_series(rows: Sequence[tuple[RunEstimates, Estimate]], metric: Metric) -> HistorySeries:
    from benchkit.run_history.change_points import find_shifts  # noqa: PLC0415 - ruptures takes half a second

    _, estimate = rows[0]
    segments = list(_segments([run for run, _ in rows]))
    numbers = [segment.number for segment in segments for _ in range(segment.runs)]
    points = [_point(run, estimate, number) for (run, estimate), number in zip(rows, numbers, strict=True)]
    used = [
        (run, each.log, each.error, each.df)
        for run, each in rows
        if each.log is not None and each.error is not None and each.df is not None
    ]
    title = estimate.cell_id if estimate.baseline is None else f"{estimate.cell_id} relative to {estimate.baseline}"
    subject = f"{metric.title} of {title}"
    shifts: Sequence[Shift] = ()
    described: list[SeriesShift] = []
    sentences = [f"No shift of {subject} is shown over {units.counted(len(used), 'run')}."]
    if used:
        runs, logs, errors, dfs = zip(*used, strict=True)
        shifts = find_shifts(logs, errors, dfs)
        described = [_describe_shift(shift, runs, subject, metric) for shift in shifts]
        sentences = [shift.sentence for shift in described] or sentences
    latest = [log for _, log, _, _ in used[shifts[-1].first if shifts else 0 :]]
    if unused := len(rows) - len(used):
        sentences.append(f"{units.counted(unused, 'run')} without a usable interval: shown, not used.")
    return HistorySeries(
        scale=rows[0][0].manifest.scale,
        cell_id=estimate.cell_id,
        baseline=estimate.baseline,
        points=tuple(points),
        segments=tuple(segments),
        shifts=tuple(described),
        level=math.exp(sum(latest) / len(latest)) if latest else None,
        sentences=tuple(sentences),
    )


def _segments(runs: Sequence[RunEstimates]) -> Iterator[Segment]:
    before: RunEstimates | None = None
    for number, (_, group) in enumerate(groupby(runs, key=lambda run: run.conditions), start=1):
        of_segment = list(group)
        yield Segment(
            number=number,
            first_run=of_segment[0].manifest.run_id,
            last_run=of_segment[-1].manifest.run_id,
            runs=len(of_segment),
            differences=() if before is None else condition_differences(before, of_segment[0]),
        )
        before = of_segment[-1]


def _point(run: RunEstimates, estimate: Estimate, segment: int) -> Point:
    interval = estimate.interval(run.alpha)
    low, high = interval or (None, None)
    return Point(
        run_id=run.manifest.run_id,
        started_at=run.manifest.started_at,
        status=run.manifest.status,
        segment=segment,
        code=None if run.manifest.code is None else run.manifest.code.short,
        commits=estimate.commits,
        tags=run.manifest.tags,
        value=None if estimate.log is None else math.exp(estimate.log),
        low=low,
        high=high,
        blocks=estimate.blocks,
        is_used=interval is not None,
        note="; ".join(filter(None, ("imported" if run.manifest.is_imported else "", estimate.note))),
    )


def _describe_shift(shift: Shift, used: Sequence[RunEstimates], subject: str, metric: Metric) -> SeriesShift:
    ratio, low, high = (math.exp(each) for each in (shift.change, shift.low, shift.high))
    direction = "higher" if ratio > 1 else "lower"
    worth: Direction | None = None if metric.better is None else "better" if direction == metric.better else "worse"
    last_good, first = used[shift.first - 1], used[shift.first]
    conditions = condition_differences(last_good, first) if last_good.conditions != first.conditions else ()
    size = f"{abs(ratio - 1):.1%} {direction} [{low - 1:+.1%}, {high - 1:+.1%}], p = {shift.p:.2g}"
    sentence = (
        f"{subject} shifts with run {_shown(first)}: {size}{f', {worth}' if worth else ''}. The last run before it is "
        f"{_shown(last_good)}; {shift.first - shift.start} runs before, {shift.end - shift.first} after."
    )
    if conditions:
        sentence += f" Hosts or settings changed with the same run, and may be the cause: {'; '.join(conditions)}."
    return SeriesShift(
        ratio=ratio,
        low=low,
        high=high,
        p=shift.p,
        worth=worth,
        last_good_run=last_good.manifest.run_id,
        first_run=first.manifest.run_id,
        runs_before=shift.first - shift.start,
        runs_after=shift.end - shift.first,
        conditions=conditions,
        sentence=sentence,
    )


def _shown(run: RunEstimates) -> str:
    about = [
        *([run.manifest.code.short] if run.manifest.code else []),
        *(f"{name}={value}" for name, value in run.manifest.tags.items()),
    ]
    return f"{run.manifest.run_id} ({', '.join(about)})" if about else run.manifest.run_id


def _is_chosen(cell: str | None, cell_id: str) -> bool:
    """Return True for the cell of that name, and for all that have these levels; None chooses all."""
    return cell is None or cell == cell_id or {part.strip() for part in cell.split(",")} <= set(cell_id.split(","))


def _start(since: str | datetime) -> datetime:
    try:
        found = since if isinstance(since, datetime) else datetime.fromisoformat(since)
    except ValueError:
        raise InputError("not a date", where=f"--since {since}", hint="as 2026-01-31") from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
