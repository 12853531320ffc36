"""Sections with the results: the answer, the cells, and the figures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import factors
from benchkit.comparison.cell_results import ClassResult, class_results
from benchkit.comparison.texts import interval, outcome
from benchkit.models.metrics import P50, P99, metric_named
from benchkit.report.sections.blocks import Block, Details, Part, ReportInput, Section, TableBlock, Text, heading, note
from benchkit.report.stored_run import StoredRun, known
from benchkit.report.style import SERIES
from benchkit.report.summary import CellSummary, describe_cell, summarise
from benchkit.report.tables import Entry, named, number, table
from benchkit.safe_text import clean
from benchkit.units import ABSENT

ANSWER_FIGURE = "ratios"
"""Name of the figure that stands in the answer, at the start of the report."""
_MAX_LISTED = 12
"""Cells up to which all are listed; more are folded, as the figure of rates shows them."""


def _answer(report: ReportInput) -> Iterator[Block]:
    figure = next((drawing for drawing in report.drawings if drawing.name == ANSWER_FIGURE), None)
    yield Part("answer", {"answer": report.run.answer, "figure": figure})


def _figures(report: ReportInput) -> Iterator[Block]:
    drawings = [drawing for drawing in report.drawings if drawing.name != ANSWER_FIGURE]
    if drawings:
        yield Part("figures", {"drawings": drawings})


def _results(report: ReportInput) -> Iterator[Block]:
    run, cells = report.run, summarise(report.run)
    yield Text(_design(run))
    cards = _cards(cells, run)
    yield cards if len(cells) <= _MAX_LISTED else Details(f"All {len(cells)} cells", [cards])
    level = next((f"{cell.ratio.confidence:.0%}" for cell in cells if cell.ratio is not None), None)
    yield note(
        "A rate is the geometric mean of a cell's valid trials, with their range."
        + (
            f" A ratio is to the cell that differs in the baseline's levels alone, with its {level} interval."
            if level
            else ""
        )
    )
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
    """Describe the tool and its load, as far as all trials share them."""
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


def _cards(cells: Sequence[CellSummary], run: StoredRun) -> Part:
    cards = []
    for cell in cells:
        figure, detail = describe_cell(cell, run.labels, run.manifest.blocks)
        tone = cell.cell.hue % len(SERIES)
        cards.append({"label": cell.cell.label, "tone": tone, "figure": figure, "detail": detail})
    return Part("results", {"results": cards})


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
