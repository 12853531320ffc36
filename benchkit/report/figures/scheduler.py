"""The scheduler's share, goroutines, rate and CPU per request against a factor in numbers, connections first of all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchkit import units
from benchkit.analysis.scheduler_share import goroutines_of, headlines_of
from benchkit.report.cell_lines import Line, dress, factor_of, lines_of
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.stored_run import StoredRun, numbers
from benchkit.report.style import colour, dashes, styled
from benchkit.report.trial_marks import HOLLOW, Mark, any_void, draw_marks

TITLE = "The Go scheduler's share of the CPU against load"
MOST_LINES = 12
GO_RUNTIME = "runtime."
"""What functions begin with that only Go programs have; nginx and Node have no such scheduler."""
SUBTITLE = "line: mean of the profiles, else median \N{MIDDLE DOT} point: one profile or trial"

_PANEL_IN, _BELOW_IN, _ABOVE_IN, _LEFT_IN, _GAP_IN = 2.1, 0.5, 0.2, 0.78, 0.3
_COLUMNS = 2


@dataclass(frozen=True)
class _Panel:
    """A panel: its rows (trial_id, cell_id, block, service, value), and how their figures are joined and written.

    `void` says why figures of trials do not count: they are drawn hollow, and no line joins them.
    """

    heading: str
    rows: pd.DataFrame
    text: Callable[[float | None], str]
    middle: Callable[[pd.Series], float]
    void: Mapping[str, str]


@dataclass(frozen=True)
class _Drawn:
    """A line of cells, of one service of theirs."""

    line: Line
    service: str
    name: str
    first: bool
    """Whether it stands for the whole trial, too, where a panel knows no services."""


def available(run: StoredRun) -> bool:
    """Whether a service was profiled at two levels of the factor."""
    factor = factor_of(run)
    if factor is None or run.profile_shares.empty:
        return False
    shares = _panels(run)[0]
    return any(_there(shares, drawn) > 1 for drawn in _drawn(run, factor))


def alt(run: StoredRun) -> str:
    """The shares at the ends of each line, in words."""
    factor = factor_of(run) or ""
    shares, said = _panels(run)[0], []
    for drawn in _drawn(run, factor):
        points = _middles(shares, drawn)
        if len(points) > 1:
            (low, first), (high, last) = points[0], points[-1]
            said.append(f"{drawn.name} {units.share(first)} at {low:g}, {units.share(last)} at {high:g}")
        elif _there(shares, drawn) > 1:
            said.append(f"{drawn.name} too few profiles that count")
    return f"Line charts against {factor}; scheduler's share of the CPU samples: {'; '.join(said)}."


def caption(run: StoredRun) -> str:
    """What is counted as the scheduler's, and what comes from which trials."""
    more = len(_drawn(run, factor_of(run) or "")) - MOST_LINES
    return (
        "Share of the CPU samples in which the scheduler ran: parking, looking for work, waking, and asking the poller "
        "for the network while looking (netpoll under findRunnable). Shares come from the profiled trials; rate, CPU and "
        "goroutines from the measured ones, which were not profiled."
        + (f" {units.counted(more, 'line')} more are left out; the table has all." if more > 0 else "")
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure: a panel for each of the four that the run knows."""
    factor = factor_of(run) or ""
    lines = _drawn(run, factor)[:MOST_LINES]
    panels = [panel for panel in _panels(run) if any(_there(panel, drawn) for drawn in lines)]
    height_in = _ABOVE_IN + _PANEL_IN + _BELOW_IN
    frame = framed(
        height_in=height_in * -(-len(panels) // _COLUMNS),
        title=TITLE,
        subtitle=[
            SUBTITLE
            + (f" \N{MIDDLE DOT} {HOLLOW}" if any(any_void(panel.rows, panel.void) for panel in panels) else "")
        ],
        foot=provenance(run),
        legend={hue: drawn.name for hue, drawn in enumerate(lines)},
    )
    width_in = (WIDTH_IN - 2 * EDGE_IN) / _COLUMNS
    for i, panel in enumerate(panels):
        row, column = divmod(i, _COLUMNS)
        left_in = EDGE_IN + width_in * column + _LEFT_IN
        axes = frame.axes(left_in, height_in * row + _ABOVE_IN, width_in - _LEFT_IN - _GAP_IN, _PANEL_IN)
        for hue, drawn in enumerate(lines):
            _draw_line(axes, panel, drawn, hue)
        dress(axes, panel.heading, panel.text, factor, [drawn.line for drawn in lines])
    return frame.figure


FIGURE = ReportFigure(
    name="scheduler", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="profiles"
)


def _panels(run: StoredRun) -> list[_Panel]:
    shares = headlines_of(run.trials, run.profile_shares).rename(columns={"share": "value"})
    counts = goroutines_of(run.measured, run.telemetry).rename(columns={"count": "value"})
    trials = run.measured.assign(service=None)
    out = {each.trial_id: each.reason for each in run.void_in_profile_pass if each.covers("rps")}
    return [
        _Panel("scheduler's share", shares, units.share, _mean, out),
        _Panel("goroutines", counts, units.count, _median, run.void("rps")),
        *(
            _Panel(heading, trials.assign(value=numbers(trials[column])), text, _median, run.void(column))
            for heading, column, text in (
                ("requests per second", "rps", units.rate),
                ("server CPU per request", "server_cpu_s_per_request", units.seconds),
            )
        ),
    ]


def _mean(values: pd.Series) -> float:
    return float(values.mean())


def _median(values: pd.Series) -> float:
    return float(values.median())


def _drawn(run: StoredRun, factor: str) -> list[_Drawn]:
    """A line for each Go service that was profiled, named by it where a line of cells has several."""
    in_go = run.profiles[run.profiles["function"].str.startswith(GO_RUNTIME)]
    shares = headlines_of(run.trials, run.profile_shares)
    shares = shares.merge(in_go[["trial_id", "service"]].drop_duplicates())
    found = []
    for line in lines_of(run, factor):
        cells = [cell_id for _, cell_id in line.cells]
        services = [str(name) for name in shares["service"][shares["cell_id"].isin(cells)].drop_duplicates()]
        several = len(services) > 1
        found += [
            _Drawn(line, service, f"{line.name}: {service}" if several else line.name, first=service == services[0])
            for service in services
        ]
    return found


def _values(panel: _Panel, drawn: _Drawn, cell_id: str) -> pd.DataFrame:
    """The rows of a cell that have a figure: of the service, or of the whole trial where the panel knows no services."""
    rows = panel.rows[(panel.rows["cell_id"] == cell_id) & panel.rows["value"].notna()]
    return rows[(rows["service"] == drawn.service) | (rows["service"].isna() & drawn.first)]


def _there(panel: _Panel, drawn: _Drawn) -> int:
    """How many cells of a line have a figure, whether or not it counts."""
    return sum(len(_values(panel, drawn, cell_id)) > 0 for _, cell_id in drawn.line.cells)


def _middles(panel: _Panel, drawn: _Drawn) -> list[tuple[float, float]]:
    """(level, mean or median) of the cells that have figures that count."""
    found = []
    for level, cell_id in drawn.line.cells:
        rows = _values(panel, drawn, cell_id)
        counting = rows["value"][~rows["trial_id"].isin(panel.void)]
        if len(counting):
            found.append((level, panel.middle(counting)))
    return found


def _draw_line(axes: Axes, panel: _Panel, drawn: _Drawn, hue: int) -> None:
    if middles := _middles(panel, drawn):
        axes.plot(*np.array(middles).T, color=colour(hue), linestyle=dashes(hue))
    draw_marks(axes, hue, list(_marks(panel, drawn)))


def _marks(panel: _Panel, drawn: _Drawn) -> Iterator[Mark]:
    """Every profile or trial: its level, its figure, and what is said of it."""
    for level, cell_id in drawn.line.cells:
        rows = _values(panel, drawn, cell_id)
        for trial_id, block, value in zip(rows["trial_id"], rows["block"], rows["value"], strict=True):
            text = f"{drawn.name}, {level:g}, block {block}: {panel.text(float(value))}"
            yield Mark(level, float(value), text, panel.void.get(str(trial_id)))
