"""The figure `requests`: the number of requests of every trial."""

from __future__ import annotations

from matplotlib.figure import Figure

from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.layout import new_figure
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import styled
from benchkit.report.theme import MUTED


def _requests(run: StoredRun) -> list[float]:
    return [float(number) for number in run.trials["requests"].dropna()]


def is_available(run: StoredRun) -> bool:
    """Return True if the tool counted requests."""
    return bool(_requests(run))


def alt(run: StoredRun) -> str:
    """Describe the numbers."""
    return f"Bars of the requests of {len(_requests(run))} trials."


def caption(_run: StoredRun) -> str:
    """Explain the bars."""
    return "Requests of each trial, in the order of the trials."


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a bar for each trial."""
    numbers = _requests(run)
    figure = new_figure(2.0, title="Requests", subtitle=["one bar per trial"], source=provenance(run))
    axes = figure.add_subplot()
    axes.bar(range(1, len(numbers) + 1), numbers, color=MUTED.light)  # colours are those of the theme
    axes.set_xlabel("trial")
    axes.set_ylabel("requests")
    return figure


FIGURE = ReportFigure(
    name="requests",
    title="Requests",
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="Trials with few requests say little.",
    draw=draw,
)
