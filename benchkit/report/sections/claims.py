"""Results of the claims, with the published ratios."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from benchkit import units
from benchkit.comparison.claims import ClaimResult
from benchkit.models.metrics import metric_named
from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean
from benchkit.units import ABSENT


@dataclass(frozen=True)
class ClaimsContent:
    """Number of claims in each state, the claims, and the caveats of their ratios."""

    summary: str
    table: Table
    caveats: tuple[str, ...]


def build(material: Material) -> ClaimsContent | None:
    """Return a row for each claim; None if the scenario claims nothing."""
    claims = material.run.claims
    if not claims:
        return None
    counts = Counter(claim.state for claim in claims)
    return ClaimsContent(
        summary=f"Of {units.counted(len(claims), 'claim')}: {', '.join(f'{n} {state}' for state, n in counts.items())}.",
        table=Table(
            name="claims",
            caption="Every claim with its expectation and result",
            columns=(
                Column("No.", "name"),
                Column("Claim", "prose"),
                Column("Figure"),
                Column("Expected"),
                Column("Published", "number"),
                Column("Measured", "number"),
                Column("Result"),
                Column("Reason", "prose"),
            ),
            rows=tuple(_row(number, claim) for number, claim in enumerate(claims, start=1)),
        ),
        caveats=tuple(dict.fromkeys(clean(each) for claim in claims for ratio in claim.ratios for each in ratio.notes)),
    )


SECTION = Section("claims", "Claims: published and measured", "claims.html.j2", build)


def _row(number: int, claim: ClaimResult) -> tuple[Entry, ...]:
    """Return the row of a claim; with several ratios, the reason has each of them."""
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
