"""All figures, in the order in which a report shows them."""

from __future__ import annotations

from benchkit.errors import InputError
from benchkit.registry import Registry
from benchkit.report.figure import ReportFigure
from benchkit.report.figures import cpu_time, latency, load, load_curve, over_time, rates, ratios

_ALL = (
    rates.RATES,
    ratios.RATIOS,
    cpu_time.WHY,
    load_curve.LOAD_CURVE,
    latency.LATENCY,
    load.LOAD,
    over_time.OVER_TIME,
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
