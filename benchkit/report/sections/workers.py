"""How evenly the processes of a service shared its work."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.analysis.worker_balance import WorkerBalance, worker_balances
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun, once
from benchkit.report.tables import Column, Entry, Table


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each service with several workers; nothing where no service has them, or none was watched."""
    table = worker_table(material.run)
    return None if table is None else {"table": table}


SECTION = Section("workers", "How evenly workers work", "workers.html.j2", build)


@once
def worker_table(run: StoredRun) -> Table | None:
    """How the workers of each such service shared its work; None where there is none."""
    labels = {view.cell_id: view.label for view in run.cells}
    order = list(labels)
    found = sorted(
        worker_balances(run.measured, run.telemetry, run.void("rps")), key=lambda each: order.index(each.cell_id)
    )
    if not found:
        return None
    return Table(
        name="workers",
        caption="CPU time of workers over the measured window",
        columns=(
            Column("Cell", "name"),
            Column("Service"),
            Column("Workers", "number"),
            Column("Busiest over mean", "number"),
            Column("Highest", "number"),
            Column("Idle workers", "number"),
            Column("Trials", "number"),
        ),
        rows=tuple(_row(each, labels) for each in found),
    )


def _row(each: WorkerBalance, labels: Mapping[str, str]) -> tuple[Entry, ...]:
    void = ", void" if each.only_invalid else ""
    return (
        Entry(labels.get(each.cell_id, each.cell_id)),
        Entry(clean(each.service)),
        Entry(units.count(each.workers), float(each.workers)),
        Entry(f"{each.busiest:.2f}{void}", each.busiest),
        Entry(f"{each.highest:.2f}", each.highest),
        Entry(f"{each.idle:g}", each.idle),
        Entry(units.count(each.trials), float(each.trials)),
    )
