"""Ratios of cells to their baseline, each with its interval, its test, and what is to be known beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.analysis.comparison import Comparison
from benchkit.analysis.ratio import Ratio
from benchkit.analysis.samples import describe_exclusions
from benchkit.analysis.wording import outcome, p_value
from benchkit.models.metrics import metric_named
from benchkit.report.clean_text import clean
from benchkit.report.ratio_labels import labels
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.units import ABSENT


def build(material: Material) -> Mapping[str, Any] | None:
    """A table for each metric; nothing where no two cells are compared."""
    found = material.run.comparisons
    if not found:
        return None
    named = labels(material.run)
    return {
        "notices": list(dict.fromkeys(clean(notice) for one in found for notice in one.notices)),
        "metrics": [_metric(one, named) for one in found],
        "confidence": f"{found[0].ratios[0].confidence:.0%}",
        "decides": found[0].decides,
    }


SECTION = Section("ratios", "Ratios, and what they show", "ratios.html.j2", build)


def _metric(comparison: Comparison, named: Mapping[str, str]) -> dict[str, Any]:
    (name,) = comparison.metrics
    title = metric_named(name).title
    return {
        "title": title,
        "table": Table(
            name=f"ratios-{name}",
            caption=f"{title}: cells over their baseline",
            columns=(
                Column("Cell", "name"),
                Column("Over"),
                Column("Baseline", "number", unit=metric_named(name).unit),
                Column("Its own", "number", unit=metric_named(name).unit),
                Column("Ratio", "number"),
                Column("From", "number", "Interval"),
                Column("To", "number", "Interval"),
                Column("p", "number"),
                Column("Blocks", "number"),
                Column("Difference"),
                Column("To know", "prose"),
            ),
            rows=tuple(_row(ratio, named) for ratio in comparison.ratios),
        ),
    }


def _row(ratio: Ratio, named: Mapping[str, str]) -> tuple[Entry, ...]:
    shown = metric_named(ratio.metric).format
    said = [ratio.reason or describe_exclusions(ratio.left_out), *ratio.remarks]
    return (
        Entry(named[ratio.cell_id]),
        Entry(named[ratio.baseline]),
        Entry(shown(ratio.baseline_value), ratio.baseline_value),
        Entry(shown(ratio.value), ratio.value),
        _number(ratio.ratio),
        _number(ratio.low),
        _number(ratio.high),
        Entry(p_value(ratio), ratio.p_holm),
        Entry(str(ratio.blocks), float(ratio.blocks)),
        Entry(outcome(ratio, brief=True)),
        Entry(clean("; ".join(filter(None, said)))),
    )


def _number(value: float | None) -> Entry:
    return Entry(ABSENT) if value is None else Entry(f"{value:.3f}", value)
