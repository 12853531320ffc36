"""Scheduling against a numeric factor, connections first of all: share of the CPU, waiting goroutines, rate and CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.comparison.cpu_profiles import goroutines_of, scheduler_shares
from benchkit.report.cell_lines import MAX_LINES, Line, lines_along, numeric_factor, set_factor_axes
from benchkit.report.figures.figure import ReportFigure, more_in_table, provenance
from benchkit.report.layout import line_legend, new_figure
from benchkit.report.metric_values import numbers
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import colour, dashes, styled
from benchkit.report.trial_marks import HOLLOW, Mark, draw_marks

TITLE = "The Go scheduler's share of the CPU against load"
WAIT = "goroutine_wait_mean_s"
"""Column of `trials`; null in runs that were recorded before it."""
GO_RUNTIME = "runtime."
"""Prefix of functions that only Go programs have; nginx and Node have no such scheduler."""
SUBTITLE = "line: mean of the profiles, else median \N{MIDDLE DOT} point: one profile or trial"

_PANEL_IN = 2.8
_COLUMNS = 2


@dataclass(frozen=True)
class _Panel:
    """A panel: its rows (trial_id, cell_id, block, service, value), the average of its line, and the text of values."""

    heading: str
    rows: pd.DataFrame
    text: Callable[[float | None], str]
    average: Callable[[pd.Series], float]
    exclusions: Mapping[str, str]
    """Reason by excluded trial; such trials are drawn hollow and are in no average."""

    @property
    def has_exclusions(self) -> bool:
        """True if any row is of an excluded trial."""
        return not self.exclusions.keys().isdisjoint(self.rows["trial_id"])


@dataclass(frozen=True)
class _ServiceLine:
    """A line of cells, of one service of theirs."""

    line: Line
    service: str
    name: str
    is_first: bool
    """True for the service whose line shows the whole trial in panels without services."""


def is_available(run: StoredRun) -> bool:
    """Return True if a service was profiled at two levels of the factor."""
    factor = numeric_factor(run)
    if factor is None or run.profile_shares.empty:
        return False
    shares = _panels(run)[0]
    return any(_measured_cells(shares, line) > 1 for line in _service_lines(run, factor))


def alt(run: StoredRun) -> str:
    """Describe the shares at the ends of each line."""
    factor = numeric_factor(run) or ""
    shares, ends = _panels(run)[0], []
    for line in _service_lines(run, factor):
        points = _averages(shares, line)
        if len(points) > 1:
            (low, first), (high, last) = points[0], points[-1]
            ends.append(f"{line.name} {units.share(first)} at {low:g}, {units.share(last)} at {high:g}")
        elif _measured_cells(shares, line) > 1:
            ends.append(f"{line.name} too few included profiles")
    return f"Line charts against {factor}; scheduler's share of the CPU samples: {'; '.join(ends)}."


def caption(run: StoredRun) -> str:
    """Explain what counts as the scheduler, and which trials each panel uses."""
    more = len(_service_lines(run, numeric_factor(run) or "")) - MAX_LINES
    return (
        "Share of the CPU samples in which the scheduler ran: parking, looking for work, waking, and asking the poller "
        "for the network while looking (netpoll under findRunnable). Shares come from the profiled trials; rate, CPU and "
        "goroutines from the measured ones, which were not profiled."
        + (
            " The wait of goroutines is another overhead than the share: the time from being ready to run until a thread runs "
            "it, while the CPU works for others (mean of /sched/latencies:seconds over the window)."
            if run.values(WAIT).by_cell
            else ""
        )
        + more_in_table(more, "line")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a panel for each of the metrics that the run has."""
    factor = numeric_factor(run) or ""
    lines = _service_lines(run, factor)[:MAX_LINES]
    panels = [panel for panel in _panels(run) if any(_measured_cells(panel, line) for line in lines)]
    rows = -(-len(panels) // _COLUMNS)
    has_exclusions = any(panel.has_exclusions for panel in panels)
    figure = new_figure(
        _PANEL_IN * rows,
        title=TITLE,
        subtitle=[SUBTITLE + (f" \N{MIDDLE DOT} {HOLLOW}" if has_exclusions else "")],
        source=provenance(run),
        legend=line_legend({hue: line.name for hue, line in enumerate(lines)}),
    )
    places = figure.add_gridspec(rows, _COLUMNS)
    for i, panel in enumerate(panels):
        axes = figure.add_subplot(places[i // _COLUMNS, i % _COLUMNS])
        for hue, line in enumerate(lines):
            _draw_line(axes, panel, line, hue)
        set_factor_axes(axes, panel.heading, panel.text, factor, [each.line for each in lines])
    return figure


FIGURE = ReportFigure(
    name="scheduler",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="A line that rises in the first panel is a scheduler that takes more of the CPU as connections are added.",
    draw=draw,
    data="profiles",
)


def _panels(run: StoredRun) -> list[_Panel]:
    shares = scheduler_shares(run.trials, run.profile_shares).rename(columns={"share": "value"})
    counts = goroutines_of(run.measured, run.telemetry).rename(columns={"count": "value"})
    trials = run.measured.assign(service=None)

    def of_trials(heading: str, metric: str, text: Callable[[float | None], str]) -> _Panel:
        values = trials.assign(value=numbers(trials[metric]))
        return _Panel(heading, values, text, _median, run.values(metric).exclusions)

    excluded_profiles = {each.trial_id: each.reason for each in run.profile_exclusions if each.covers("rps")}
    return [
        _Panel("scheduler's share", shares, units.share, _mean, excluded_profiles),
        of_trials("mean wait of goroutines", WAIT, units.seconds),
        _Panel("goroutines", counts, units.count, _median, run.values("rps").exclusions),
        of_trials("requests per second", "rps", units.rate),
        of_trials("server CPU per request", "server_cpu_s_per_request", units.seconds),
    ]


def _mean(values: pd.Series) -> float:
    return float(values.mean())


def _median(values: pd.Series) -> float:
    return float(values.median())


def _service_lines(run: StoredRun, factor: str) -> list[_ServiceLine]:
    """Return a line for each profiled Go service, named after it if a line of cells has several."""
    in_go = run.profiles[run.profiles["function"].str.startswith(GO_RUNTIME)]
    shares = scheduler_shares(run.trials, run.profile_shares)
    shares = shares.merge(in_go[["trial_id", "service"]].drop_duplicates())
    lines = []
    for line in lines_along(run, factor):
        cells = [cell_id for _, cell_id in line.cells]
        services = [str(name) for name in shares["service"][shares["cell_id"].isin(cells)].drop_duplicates()]
        has_several = len(services) > 1
        lines += [
            _ServiceLine(line, service, f"{line.name}: {service}" if has_several else line.name, service == services[0])
            for service in services
        ]
    return lines


def _values(panel: _Panel, line: _ServiceLine, cell_id: str) -> pd.DataFrame:
    """Return the rows of a cell that have a value: of the service, or of the whole trial in panels without services."""
    rows = panel.rows[(panel.rows["cell_id"] == cell_id) & panel.rows["value"].notna()]
    return rows[(rows["service"] == line.service) | (rows["service"].isna() & line.is_first)]


def _measured_cells(panel: _Panel, line: _ServiceLine) -> int:
    """Return the number of a line's cells that have a value, excluded or not."""
    return sum(len(_values(panel, line, cell_id)) > 0 for _, cell_id in line.line.cells)


def _averages(panel: _Panel, line: _ServiceLine) -> list[tuple[float, float]]:
    """Return (level, mean or median) of the cells that have included values."""
    points = []
    for level, cell_id in line.line.cells:
        rows = _values(panel, line, cell_id)
        included = rows["value"][~rows["trial_id"].isin(list(panel.exclusions))]
        if len(included):
            points.append((level, panel.average(included)))
    return points


def _draw_line(axes: Axes, panel: _Panel, line: _ServiceLine, hue: int) -> None:
    if averages := _averages(panel, line):
        axes.plot(*np.array(averages).T, color=colour(hue), linestyle=dashes(hue))
    draw_marks(axes, hue, list(_marks(panel, line)))


def _marks(panel: _Panel, line: _ServiceLine) -> Iterator[Mark]:
    """Yield every profile or trial: its level, its value, and its hover text."""
    for level, cell_id in line.line.cells:
        rows = _values(panel, line, cell_id)
        for trial_id, block, value in zip(rows["trial_id"], rows["block"], rows["value"], strict=True):
            text = f"{line.name}, {level:g}, block {block}: {panel.text(float(value))}"
            yield Mark(level, float(value), text, panel.exclusions.get(str(trial_id)))
