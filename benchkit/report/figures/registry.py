"""All figures, in the order in which a report shows them."""

from __future__ import annotations

from benchkit.errors import InputError
from benchkit.registry import Registry
from benchkit.report.figure import ReportFigure
from benchkit.report.figures import (
    against_factor,
    as_watched,
    cpu_time,
    latency,
    latency_and_rate,
    rates,
    ratios,
    telemetry,
    verdicts,
    why,
)

_ALL = (
    rates.RATES,
    ratios.RATIOS,
    why.WHY,
    latency.PERCENTILE_CURVES,
    cpu_time.RESPONSE_TIMES,
    latency_and_rate.AGAINST_RATE,
    latency.OVER_TIME,
    rates.SLICES,
    latency_and_rate.THROUGHPUT,
    against_factor.LOAD,
    cpu_time.COST,
    against_factor.SCHEDULER,
    telemetry.HOST_ACTIVITY,
    as_watched.AS_WATCHED,
    telemetry.ACCEPT_QUEUES,
    verdicts.VERDICTS,
    ratios.TOOLS,
)

FIGURES: Registry[ReportFigure] = Registry(
    "benchkit.figures", {figure.name: figure for figure in _ALL}, ReportFigure, lambda figure: figure.name
)
"""All figures by name, plugins' figures last."""


def get_figure(name: str) -> ReportFigure:
    """Return the figure of that name. Raises InputError with the names of all figures."""
    if name not in FIGURES:
        raise InputError(f"no figure {name!r}", hint=f"figures: {', '.join(FIGURES)}")
    return FIGURES[name]
