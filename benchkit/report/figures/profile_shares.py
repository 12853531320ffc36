"""The figure of profiles: the CPU time of each profiled service by category, finding and waiting for work first."""

from __future__ import annotations

import pandas as pd

from benchkit import units
from benchkit.models.profile import CATEGORIES, WAITING
from benchkit.report.chart import MAX_ROWS, Chart, ChartRow, Panel, Scale, and_more, part_legend
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import shares
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import SERIES

WAITING_PART, OTHER_PART = "finding and waiting for work", "all else"


def _chart(run: StoredRun) -> Chart | None:
    profiles = run.service_profiles[:MAX_ROWS]
    if not profiles:
        return None
    totals = {name: sum(each.categories[name] for each in profiles) for name in CATEGORIES if name not in WAITING}
    largest = sorted(totals, key=lambda name: -totals[name])[: len(SERIES) - 2]
    parts: list[str] = [WAITING_PART, *largest, OTHER_PART]
    rows = []
    for y, each in enumerate(profiles):
        of_parts = {WAITING_PART: each.waiting} | {str(name): each.categories[name] for name in largest}
        of_parts[OTHER_PART] = max(0.0, round(1 - sum(of_parts.values()), 6))
        rows += [(y, part, share, f"{part}: {units.share(share)}") for part, share in of_parts.items()]
    has_several = len({each.service for each in profiles}) > 1
    hues = dict(zip(parts, range(len(parts)), strict=True))
    return Chart(
        caption="A server whose first part grows with connections spends more of its CPU on finding work"
        + and_more(len(run.service_profiles) - MAX_ROWS, "service")
        + ".",
        panels=[
            Panel(
                [shares(pd.DataFrame(rows, columns=["y", "part", "share", "text"]), hues)],
                Scale(units.share, "share of the CPU samples", low=0, high=1, ticks=4),
            )
        ],
        rows=[
            ChartRow(
                f"{run.labels[each.cell_id]}: {each.service}" if has_several else run.labels[each.cell_id],
                each.annotated("shares", units.share(each.waiting)),
            )
            for each in profiles
        ],
        subtitle=["mean over profiles; beside the bars: the share of finding and waiting for work"],
        legend=part_legend(hues),
    )


PROFILE_SHARES = ReportFigure("profile-shares", "CPU time by category", _chart, data="services")
