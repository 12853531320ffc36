"""Claims: what studies published, beside what was measured here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.analysis.claim_result import ClaimResult
from benchkit.models.metrics import metric_named
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.units import ABSENT


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each claim; nothing where the scenario claims nothing."""
    claims = material.run.claims
    if not claims:
        return None
    counts = Counter(claim.state for claim in claims)
    return {
        "summary": f"Of {units.counted(len(claims), 'claim')}: {', '.join(f'{n} {state}' for state, n in counts.items())}.",
        "remarks": list(
            dict.fromkeys(clean(each) for claim in claims for ratio in claim.ratios for each in ratio.remarks)
        ),
        "table": Table(
            name="claims",
            caption="Every claim, what was expected and what became of it",
            columns=(
                Column("No.", "name"),
                Column("Claim", "prose"),
                Column("Figure"),
                Column("Expected"),
                Column("Published", "number"),
                Column("Measured", "number"),
                Column("Here"),
                Column("Because", "prose"),
            ),
            rows=tuple(_row(number, claim) for number, claim in enumerate(claims, start=1)),
        ),
    }


SECTION = Section("claims", "Claims: published beside measured", "claims.html.j2", build)


def _row(number: int, claim: ClaimResult) -> tuple[Entry, ...]:
    """The ratio measured stands in a column of its own where there is one; of several the reason has each."""
    (measured,) = [ratio.ratio for ratio in claim.ratios] if len(claim.ratios) == 1 else [None]
    return (
        Entry(str(number), float(number)),
        Entry(clean(claim.text)),
        Entry(metric_named(claim.metric).title),
        Entry(claim.expectation),
        Entry(ABSENT) if claim.published is None else Entry(f"{claim.published:g}", claim.published),
        Entry(ABSENT) if measured is None else Entry(f"{measured:.3g}", measured),
        Entry(claim.state),
        Entry(clean(claim.reason)),
    )
