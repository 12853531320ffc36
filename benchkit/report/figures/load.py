"""The figure of load: rate, latency, CPU and memory against connections, the target rate, or another numeric factor."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from benchkit import units
from benchkit.comparison.cell_labels import level_name
from benchkit.models.design import controlled
from benchkit.models.metrics import P50, P99
from benchkit.report.chart import Chart, Panel, Scale, and_more, line_legend, notes
from benchkit.report.figure import ReportFigure
from benchkit.report.layers import HOLLOW, averages, points
from benchkit.report.stored_run import StoredRun, cached_per_run, known, numbers
from benchkit.report.style import SERIES
from benchkit.stats.samples import geometric_mean

PREFERRED = "connections"
MAX_LINES = 2 * len(SERIES)


@dataclass(frozen=True)
class _Measure:
    metric: str
    heading: str
    text: Callable[[float], str]
    is_log: bool = False


_MEASURES = (
    _Measure("rps", "requests per second", units.rate),
    _Measure(P50, "p50 latency", units.seconds, is_log=True),
    _Measure(P99, "p99 latency", units.seconds, is_log=True),
    _Measure("server_cpu_s_per_request", "server CPU per request", units.seconds),
    _Measure("server_memory_bytes", "server memory", units.size),
)


def _chart(run: StoredRun) -> Chart | None:
    factor = numeric_factor(run)
    cells = _lines(run)
    if factor is None or not any(len(set(xs.values())) > 1 for xs in cells.values()):
        return None
    drawn = dict(list(cells.items())[:MAX_LINES])
    frames = {measure: frame for measure in _MEASURES if not (frame := _points(run, measure, drawn)).empty}
    if not frames:
        return None
    is_rate = _has_target_rates(run)
    label = "target rate, requests/s" if is_rate else factor
    return Chart(
        caption="A bend in a line shows where more load begins to cost rate, latency, CPU or memory"
        + and_more(len(cells) - MAX_LINES, "line")
        + ".",
        panels=[
            Panel(
                [averages(_averages(frame)), points(frame)],
                Scale(each.text, kind="log") if each.is_log else Scale(each.text, low=0),
                each.heading,
            )
            for each, frame in frames.items()
        ],
        x=Scale(units.rate, label, low=0, ticks=4)
        if is_rate
        else Scale(
            "{:,.6g}".format, label, kind="log", places=sorted({x for xs in drawn.values() for x in xs.values()})
        ),
        subtitle=[
            notes(
                "line: geometric mean",
                "point: one trial",
                HOLLOW if any(frame["exclusion"].notna().any() for frame in frames.values()) else None,
            )
        ],
        legend=line_legend(dict(enumerate(drawn))),
    )


LOAD = ReportFigure("load", "Rate, latency and costs against load", _chart)


def numeric_factor(run: StoredRun) -> str | None:
    """Return the factor of the axis: connections, else the first numeric one with several levels; None: no such one."""
    levels: dict[str, set[float]] = {}
    for cell in run.manifest.cells:
        for name, level in cell.levels.items():
            if (value := _positive(level)) is not None:
                levels.setdefault(name, set()).add(value)
    varying = [name for name, values in levels.items() if len(values) > 1]
    return PREFERRED if PREFERRED in varying else next(iter(varying), None)


def _positive(level: object) -> float | None:
    if isinstance(level, bool) or not isinstance(level, int | float) or level <= 0:
        return None
    return float(level)


def _has_target_rates(run: StoredRun) -> bool:
    """Return True if the cells differ in their target rate: then the axis has the rates themselves."""
    rates = numbers(run.measured["rate_requested"])
    varies = len(set(rates.groupby(run.measured["cell_id"]).median().dropna())) > 1
    return varies and numeric_factor(run) != PREFERRED


@cached_per_run
def _lines(run: StoredRun) -> dict[str, dict[str, float]]:
    """Return the cells of each line, which differ in the factor alone, with their places on the axis, by its name."""
    factor = numeric_factor(run)
    levels: dict[str, set[str]] = {}
    for cell in run.manifest.cells:
        for name, level in cell.levels.items():
            levels.setdefault(name, set()).add(str(level))
    varying = [name for name, texts in levels.items() if name != factor and len(texts) > 1]
    rates = numbers(run.measured["rate_requested"]).groupby(run.measured["cell_id"]).median()
    found: dict[str, dict[str, float]] = {}
    for cell in run.manifest.cells:
        x = rates.get(cell.cell_id) if _has_target_rates(run) else _positive(cell.levels.get(factor or ""))
        if x is not None and x > 0 and controlled(cell.cell_id) is None and cell.unsupported is None:
            names = [level_name(name, cell.levels[name]) for name in varying if name in cell.levels]
            found.setdefault(", ".join(names) or "all trials", {})[cell.cell_id] = float(x)
    return found


def _points(run: StoredRun, measure: _Measure, cells: Mapping[str, Mapping[str, float]]) -> pd.DataFrame:
    """Return each trial of the lines that has a value above 0: x, y, hue, exclusion."""
    trials = run.values(measure.metric).trials
    places = pd.DataFrame(
        [(cell_id, x, hue) for hue, xs in enumerate(cells.values()) for cell_id, x in xs.items()],
        columns=["cell_id", "x", "hue"],
    )
    frame = trials[trials["value"] > 0].merge(places, on="cell_id")
    return frame.assign(y=frame["value"])


def _averages(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the geometric mean of the included trials at each place of each line: hue, x, y."""
    included = frame[frame["exclusion"].isna()]
    rows: Sequence[tuple[object, ...]] = [
        (hue, x, geometric_mean(known(values))) for (hue, x), values in included.groupby(["hue", "x"])["y"]
    ]
    return pd.DataFrame(rows, columns=["hue", "x", "y"], dtype=float)
