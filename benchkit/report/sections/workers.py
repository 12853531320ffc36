"""Balance of work between the processes of a service."""

from __future__ import annotations

from benchkit import units
from benchkit.comparison.worker_balance import WorkerBalance, worker_balances
from benchkit.report.sections.section import Material, Section, TableContent
from benchkit.report.stored_run import StoredRun
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean


def build(material: Material) -> TableContent | None:
    """Return a row for each service with several workers; None if there is none, or none was watched."""
    run = material.run
    balances = worker_balances(run.measured, run.telemetry, run.values("rps").exclusions)
    if not balances:
        return None
    order = list(run.labels)
    return TableContent(
        Table(
            name="workers",
            caption="CPU time of workers over the measured window",
            columns=(
                Column("Cell", "name"),
                Column("Service"),
                Column("Host"),
                Column("Workers", "number"),
                Column("Busiest over mean", "number"),
                Column("Highest", "number"),
                Column("Idle workers", "number"),
                Column("Trials", "number"),
            ),
            rows=tuple(_row(each, run) for each in sorted(balances, key=lambda each: order.index(each.cell_id))),
        )
    )


SECTION = Section("workers", "Balance between workers", "workers.html.j2", build)


def _row(balance: WorkerBalance, run: StoredRun) -> tuple[Entry, ...]:
    suffix = ", invalid" if balance.only_invalid else ""
    return (
        Entry(run.labels[balance.cell_id]),
        Entry(clean(balance.service)),
        Entry(clean(balance.host)),
        Entry(units.count(balance.workers), float(balance.workers)),
        Entry(f"{balance.busiest:.2f}{suffix}", balance.busiest),
        Entry(f"{balance.highest:.2f}", balance.highest),
        Entry(f"{balance.idle:g}", balance.idle),
        Entry(units.count(balance.trials), float(balance.trials)),
    )
