"""Compared cells and their results."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import factors
from benchkit.report.metric_values import known
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun
from benchkit.report.summary import CellSummary, Summary, describe_cell, summarise
from benchkit.report.theme import SERIES

_MAX_LISTED = 12
"""Cells up to which all are listed; more are folded behind the highest and the lowest."""


@dataclass(frozen=True)
class Result:
    """Result of a cell: label, number of its colour, leading figure and the sentence below it."""

    label: str
    tone: int
    figure: str
    detail: str


@dataclass(frozen=True)
class ResultsContent:
    """The design in a sentence, and the result of each cell; `extremes` are shown if the cells are folded."""

    design: str
    results: tuple[Result, ...]
    extremes: tuple[Result, ...]
    confidence: str | None


def build(material: Material) -> ResultsContent:
    """Return the design and the results."""
    run, summary = material.run, summarise(material.run)
    is_folded = len(summary.cells) > _MAX_LISTED
    return ResultsContent(
        design=_design(run, summary),
        results=tuple(_result(cell, run) for cell in summary.cells),
        extremes=tuple(_result(cell, run) for cell in _extremes(summary)) if is_folded else (),
        confidence=next((f"{cell.ratio.confidence:.0%}" for cell in summary.cells if cell.ratio is not None), None),
    )


SECTION = Section("results", "Compared cells and results", "results.html.j2", build)


def _design(run: StoredRun, summary: Summary) -> str:
    """Describe cells, factors, repetitions and load: `2 cells (stack: go, nginx-go) in 5 blocks; 10 trials ended`."""
    levels = "; ".join(f"{name}: {', '.join(values)}" for name, values in factors(run.manifest).items())
    cells = units.counted(len(summary.cells), "cell") + (f" ({levels})" if levels else "")
    trials = units.counted(len(run.measured), "trial")
    blocks = units.counted(run.manifest.blocks, "sliced block" if run.measured["slices"].notna().any() else "block")
    return "; ".join(filter(None, (f"{cells} in {blocks}", f"{trials} ended", _load(run.measured)))) + "."


def _load(trials: pd.DataFrame) -> str:
    """Describe the tool and its load, as far as all trials share them."""
    parts = []
    tools = list(dict.fromkeys(map(str, trials["tool"].dropna())))
    if tools:
        parts.append(" and ".join(tools))
    connections = sorted(set(known(trials["connections"])))
    if len(connections) == 1:
        parts.append(units.counted(int(connections[0]), "connection"))
    windows = known(trials["duration_s"])
    if windows:
        parts.append(f"measured for {units.seconds(float(pd.Series(windows).median()))} a trial")
    slices = known(trials["slices"])
    if slices:
        parts.append(
            f"in {units.counted(round(float(pd.Series(slices).median())), 'slice')} in turn with the other cells"
        )
    return ", ".join(parts)


def _result(cell: CellSummary, run: StoredRun) -> Result:
    figure, detail = describe_cell(cell, run.labels, run.manifest.blocks_with(cell.cell.cell_id))
    return Result(cell.cell.label, cell.cell.hue % len(SERIES), figure, detail)


def _extremes(summary: Summary) -> list[CellSummary]:
    """Return the cells with the highest and the lowest rate."""
    ranked = sorted(
        (cell for cell in summary.cells if cell.mean_rps is not None and cell.is_usable),
        key=lambda cell: cell.mean_rps or 0,
    )
    return [ranked[-1], ranked[0]] if ranked else []
