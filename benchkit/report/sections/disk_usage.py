"""Disk usage of the services' own folders, such as the cache of a module proxy."""

from __future__ import annotations

from benchkit import units
from benchkit.report.sections.section import Material, Section, TableContent
from benchkit.report.tables import Column, Entry, Table
from benchkit.safe_text import clean


def build(material: Material) -> TableContent | None:
    """Return a row for each such folder of a cell, over its measured trials; None if no service has one."""
    run = material.run
    telemetry = run.telemetry
    samples = telemetry.loc[telemetry["metric"] == "folder_bytes", ["trial_id", "host", "service", "instance", "value"]]
    if samples.empty:
        return None
    sizes = samples.merge(run.measured[["trial_id", "cell_id"]], on="trial_id")
    by_folder = sizes.groupby(["cell_id", "service", "host", "instance"], sort=True)["value"].agg(
        ["median", "max", "size"]
    )
    rows = tuple(
        (
            Entry(view.label),
            Entry(clean(str(service))),
            Entry(clean(str(host))),
            Entry(clean(str(folder))),
            Entry(units.size(median), median),
            Entry(units.size(largest), largest),
            Entry(units.count(trials), float(trials)),
        )
        for view in run.cells
        for (cell_id, service, host, folder), median, largest, trials in by_folder.itertuples(name=None)
        if cell_id == view.cell_id
    )
    if not rows:
        return None
    columns = (
        Column("Cell", "name"),
        Column("Service"),
        Column("Host"),
        Column("Folder"),
        Column("Disk space", "number"),
        Column("Largest", "number"),
        Column("Trials", "number"),
    )
    caption = "Disk space of the services' own folders after the measured window"
    return TableContent(Table(name="disk-usage", caption=caption, columns=columns, rows=rows))


SECTION = Section("disk-usage", "Disk usage of services", "disk_usage.html.j2", build)
