"""Sections with the results: the answer, the cells, and the figures."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from benchkit import units
from benchkit.comparison.answer import times_with_interval
from benchkit.comparison.cell_labels import factors
from benchkit.comparison.cell_results import ClassResult, class_results
from benchkit.comparison.load_curves import CellCurve, HeldLatency, HeldRate, cell_curves
from benchkit.comparison.texts import interval, outcome
from benchkit.models.metrics import P50, P99, P999, RPS, metric_named
from benchkit.report.sections.blocks import Block, Part, ReportInput, Section, TableBlock, Text, heading, note
from benchkit.report.stored_run import StoredRun, known
from benchkit.report.summary import CellSummary, summarise
from benchkit.report.tables import Entry, named, number, prose, table
from benchkit.safe_text import clean
from benchkit.stats.samples import geometric_mean
from benchkit.units import ABSENT

ANSWER_FIGURE = "ratios"
"""Name of the figure beside the answer."""


def _answer(report: ReportInput) -> Iterator[Block]:
    figure = next((drawing for drawing in report.drawings if drawing.name == ANSWER_FIGURE), None)
    yield Part("answer", {"answer": report.run.answer, "figure": figure})


def _figures(report: ReportInput) -> Iterator[Block]:
    drawings = [drawing for drawing in report.drawings if drawing.name != ANSWER_FIGURE]
    if drawings:
        yield Part("figures", {"drawings": drawings})


def _results(report: ReportInput) -> Iterator[Block]:
    run = report.run
    yield Text(_design(run))
    yield TableBlock(table("cells", "Every cell with its result", [_cell_row(cell, run) for cell in summarise(run)]))
    yield note(
        "A result is the geometric mean of the usable trials of a cell, with their range. A ratio is relative to the cell "
        "that differs only in the levels of the baseline."
    )
    if curves := cell_curves(run.data):
        yield heading("Load curves")
        yield TableBlock(table("load-curves", "Rate and limit of each cell", [_curve_row(each) for each in curves]))
    if (held := run.held) is not None:
        yield heading(f"At {units.requests_per_s(held.rate)}")
        rows = [_held_row(each, held) for each in held.servers]
        yield TableBlock(table("held", "Latencies at the held rate, from when requests were due", rows))
    classes = class_results(run.data, run.class_ratios)
    if classes:
        yield heading("Classes of requests")
        yield TableBlock(table("classes", "Every class of requests", [_class_row(each) for each in classes]))


ANSWER = Section("answer", "Answer", _answer)
RESULTS = Section("results", "Compared cells and results", _results)
FIGURES = Section("figures", "Figures", _figures)


def _design(run: StoredRun) -> str:
    """Describe cells, factors, repetitions and load: `2 cells (stack: go, nginx-go) in 5 blocks; 10 trials ended`."""
    levels = "; ".join(f"{name}: {', '.join(values)}" for name, values in factors(run.manifest).items())
    cells = units.counted(len(run.cells), "cell") + (f" ({levels})" if levels else "")
    trials = units.counted(len(run.measured), "trial")
    blocks = units.counted(run.manifest.blocks, "sliced block" if run.measured["slices"].notna().any() else "block")
    return "; ".join(filter(None, (f"{cells} in {blocks}", f"{trials} ended", _load(run.measured)))) + "."


def _load(trials: pd.DataFrame) -> str:
    """Describe the load that all trials share: tool, connections, window and slices."""
    parts = [" and ".join(dict.fromkeys(map(str, trials["tool"].dropna())))]
    connections = sorted(set(known(trials["connections"])))
    if len(connections) == 1:
        parts.append(units.counted(int(connections[0]), "connection"))
    windows, slices = trials["duration_s"].dropna(), trials["slices"].dropna()
    if len(windows):
        parts.append(f"measured for {units.seconds(float(windows.median()))} a trial")
    if len(slices):
        parts.append(f"in {units.counted(round(float(slices.median())), 'slice')} in turn with the other cells")
    return ", ".join(filter(None, parts))


def _cell_row(cell: CellSummary, run: StoredRun) -> dict[str, Entry]:
    metric = metric_named(run.data.primary_metric)
    values = run.values(metric.name).included_or_all(cell.cell.cell_id)
    result = number(geometric_mean(values) if values else None, metric.format, "" if cell.is_usable else ", not usable")
    interval = f"{metric.format(min(values))} to {metric.format(max(values))}" if len(values) > 1 else ABSENT
    if cell.capacity is not None:
        result = Entry(cell.capacity.figure, cell.capacity.rps, "number")
        interval = cell.capacity.interval.removeprefix(", ") or ABSENT
    ratio = cell.ratio
    return {
        "Cell": named(cell.cell.label),
        metric.title: result,
        "Range": Entry(interval),
        **({} if metric.name == RPS else {"RPS": number(cell.mean_rps, units.rate)}),
        "Trials": number(
            cell.trials, units.count, f" of {blocks}" if cell.trials < (blocks := run.manifest.blocks) else ""
        ),
        "Ratio": Entry(ABSENT if ratio is None else f"{times_with_interval(ratio)} of {run.labels[ratio.baseline]}"),
        "Notes": prose("; ".join(_notes(cell)) or ABSENT),
    }


def _notes(cell: CellSummary) -> Iterator[str]:
    """Yield the reasons why a cell has no result, its objective, its excluded trials and its failures."""
    if cell.cell.unsupported is not None:
        yield f"not supported on these hosts: {cell.cell.unsupported}"
    elif cell.mean_rps is None:
        yield "no trial of it ended with a rate"
    if cell.capacity is not None and cell.capacity.objective:
        yield f"highest rate with {cell.capacity.objective}"
    if cell.exclusions:
        number_of = units.counted(len(cell.exclusions), "trial") if cell.is_usable else "all trials"
        yield f"{number_of} excluded from comparisons ({', '.join(dict.fromkeys(cell.exclusions))})"
    if cell.errors > 0:
        yield units.counted(int(cell.errors), "failed request")
    if cell.non_2xx > 0:
        yield f"{units.counted(int(cell.non_2xx), 'response')} with a status other than 2xx"


def _curve_row(cell: CellCurve) -> dict[str, Entry]:
    curve = cell.curve
    return {
        "Cell": named(cell.label),
        "RPS": number(curve.rps, units.rate),
        "Range": Entry(units.interval(curve.rps_low, curve.rps_high, units.rate).removeprefix(", ") or ABSENT),
        "Knee": number(float(curve.knee), units.count),
        "Answer without load": number(curve.answer_s, units.seconds),
        "Limit": prose(f"{curve.limit.sentence}."),
    }


def _held_row(cell: HeldLatency, held: HeldRate) -> dict[str, Entry]:
    row = {"Cell": named(cell.label)}
    for metric, value in ((P50, cell.p50_s), (P99, cell.p99_s), (P999, cell.p999_s)):
        ratio = held.ratio(cell.cell_id, metric)
        beside = f" ({times_with_interval(ratio)})" if ratio is not None and ratio.ratio is not None else ""
        row[metric_named(metric).title] = number(value, units.seconds, beside)
    times = {} if cell.answer is None else cell.answer.model_dump()
    titles = {
        "mean_s": "Mean",
        "cpu_s": "CPU time",
        "run_queue_s": "Run-queue delay",
        "without_cpu_s": "Waits without CPU",
    }
    return row | {title: number(times.get(field), units.seconds) for field, title in titles.items()}


def _class_row(result: ClassResult) -> dict[str, Entry]:
    row = {
        "Class": named(clean(result.request_class)),
        "Cell": Entry(result.label),
        "Share": number(result.share, units.share),
    }
    ratios = {ratio.metric: ratio for ratio in result.ratios}
    for metric, seconds in ((P50, result.latency_p50_s), (P99, result.latency_p99_s)):
        name, ratio = metric_named(metric).title.removesuffix(" latency"), ratios.get(metric)
        row |= {
            name: number(seconds, metric_named(metric).format, ", not usable" if result.is_unusable else ""),
            f"Ratio of {name}": number(None if ratio is None else ratio.ratio, "{:.3f}".format),
            f"Interval of {name}": Entry(ABSENT if ratio is None else interval(ratio)),
            f"Difference in {name}": Entry(ABSENT if ratio is None else outcome(ratio, brief=True)),
        }
    return row
