"""Published figures of the study with the measured ones, cell by cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from benchkit import units
from benchkit.comparison.cell_labels import level_name
from benchkit.comparison.published_figures import PublishedComparison, published_figures
from benchkit.models.metrics import metric_named
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean
from benchkit.units import ABSENT


@dataclass(frozen=True)
class PublishedContent:
    """The study, the figures, and whether shares of profiles are among them."""

    source: str
    table: Table
    has_shares: bool


def build(material: Material) -> PublishedContent | None:
    """Return a row for each published figure; None if the scenario has none."""
    run = material.run
    comparisons = published_figures(run.data, run.service_profiles)
    if not comparisons:
        return None
    return PublishedContent(
        source=clean(str(run.manifest.scenario.get("source") or "")),
        table=Table(
            name="published",
            caption="Figures of the study and of this run",
            columns=(
                Column("Cell", "name"),
                Column("Figure"),
                Column("Published", "number"),
                Column("Measured", "number"),
                Column("Verdicts on the trials"),
                Column("Notes", "prose"),
            ),
            rows=tuple(_row(each, run.labels) for each in comparisons),
        ),
        has_shares=any(each.share for each in comparisons),
    )


SECTION = Section("published", "Published and measured figures", "published.html.j2", build)


def _row(each: PublishedComparison, labels: Mapping[str, str]) -> tuple[Entry, ...]:
    shown = units.share if each.share else metric_named(each.name).format
    suffix = ", invalid" if each.only_invalid else ""
    return (
        Entry(_cell(each, labels)),
        Entry(f"{each.name}, cumulative share of the CPU" if each.share else metric_named(each.name).title),
        Entry(shown(each.published), each.published),
        Entry(ABSENT) if each.measured is None else Entry(f"{shown(each.measured)}{suffix}", each.measured),
        Entry(_verdicts(each)),
        Entry("; ".join(clean(note) for note in (each.note, each.why) if note) or ABSENT),
    )


def _cell(each: PublishedComparison, labels: Mapping[str, str]) -> str:
    name = labels.get(each.cell_id or "") or clean(
        ", ".join(level_name(factor, level) for factor, level in each.levels.items())
    )
    return f"{name}: {clean(each.service)}" if each.service else name


def _verdicts(each: PublishedComparison) -> str:
    """Return the verdicts of the trials behind a figure: `8 valid, 2 suspect (cold)`."""
    if each.profiles is not None:
        return units.counted(each.profiles, "profile")
    if not each.verdicts:
        return ABSENT
    checks = f" ({', '.join(each.checks)})" if each.checks else ""
    return f"{', '.join(f'{times} {verdict}' for verdict, times in each.verdicts.items())}{checks}"
