"""How far load tools disagree about the same cell, where a run has several."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchkit import units
from benchkit.analysis.agreement import Agreement, sentence, title_and_format
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table


def build(material: Material) -> Mapping[str, Any] | None:
    """A sentence for each metric, cell by cell, and the figures behind them; nothing with one tool alone."""
    found = material.run.agreements
    if not found:
        return None
    return {"cells": [_cell(number, same) for number, same in enumerate(_by_cell(found), 1)]}


SECTION = Section("tool-agreement", "Do the tools agree?", "tool_agreement.html.j2", build)


def _by_cell(found: Sequence[Agreement]) -> list[list[Agreement]]:
    cells: dict[str, list[Agreement]] = {}
    for each in found:
        cells.setdefault(_label(each), []).append(each)
    return list(cells.values())


def _label(agreement: Agreement) -> str:
    return clean(", ".join(f"{name} {level}" for name, level in agreement.levels.items()))


def _cell(number: int, found: Sequence[Agreement]) -> dict[str, Any]:
    label = _label(found[0])
    return {
        "label": label,
        "sentences": [clean(sentence(each)) for each in found],
        "left_out": [
            clean(f"{title_and_format(each.metric)[0]}: {tool} is left out, {why}.")
            for each in found
            for tool, why in each.left_out.items()
        ]
        + [
            clean(f"{title_and_format(each.metric)[0]}: {tool}, {what}.")
            for each in found
            for tool, what in each.invalid_trials.items()
        ],
        "table": Table(
            name=f"agreement-{number}",
            caption=f"What each tool says{f' of {label}' if label else ''}",
            columns=(
                Column("Figure"),
                Column("Tool", "name"),
                Column("Median", "number"),
                Column("Lowest trial", "number"),
                Column("Highest trial", "number"),
                Column("Trials", "number"),
            ),
            rows=tuple(row for each in found for row in _rows(each)),
        ),
    }


def _rows(agreement: Agreement) -> list[tuple[Entry, ...]]:
    title, shown = title_and_format(agreement.metric)
    return [
        (
            Entry(title),
            Entry(clean(each.tool)),
            Entry(shown(each.median), each.median),
            Entry(shown(each.lowest), each.lowest),
            Entry(shown(each.highest), each.highest),
            Entry(units.count(each.trials), float(each.trials)),
        )
        for each in agreement.tools
    ]
