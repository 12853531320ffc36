"""What the plan said of these hosts: not isolated, not applied, lowered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.report.sections.section import Material, Section


def build(material: Material) -> Mapping[str, Any] | None:
    """The notices of the run; nothing where there were none."""
    notices = material.run.manifest.notices
    return {"notices": notices} if notices else None


SECTION = Section("notices", "Notices", "notices.html.j2", build)
