"""How much disk space the services' own folders took: a module proxy's cache, above all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from benchkit import units
from benchkit.report.clean_text import clean
from benchkit.report.sections.section import Material, Section
from benchkit.report.stored_run import StoredRun, once
from benchkit.report.tables import Column, Entry, Table


def build(material: Material) -> Mapping[str, Any] | None:
    """A row for each such folder of a cell, over its measured trials; nothing where no service has one."""
    table = folder_table(material.run)
    return None if table is None else {"table": table}


SECTION = Section("disk-usage", "Disk usage of services", "disk_usage.html.j2", build)


@once
def folder_table(run: StoredRun) -> Table | None:
    """The disk space of each such folder of a cell; None where there is none."""
    telemetry = run.telemetry
    weighed = telemetry.loc[telemetry["metric"] == "folder_bytes", ["trial_id", "service", "instance", "value"]]
    if weighed.empty:
        return None
    sizes = weighed.merge(run.measured[["trial_id", "cell_id"]], on="trial_id")
    by_folder = sizes.groupby(["cell_id", "service", "instance"], sort=True)["value"]
    found = by_folder.agg(["median", "max", "size"])
    rows = tuple(
        (
            Entry(view.label),
            Entry(clean(str(service))),
            Entry(clean(str(folder))),
            Entry(units.size(middle), middle),
            Entry(units.size(largest), largest),
            Entry(units.count(trials), float(trials)),
        )
        for view in run.cells
        for (cell_id, service, folder), middle, largest, trials in found.itertuples(name=None)
        if cell_id == view.cell_id
    )
    if not rows:
        return None
    columns = (
        Column("Cell", "name"),
        Column("Service"),
        Column("Folder"),
        Column("Disk space", "number"),
        Column("Largest", "number"),
        Column("Trials", "number"),
    )
    caption = "Disk space of the services' own folders after the measured window"
    return Table(name="disk-usage", caption=caption, columns=columns, rows=rows)
