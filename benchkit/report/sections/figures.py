"""The figures, each with its caption and the way to its data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from markupsafe import Markup

from benchkit.report.sections.section import Material, Section


def build(material: Material) -> Mapping[str, Any] | None:
    """The drawn figures; none where the run has none."""
    if not material.drawings:
        return None
    run = material.run
    return {
        "figures": [
            {
                "name": drawing.figure.name,
                "title": drawing.figure.title,
                "caption": drawing.figure.caption(run),
                "data": drawing.figure.data,
                "table": drawing.figure.table(run) if drawing.figure.table is not None else None,
                "element": Markup(drawing.element),  # noqa: S704 - serialised from a tree: texts in it are escaped
            }
            for drawing in material.drawings
        ]
    }


SECTION = Section("figures", "Figures", "figures.html.j2", build)
