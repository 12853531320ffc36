"""All sections, in the order in which a report is read."""

from __future__ import annotations

from benchkit.report.sections import (
    answer,
    claims,
    disk_usage,
    failures,
    figures,
    hosts,
    notes,
    notices,
    profiles,
    published,
    ratios,
    reproduce,
    results,
    tool_agreement,
    trials,
    unsupported,
    verdicts,
    workers,
)
from benchkit.report.sections.section import Section

SECTIONS: tuple[Section, ...] = (
    answer.SECTION,
    results.SECTION,
    claims.SECTION,
    published.SECTION,
    ratios.SECTION,
    verdicts.SECTION,
    tool_agreement.SECTION,
    figures.SECTION,
    profiles.SECTION,
    workers.SECTION,
    disk_usage.SECTION,
    trials.SECTION,
    failures.SECTION,
    notes.SECTION,
    unsupported.SECTION,
    hosts.SECTION,
    notices.SECTION,
    reproduce.SECTION,
)
