"""Cells that these hosts do not support, and why."""

from __future__ import annotations

from benchkit.report.sections.section import Material, Section, TableContent
from benchkit.report.tables import Column, Entry, Table


def build(material: Material) -> TableContent | None:
    """Return a row for each such cell; None if all were supported."""
    cells = [view for view in material.run.cells if view.unsupported is not None]
    if not cells:
        return None
    return TableContent(
        Table(
            name="unsupported",
            caption="Cells that were planned and not run",
            columns=(Column("Cell", "name"), Column("Reason", "prose")),
            rows=tuple((Entry(view.label), Entry(view.unsupported or "")) for view in cells),
        )
    )


SECTION = Section("unsupported", "Not supported on these hosts", "table.html.j2", build)
