"""Trials that failed, were left out, tried again or run again: a cell that fails now and then is a failing cell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from benchkit.report.sections.section import Material, Section
from benchkit.report.tables import Column, Entry, Table
from benchkit.results.progress import Progress

CUT = "its block was cut by a pause and run again whole; it is in no figure"


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each such trial, by cell; nothing where all went through at once."""
    labels = {view.cell_id: view.label for view in material.run.cells}
    progress = material.run.progress
    found = sorted(
        (labels.get(progress.positions[trial].cell_id, ""), progress.positions[trial].block, what, why)
        for trial, what, why in _found(progress)
        if trial in progress.positions
    )
    if not found:
        return None
    return {
        "table": Table(
            name="failures",
            caption="Trials that did not go through at once",
            columns=(Column("Cell", "name"), Column("Block", "number"), Column("What"), Column("Why", "prose")),
            rows=tuple(
                (Entry(label), Entry(str(block), float(block)), Entry(what), Entry(why))
                for label, block, what, why in found
            ),
        )
    }


def _found(progress: Progress) -> Iterator[tuple[str, str, str]]:
    """The trials, what became of them, and why."""
    yield from ((trial, "failed", why) for trial, why in progress.failed.items())
    yield from ((trial, "left out", why) for trial, why in progress.skipped.items())
    yield from ((trial, "tried again", why) for trial, whys in progress.retries.items() for why in whys)
    yield from ((trial, "split", CUT) for trial in progress.interrupted & progress.ended.keys())


SECTION = Section("failures", "Trials that failed or were repeated", "table.html.j2", build)
