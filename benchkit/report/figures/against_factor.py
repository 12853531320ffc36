"""Figures against a numeric factor, connections first of all: rate, cost and memory, and the share of waiting."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean, median

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cpu_profiles import goroutines_of, waiting_shares
from benchkit.report.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import Declaration, line_legend
from benchkit.report.metric_values import known, numbers
from benchkit.report.panels import HOLLOW, Panel, Scale, draw_averages, draw_panels, draw_points, notes
from benchkit.report.stored_run import StoredRun, cached_per_run
from benchkit.report.style import style
from benchkit.report.trends import (
    CellLine,
    lines_along,
    numeric_factor,
)
from benchkit.stats.samples import geometric_mean

MAX_LINES = 12
"""Lines that a figure has at most; its caption names the number of the others."""


@dataclass(frozen=True)
class _FactorPanel:
    """A metric against the factor.

    `trials` has a row for each value: trial_id, block, value, exclusion, x (its level), and hue and name of its line.
    """

    metric: str
    heading: str
    text: Callable[[float], str]
    average: Callable[[Iterable[float]], float]
    trials: pd.DataFrame

    @property
    def has_exclusions(self) -> bool:
        """True if any value is excluded."""
        return bool(self.trials["exclusion"].notna().any())

    @property
    def averages(self) -> pd.DataFrame:
        """Average of the included values at each level of each line: hue, x, y."""
        included = self.trials[self.trials["exclusion"].isna()]
        rows = [(hue, x, self.average(known(values))) for (hue, x), values in included.groupby(["hue", "x"])["value"]]
        return pd.DataFrame(rows, columns=["hue", "x", "y"], dtype=float)

    def ends(self, lacking: str) -> str:
        """Describe the averages at both ends of each line that has values at several levels."""
        averages, ends = self.averages, []
        for (hue, name), trials in self.trials.groupby(["hue", "name"]):
            points = averages[averages["hue"] == hue]
            if len(set(trials["x"])) == 1:
                continue
            if len(points) > 1:
                first, last = points.iloc[0], points.iloc[-1]
                ends.append(
                    f"{name} {self.text(first['y'])} at {first['x']:g}, {self.text(last['y'])} at {last['x']:g}"
                )
            else:
                ends.append(f"{name} {lacking}")
        return "; ".join(ends)

    def is_line(self) -> bool:
        """Return True if any line has values at two levels."""
        return any(len(set(levels)) > 1 for _, levels in self.trials.groupby("hue")["x"])


def _draw_factor_panels(
    run: StoredRun,
    panels: Sequence[_FactorPanel],
    lines: Mapping[int, str],
    *,
    title: str,
    subtitle: str,
    columns: int,
    height_in: float,
) -> Figure:
    """Draw a panel for each metric: a line through averages, and a point for each value."""
    factor = numeric_factor(run) or ""

    def draw_panel(axes: Axes, panel: _FactorPanel) -> None:
        draw_averages(axes, panel.averages)
        texts = [
            f"{name}, {x:g}, block {block}: {panel.text(value)}"
            for name, x, block, value in panel.trials[["name", "x", "block", "value"]].itertuples(index=False)
        ]
        draw_points(axes, panel.trials.assign(y=panel.trials["value"], text=texts))

    declaration = Declaration(
        title=title,
        notes=[notes(subtitle, HOLLOW if any(panel.has_exclusions for panel in panels) else None)],
        source=provenance(run),
        legend=line_legend(lines),
    )
    levels = sorted({level for line in lines_along(run, factor) for level, _ in line.cells})
    return draw_panels(
        declaration,
        [Panel(partial(draw_panel, panel=panel), Scale(panel.text, low=0), panel.heading) for panel in panels],
        Scale("{:,.6g}".format, factor, kind="log", places=levels),
        columns=columns,
        height_in=height_in,
    )


_LOAD_METRICS = (
    ("rps", "requests per second", units.rate),
    ("server_cpu_s_per_request", "server CPU per request", units.seconds),
    ("server_memory_bytes", "server memory", units.size),
)


def _load_available(run: StoredRun) -> bool:
    panels = _load_panels(run)
    return bool(panels) and panels[0].metric == "rps" and panels[0].is_line()


def _load_alt(run: StoredRun) -> str:
    ends = _load_panels(run)[0].ends("too few included trials")
    return f"Line charts against {numeric_factor(run)}; mean requests per second: {ends}."


def _load_caption(run: StoredRun) -> str:
    return (
        "Lines join the means over the included trials of a cell; each point is one trial. CPU is the CPU time of "
        "all services of the stack in the measured window, per request. Memory is the most that was resident in it."
        + more_in_table(len(lines_along(run, numeric_factor(run) or "")) - MAX_LINES, "line")
    )


@style()
def _draw_load(run: StoredRun) -> Figure:
    """Draw a panel for the rate and, where they are known, for CPU and memory."""
    panels = _load_panels(run, MAX_LINES)
    lines = lines_along(run, numeric_factor(run) or "")[:MAX_LINES]
    return _draw_factor_panels(
        run,
        panels,
        {hue: line.name for hue, line in enumerate(lines)},
        title=f"Rate, CPU per request and memory against {numeric_factor(run)}",
        subtitle=notes("line: means", "point: one trial"),
        columns=len(panels),
        height_in=3.05,
    )


LOAD = ReportFigure(
    name="connections",
    title="Rate, CPU per request and memory against load",
    is_available=_load_available,
    alt=_load_alt,
    caption=_load_caption,
    see="A line that falls to the right is a server that loses speed as connections are added.",
    draw=_draw_load,
)


def _load_panels(run: StoredRun, most: int | None = None) -> list[_FactorPanel]:
    """Return a panel for each metric that the first `most` lines have."""
    factor = numeric_factor(run)
    lines = [] if factor is None else lines_along(run, factor)[:most]
    places = pd.DataFrame(
        [(cell_id, level, hue, line.name) for hue, line in enumerate(lines) for level, cell_id in line.cells],
        columns=["cell_id", "x", "hue", "name"],
    )
    panels = [
        _FactorPanel(metric, heading, text, geometric_mean, run.values(metric).trials.merge(places, on="cell_id"))
        for metric, heading, text in _LOAD_METRICS
    ]
    return [panel for panel in panels if len(panel.trials)]


WAIT = "goroutine_wait_mean_s"
"""Column of `trials`; null in runs that were recorded before it."""


@dataclass(frozen=True)
class _ServiceLine:
    line: CellLine
    service: str
    name: str
    is_first: bool
    """True for the service whose line shows the whole trial in panels without services."""


def _scheduler_available(run: StoredRun) -> bool:
    return numeric_factor(run) is not None and not run.profile_shares.empty and _scheduler_panels(run)[0].is_line()


def _scheduler_alt(run: StoredRun) -> str:
    ends = _scheduler_panels(run)[0].ends("too few included profiles")
    return f"Line charts against {numeric_factor(run)}; share of finding and waiting for work: {ends}."


def _scheduler_caption(run: StoredRun) -> str:
    return (
        "Share of the CPU samples in which a server finds or waits for work. These are Go's scheduler with its polling of "
        "the network, and the epoll of event loops, nginx and Node. Shares come from the profiled trials. Rate, CPU and "
        "goroutines come from the measured trials, which were not profiled."
        + (
            " The wait of a goroutine is the time from being ready to run until a thread runs it (mean of "
            "/sched/latencies:seconds over the window). The share does not contain it: the CPU works for others meanwhile."
            if run.values(WAIT).by_cell
            else ""
        )
        + more_in_table(len(_service_lines(run)) - MAX_LINES, "line")
    )


@style()
def _draw_scheduler(run: StoredRun) -> Figure:
    panels = _scheduler_panels(run)
    shown = [replace(panel, trials=panel.trials[panel.trials["hue"] < MAX_LINES]) for panel in panels]
    return _draw_factor_panels(
        run,
        [panel for panel in shown if len(panel.trials)],
        {hue: line.name for hue, line in enumerate(_service_lines(run)[:MAX_LINES])},
        title=SCHEDULER.title,
        subtitle=notes("line: mean of the profiles, else median", "point: one profile or trial"),
        columns=2,
        height_in=2.65,
    )


SCHEDULER = ReportFigure(
    name="scheduler",
    title="Finding and waiting for work: share of the CPU against load",
    is_available=_scheduler_available,
    alt=_scheduler_alt,
    caption=_scheduler_caption,
    see="A line that rises in the first panel is a server that spends more of its CPU on finding work as connections are added.",
    draw=_draw_scheduler,
    data="profiles",
)


@cached_per_run
def _scheduler_panels(run: StoredRun) -> list[_FactorPanel]:
    """Return the share from profiles, then the metrics of the measured trials, each with a row for each service."""
    shares = waiting_shares(run.trials, run.profile_shares).rename(columns={"share": "value"})
    goroutines = goroutines_of(run.measured, run.telemetry).rename(columns={"count": "value"})
    excluded_profiles = {each.trial_id: each.reason for each in run.data.pass_exclusions if each.covers("rps")}

    def of_lines(rows: pd.DataFrame, exclusions: Mapping[str, str]) -> pd.DataFrame:
        return _by_service_line(run, rows.assign(exclusion=rows["trial_id"].map(exclusions)).dropna(subset="value"))

    def of_trials(metric: str, heading: str, text: Callable[[float], str]) -> _FactorPanel:
        rows = run.measured.assign(service=None, value=numbers(run.measured[metric]))
        return _FactorPanel(metric, heading, text, median, of_lines(rows, run.values(metric).exclusions))

    goroutines = of_lines(goroutines, run.values("rps").exclusions)
    return [
        _FactorPanel("share", "finding and waiting for work", units.share, fmean, of_lines(shares, excluded_profiles)),
        of_trials(WAIT, "mean wait of goroutines", units.seconds),
        _FactorPanel("goroutines", "goroutines", units.count, median, goroutines),
        of_trials("rps", "requests per second", units.rate),
        of_trials("server_cpu_s_per_request", "server CPU per request", units.seconds),
    ]


@cached_per_run
def _service_lines(run: StoredRun) -> list[_ServiceLine]:
    """Return a line for each profiled service, named after it if a line of cells has several."""
    shares = waiting_shares(run.trials, run.profile_shares)
    lines = []
    for line in lines_along(run, numeric_factor(run) or ""):
        cells = [cell_id for _, cell_id in line.cells]
        services = [str(name) for name in shares["service"][shares["cell_id"].isin(cells)].drop_duplicates()]
        lines += [
            _ServiceLine(line, service, f"{line.name}: {service}" if len(services) > 1 else line.name, i == 0)
            for i, service in enumerate(services)
        ]
    return lines


def _by_service_line(run: StoredRun, rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of each line with x, hue and name: of its service, in the first line also of no service."""
    parts = []
    for hue, each in enumerate(_service_lines(run)):
        levels = {cell_id: level for level, cell_id in each.line.cells}
        of_line = rows[rows["cell_id"].isin(list(levels))]
        of_line = of_line[(of_line["service"] == each.service) | (of_line["service"].isna() & each.is_first)]
        parts.append(of_line.assign(x=of_line["cell_id"].map(levels), hue=hue, name=each.name))
    columns = ["trial_id", "block", "value", "exclusion", "x", "hue", "name"]
    return pd.concat(parts)[columns] if parts else pd.DataFrame(columns=columns)
