"""The figure of load curves: rate and latency of each cell by its number of connections, with the knee."""

from __future__ import annotations

import pandas as pd

from benchkit import units
from benchkit.comparison.load_curves import CellCurve, cell_curves
from benchkit.report.chart import Chart, Panel, Scale, and_more, line_legend, notes
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import averages, points
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import SERIES

MAX_LINES = 2 * len(SERIES)
_KNEE_AREA, _RIM = 60.0, 0.8
_MEASURES = (
    ("rps", "requests per second", Scale(units.rate, low=0)),
    ("latency_p50_s", "p50 latency", Scale(units.seconds, kind="log")),
    ("latency_p99_s", "p99 latency", Scale(units.seconds, kind="log")),
)


def _chart(run: StoredRun) -> Chart | None:
    curves = cell_curves(run.data)
    if not curves:
        return None
    drawn = curves[:MAX_LINES]
    places = sorted({float(point.connections) for each in drawn for point in each.curve.points})
    panels = []
    for name, heading, scale in _MEASURES:
        frame = pd.concat([_points(each, hue, name) for hue, each in enumerate(drawn)], ignore_index=True)
        frame = frame.dropna(subset="y")
        if not frame.empty:
            at_knee = frame[frame["is_knee"]]
            panels.append(
                Panel([averages(frame), points(frame), points(at_knee, area=_KNEE_AREA, rim=_RIM)], scale, heading)
            )
    return Chart(
        caption="Up to the knee more connections raise the rate of a server; beyond it they raise only its latency"
        + and_more(len(curves) - MAX_LINES, "line")
        + ".",
        panels=panels,
        x=Scale("{:,.6g}".format, "connections", kind="log", places=places),
        subtitle=[notes("point: one window", "large point: the knee")],
        legend=line_legend({hue: each.label for hue, each in enumerate(drawn)}),
    )


def _points(curve: CellCurve, hue: int, name: str) -> pd.DataFrame:
    """Return the points of a line: hue, x, y, is_knee."""
    rows = [
        (hue, float(point.connections), getattr(point, name), point.connections == curve.curve.knee)
        for point in curve.curve.points
    ]
    return pd.DataFrame(rows, columns=["hue", "x", "y", "is_knee"]).astype({"y": "float64"})


LOAD_CURVE = ReportFigure("load-curve", "Rate and latency by connections", _chart, data="results")
