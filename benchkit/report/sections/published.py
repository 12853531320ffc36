"""What the study printed, cell by cell, beside what was measured here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.analysis.published_figures import PublishedComparison, published_figures
from benchkit.models.metrics import metric_named
from benchkit.report.cell_labels import level_name
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.units import ABSENT


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each figure that was published; nothing where the scenario has none."""
    run = material.run
    found = published_figures(run.data, run.profiled)
    if not found:
        return None
    labels = {view.cell_id: view.label for view in run.cells}
    return {
        "source": clean(str(run.manifest.scenario.get("source") or "")),
        "table": Table(
            name="published",
            caption="Figures of the study beside those of this run",
            columns=(
                Column("Cell", "name"),
                Column("Figure"),
                Column("Published", "number"),
                Column("Measured", "number"),
                Column("Verdicts on these trials"),
                Column("To be known", "prose"),
            ),
            rows=tuple(_row(each, labels) for each in found),
        ),
        "shares": any(each.share for each in found),
    }


SECTION = Section("published", "Published figures beside measured ones", "published.html.j2", build)


def _row(each: PublishedComparison, labels: Mapping[str, str]) -> tuple[Entry, ...]:
    shown = units.share if each.share else metric_named(each.name).format
    void = ", void" if each.only_invalid else ""
    return (
        Entry(_cell(each, labels)),
        Entry(f"{each.name}, cumulative share of the CPU" if each.share else metric_named(each.name).title),
        Entry(shown(each.published), each.published),
        Entry(ABSENT) if each.measured is None else Entry(f"{shown(each.measured)}{void}", each.measured),
        Entry(_verdicts(each)),
        Entry("; ".join(clean(said) for said in (each.note, each.why) if said) or ABSENT),
    )


def _cell(each: PublishedComparison, labels: Mapping[str, str]) -> str:
    name = labels.get(each.cell_id or "") or clean(
        ", ".join(level_name(factor, level) for factor, level in each.levels.items())
    )
    return f"{name}: {clean(each.service)}" if each.service else name


def _verdicts(each: PublishedComparison) -> str:
    """`8 valid, 2 suspect (cold)`: what the figure rests on."""
    if each.profiles is not None:
        return units.counted(each.profiles, "profile")
    if not each.verdicts:
        return ABSENT
    checks = f" ({', '.join(each.checks)})" if each.checks else ""
    return f"{', '.join(f'{times} {verdict}' for verdict, times in each.verdicts.items())}{checks}"
