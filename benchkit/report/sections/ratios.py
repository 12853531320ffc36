"""Ratios of cells to their baseline, each with its interval, its test and its caveats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchkit.comparison.compare import RunComparison
from benchkit.comparison.ratios import Ratio
from benchkit.comparison.texts import outcome, p_value
from benchkit.models.metrics import metric_named
from benchkit.report.ratio_labels import cell_names
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean
from benchkit.stats.samples import describe_exclusions
from benchkit.units import ABSENT


@dataclass(frozen=True)
class RatiosContent:
    """Notices on the comparisons, a table for each metric by its title, and how the results are decided.

    Rows name their notes by number: each is one of `notes`, of all tables together.
    """

    notices: tuple[str, ...]
    tables: Mapping[str, Table]
    notes: tuple[str, ...]
    confidence: str
    decides: str


def build(material: Material) -> RatiosContent | None:
    """Return a table for each metric; None if no two cells are compared."""
    comparisons = material.run.comparisons
    if not comparisons:
        return None
    names = cell_names(material.run)
    notes = tuple(dict.fromkeys(note for each in comparisons for ratio in each.ratios for note in _notes(ratio)))
    return RatiosContent(
        notices=tuple(dict.fromkeys(clean(note) for each in comparisons for note in each.notes)),
        tables={metric_named(each.metrics[0]).title: _table(each, names, notes) for each in comparisons},
        notes=notes,
        confidence=f"{comparisons[0].ratios[0].confidence:.0%}",
        decides=comparisons[0].decides,
    )


SECTION = Section("ratios", "Ratios to the baseline", "ratios.html.j2", build)


def _table(comparison: RunComparison, names: Mapping[str, str], notes: Sequence[str]) -> Table:
    (name,) = comparison.metrics
    title = metric_named(name).title
    return Table(
        name=f"ratios-{name}",
        caption=f"{title}: cells relative to their baseline",
        columns=(
            Column("Cell", "name"),
            Column("Relative to"),
            Column("Baseline value", "number", unit=metric_named(name).unit),
            Column("Value", "number", unit=metric_named(name).unit),
            Column("Ratio", "number"),
            Column("From", "number", "Interval"),
            Column("To", "number", "Interval"),
            Column("p", "number"),
            Column("Blocks", "number"),
            Column("Difference"),
            Column("Notes"),
        ),
        rows=tuple(_row(ratio, names, notes) for ratio in comparison.ratios),
    )


def _notes(ratio: Ratio) -> list[str]:
    """Return the reason of an undecided ratio, or its excluded trials, and its remarks."""
    texts = [ratio.reason or describe_exclusions(ratio.exclusions), *ratio.notes]
    return [clean(text) for text in texts if text]


def _row(ratio: Ratio, names: Mapping[str, str], notes: Sequence[str]) -> tuple[Entry, ...]:
    shown = metric_named(ratio.metric).format
    return (
        Entry(names[ratio.cell_id]),
        Entry(names[ratio.baseline]),
        Entry(shown(ratio.baseline_value), ratio.baseline_value),
        Entry(shown(ratio.value), ratio.value),
        _number(ratio.ratio),
        _number(ratio.low),
        _number(ratio.high),
        Entry(p_value(ratio), ratio.p_holm),
        Entry(str(ratio.blocks), float(ratio.blocks)),
        Entry(outcome(ratio, brief=True)),
        Entry(", ".join(str(notes.index(note) + 1) for note in _notes(ratio))),
    )


def _number(value: float | None) -> Entry:
    return Entry(ABSENT) if value is None else Entry(f"{value:.3f}", value)
