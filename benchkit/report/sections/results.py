"""What was compared and what came out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from benchkit import units
from benchkit.report.cell_labels import factors
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun, known
from benchkit.report.summary import CellSummary, Summary, sentence, summarise
from benchkit.report.theme import SERIES

_LISTED = 12
"""More cells than this are folded away behind the highest and the lowest."""


def build(material: Material) -> Mapping[str, Any]:
    """The comparison in a sentence, and one for each cell."""
    run, summary = material.run, summarise(material.run)
    return {
        "design": _design(run, summary),
        "results": [_result(cell, summary, run) for cell in summary.cells],
        "confidence": next((f"{cell.ratio.confidence:.0%}" for cell in summary.cells if cell.ratio is not None), None),
        "folded": len(summary.cells) > _LISTED,
        "extremes": _extremes(summary, run) if len(summary.cells) > _LISTED else [],
    }


SECTION = Section("results", "What was compared and what came out", "results.html.j2", build)


def _design(run: StoredRun, summary: Summary) -> str:
    """Cells, factors, repetitions and load: `2 cells (stack: go, nginx-go) in 5 blocks, 10 trials; wrk, …`."""
    levels = "; ".join(f"{name}: {', '.join(values)}" for name, values in factors(run.manifest).items())
    cells = units.counted(len(summary.cells), "cell") + (f" ({levels})" if levels else "")
    trials = units.counted(len(run.measured), "trial")
    blocks = units.counted(run.manifest.blocks, "block")
    return "; ".join(filter(None, (f"{cells} in {blocks}", f"{trials} ended", _load(run.measured)))) + "."


def _load(trials: pd.DataFrame) -> str:
    """The tool and its load, as far as all trials share them."""
    said = []
    tools = list(dict.fromkeys(map(str, trials["tool"].dropna())))
    if tools:
        said.append(" and ".join(tools))
    connections = sorted(set(known(trials["connections"])))
    if len(connections) == 1:
        said.append(units.counted(int(connections[0]), "connection"))
    windows = known(trials["duration_s"])
    if windows:
        said.append(f"measured for {units.seconds(float(pd.Series(windows).median()))} a trial")
    return ", ".join(said)


def _result(cell: CellSummary, summary: Summary, run: StoredRun) -> dict[str, Any]:
    figure, detail = sentence(cell, summary.labels, run.manifest.blocks)
    return {"label": cell.cell.label, "tone": cell.cell.hue % len(SERIES), "figure": figure, "detail": detail}


def _extremes(summary: Summary, run: StoredRun) -> list[dict[str, Any]]:
    ranked = sorted(
        (cell for cell in summary.cells if cell.median_rps is not None and cell.believed),
        key=lambda cell: cell.median_rps or 0,
    )
    return [_result(cell, summary, run) for cell in (ranked[-1], ranked[0])] if ranked else []
