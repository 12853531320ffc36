"""Notices of the plan on the hosts: what is not isolated, not applied, or lowered."""

from __future__ import annotations

from dataclasses import dataclass

from benchkit.report.sections.section import Material, Section


@dataclass(frozen=True)
class NoticesContent:
    """The notices of a run."""

    notices: tuple[str, ...]


def build(material: Material) -> NoticesContent | None:
    """Return the notices of the run; None if there were none."""
    notices = material.run.manifest.notes
    return NoticesContent(tuple(notices)) if notices else None


SECTION = Section("notices", "Notices", "notices.html.j2", build)
