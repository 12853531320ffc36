"""Trials that failed, were skipped, retried or repeated: a cell that sometimes fails is a failing cell."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit.report.sections.section import Material, Section, TableContent
from benchkit.report.tables import Column, Entry, Table
from benchkit.store.progress import RunProgress

INTERRUPTED = "its block was repeated; excluded"


def build(material: Material) -> TableContent | None:
    """Return a row for each such trial, by cell; None if every trial succeeded at once."""
    labels, progress = material.run.labels, material.run.progress
    failures = sorted(
        (labels.get(progress.positions[trial].cell_id, ""), progress.positions[trial].block, event, reason)
        for trial, event, reason in _failures(progress)
        if trial in progress.positions
    )
    if not failures:
        return None
    return TableContent(
        Table(
            name="failures",
            caption="Trials that did not succeed at once",
            columns=(Column("Cell", "name"), Column("Block", "number"), Column("Event"), Column("Reason", "prose")),
            rows=tuple(
                (Entry(label), Entry(str(block), float(block)), Entry(event), Entry(reason))
                for label, block, event, reason in failures
            ),
        )
    )


def _failures(progress: RunProgress) -> Iterator[tuple[str, str, str]]:
    """Yield each trial with the event and its reason."""
    yield from ((trial, "failed", reason) for trial, reason in progress.failed.items())
    yield from ((trial, "skipped", reason) for trial, reason in progress.skipped.items())
    yield from ((trial, "retried", reason) for trial, reasons in progress.retries.items() for reason in reasons)
    yield from ((trial, "interrupted", INTERRUPTED) for trial in progress.interrupted & progress.ended.keys())


SECTION = Section("failures", "Trials that failed or were repeated", "table.html.j2", build)
