"""All sections, in the order in which a report is read."""

from __future__ import annotations

from benchkit.report.sections import (
    again,
    agreement,
    claims,
    failures,
    figures,
    folders,
    hosts,
    notes,
    notices,
    profiles,
    published,
    ratios,
    results,
    trials,
    unsupported,
    verdicts,
    workers,
)
from benchkit.report.sections.section import Section

SECTIONS: tuple[Section, ...] = (
    results.SECTION,
    claims.SECTION,
    published.SECTION,
    ratios.SECTION,
    verdicts.SECTION,
    agreement.SECTION,
    figures.SECTION,
    profiles.SECTION,
    workers.SECTION,
    folders.SECTION,
    trials.SECTION,
    failures.SECTION,
    notes.SECTION,
    unsupported.SECTION,
    hosts.SECTION,
    notices.SECTION,
    again.SECTION,
)
