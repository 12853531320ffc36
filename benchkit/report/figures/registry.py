"""All figures, in the order in which a report shows them."""

from __future__ import annotations

from benchkit.errors import InputError
from benchkit.registry import Registry
from benchkit.report.figures import (
    accept_queue,
    by_connections,
    connection_times,
    cpu_categories,
    host_activity,
    latency,
    latency_against_rate,
    latency_over_time,
    latency_throughput,
    protocol_cost,
    ratio_forest,
    rps,
    scheduler,
    slices,
    tool_agreement,
    verdict_matrix,
)
from benchkit.report.figures.figure import ReportFigure

_ALL = (
    rps.FIGURE,
    ratio_forest.FIGURE,
    latency.FIGURE,
    connection_times.FIGURE,
    latency_against_rate.FIGURE,
    latency_over_time.FIGURE,
    slices.FIGURE,
    latency_throughput.FIGURE,
    by_connections.FIGURE,
    protocol_cost.FIGURE,
    scheduler.FIGURE,
    cpu_categories.FIGURE,
    host_activity.FIGURE,
    accept_queue.FIGURE,
    verdict_matrix.FIGURE,
    tool_agreement.FIGURE,
)

FIGURES: Registry[ReportFigure] = Registry(
    "benchkit.figures", {figure.name: figure for figure in _ALL}, ReportFigure, lambda figure: figure.name
)
"""All figures by name, those of plugins last."""


def get_figure(name: str) -> ReportFigure:
    """Return the figure of that name. Raises InputError with the names of all figures."""
    if name not in FIGURES:
        raise InputError(f"no figure {name!r}", hint=f"figures: {', '.join(FIGURES)}")
    return FIGURES[name]
