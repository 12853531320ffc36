"""Cells that these hosts could not carry, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each such cell; nothing where all were supported."""
    cells = [view for view in material.run.cells if view.unsupported is not None]
    if not cells:
        return None
    return {
        "table": Table(
            name="unsupported",
            caption="Cells that were planned and not run",
            columns=(Column("Cell", "name"), Column("Why", "prose")),
            rows=tuple((Entry(view.label), Entry(view.unsupported or "")) for view in cells),
        )
    }


SECTION = Section("unsupported", "Not supported on these hosts", "table.html.j2", build)
