"""Agreement of load tools on the same cell, if a run has several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchkit import units
from benchkit.comparison.agreement import Agreement, sentence, title_and_format
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean


@dataclass(frozen=True)
class CellContent:
    """A cell: a sentence for each metric, the excluded tools and trials, and the figures."""

    label: str
    sentences: tuple[str, ...]
    exclusions: tuple[str, ...]
    table: Table


@dataclass(frozen=True)
class AgreementContent:
    """All cells that differ in their tool alone."""

    cells: tuple[CellContent, ...]


def build(material: Material) -> AgreementContent | None:
    """Return the agreement on each cell; None for a run with one tool."""
    agreements = material.run.agreements
    if not agreements:
        return None
    return AgreementContent(tuple(_cell(number, same) for number, same in enumerate(_by_cell(agreements), 1)))


SECTION = Section("tool-agreement", "Do the tools agree?", "tool_agreement.html.j2", build)


def _by_cell(agreements: Sequence[Agreement]) -> list[list[Agreement]]:
    cells: dict[str, list[Agreement]] = {}
    for each in agreements:
        cells.setdefault(_label(each), []).append(each)
    return list(cells.values())


def _label(agreement: Agreement) -> str:
    return clean(", ".join(f"{name} {level}" for name, level in agreement.levels.items()))


def _cell(number: int, agreements: Sequence[Agreement]) -> CellContent:
    label = _label(agreements[0])
    return CellContent(
        label=label,
        sentences=tuple(clean(sentence(each)) for each in agreements),
        exclusions=(
            *(
                clean(f"{title_and_format(each.metric)[0]}: {tool} is excluded, {reason}.")
                for each in agreements
                for tool, reason in each.excluded_tools.items()
            ),
            *(
                clean(f"{title_and_format(each.metric)[0]}: {tool}, {note}.")
                for each in agreements
                for tool, note in each.invalid_trials.items()
            ),
        ),
        table=Table(
            name=f"agreement-{number}",
            caption=f"Results of each tool{f' for {label}' if label else ''}",
            columns=(
                Column("Figure"),
                Column("Tool", "name"),
                Column("Median", "number"),
                Column("Lowest trial", "number"),
                Column("Highest trial", "number"),
                Column("Trials", "number"),
            ),
            rows=tuple(row for each in agreements for row in _rows(each)),
        ),
    )


def _rows(agreement: Agreement) -> list[tuple[Entry, ...]]:
    title, to_text = title_and_format(agreement.metric)
    return [
        (
            Entry(title),
            Entry(clean(each.tool)),
            Entry(to_text(each.median), each.median),
            Entry(to_text(each.lowest), each.lowest),
            Entry(to_text(each.highest), each.highest),
            Entry(units.count(each.trials), float(each.trials)),
        )
        for each in agreement.tools
    ]
