"""Where the time of each profiled service goes: a bar of all its CPU samples, cut into categories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from benchkit import units
from benchkit.analysis.scheduler_share import ServiceProfile
from benchkit.models.categories import CATEGORIES, Category
from benchkit.report.figure_frame import EDGE_IN, WIDTH_IN, framed
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import drawable, hover, styled, width_in
from benchkit.report.theme import INK, MUTED, SERIES, SURFACE, Tone

TITLE = "CPU samples by category"

TONES: dict[Category, tuple[Tone, float]] = {
    "scheduler": (SERIES[0], 1.0),
    "netpoll": (SERIES[0], 0.5),
    "epoll": (SERIES[5], 1.0),
    "read/write": (SERIES[1], 1.0),
    "accept/close": (SERIES[1], 0.5),
    "gc": (SERIES[3], 1.0),
    "allocation": (SERIES[3], 0.5),
    "channel/lock": (SERIES[4], 1.0),
    "http": (SERIES[2], 1.0),
    "handler": (SERIES[2], 0.6),
    "fastcgi": (SERIES[2], 0.3),
    "kernel network": (MUTED, 1.0),
    "other": (MUTED, 0.4),
}
"""What belongs together has one colour, stronger and fainter."""

_BAR = 0.7
_ROW_IN, _SMALLEST_ROW_IN, _TALL_IN, _AXIS_IN, _LEGEND_IN = 0.34, 0.16, 7.0, 0.5, 0.62
_MOST_LABEL_IN = 2.6
_LEGEND_COLUMNS = 5
_NAMED = 8


@dataclass(frozen=True)
class _Row:
    y: float
    text: str
    profile: ServiceProfile


def available(run: StoredRun) -> bool:
    """Whether anything was profiled."""
    return not run.profile_shares.empty


def alt(run: StoredRun) -> str:
    """The largest category of each service, in words; of many the first."""
    said = []
    for row in _rows(run)[:_NAMED]:
        name, share = max(row.profile.categories.items(), key=lambda each: each[1])
        said.append(f"{row.text} most in {name} ({units.share(share)})")
    return f"Stacked bars of CPU samples by category: {'; '.join(said)}."


def caption(run: StoredRun) -> str:
    """What a bar is, and where the kernel's time stands."""
    profiles = sum(row.profile.profiles for row in _rows(run))
    return (
        "A bar is all CPU samples of a service, each in exactly one category by its stack, as the mean over "
        f"the profiles of the cell ({units.counted(profiles, 'profile')} in all). Kernel time within a system call counts "
        "as that call, for services under perf as for those with a profiler of their own, which sees no kernel."
        + (
            " Of services marked void no profile counts."
            if any("shares" in row.profile.invalid_figures for row in _rows(run))
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """The figure, a row for each profiled service of a cell."""
    rows = _rows(run)
    row_in = max(_SMALLEST_ROW_IN, min(_ROW_IN, _TALL_IN / len(rows)))
    size = 9.0 if row_in >= _ROW_IN / 2 else 6.0
    height_in = row_in * (len(rows) + 0.2)
    frame = framed(
        height_in=_LEGEND_IN + height_in + _AXIS_IN,
        title=TITLE,
        subtitle=["each sample in one category; on the right the Go scheduler's share, netpoll under it"],
        foot=provenance(run),
    )
    labels_in = min(_MOST_LABEL_IN, max(width_in(drawable(row.text), size) for row in rows)) + 2 * EDGE_IN
    written_in = 0.6
    axes = frame.axes(labels_in, _LEGEND_IN, WIDTH_IN - labels_in - written_in, height_in)
    used = [name for name in CATEGORIES if any(row.profile.categories[name] > 0 for row in rows)]
    _draw_bars(axes, rows, used)
    _dress(axes, rows, size)
    frame.figure.legend(
        [Patch(facecolor=mpl.colors.to_rgba(TONES[name][0].light, TONES[name][1])) for name in used],
        used,
        loc="upper left",
        bbox_to_anchor=(EDGE_IN / WIDTH_IN, 1 - frame.top_in / frame.figure.get_figheight()),
        ncols=_LEGEND_COLUMNS,
        borderpad=0,
        borderaxespad=0,
        handlelength=1.2,
        columnspacing=1.4,
    )
    return frame.figure


FIGURE = ReportFigure(
    name="categories", title=TITLE, available=available, alt=alt, caption=caption, draw=draw, data="profiles"
)


def _rows(run: StoredRun) -> list[_Row]:
    """Profiled services in the order of the plan, from the top."""
    found = run.profiled
    several = len({each.service for each in found}) > 1
    labels = {view.cell_id: view.label for view in run.cells}
    names = [f"{labels[each.cell_id]}: {each.service}" if several else labels[each.cell_id] for each in found]
    return [
        _Row(float(y), each.annotated("shares", name), each)
        for y, (name, each) in enumerate(zip(names, found, strict=True))
    ]


def _draw_bars(axes: Axes, rows: Sequence[_Row], used: Sequence[Category]) -> None:
    """A collection for each category: its pieces of all bars."""
    half = _BAR / 2
    for name in used:
        before = CATEGORIES[: CATEGORIES.index(name)]
        pieces, texts = [], []
        for row in rows:
            low = sum(row.profile.categories[other] for other in before)
            high = low + row.profile.categories[name]
            if high > low:
                y = row.y
                pieces.append([(low, y - half), (low, y + half), (high, y + half), (high, y - half)])
                texts.append(f"{row.text}: {name} {units.share(high - low)}")
        tone, alpha = TONES[name]
        drawn = PolyCollection(
            pieces, facecolors=mpl.colors.to_rgba(tone.light, alpha), edgecolors=SURFACE.light, linewidths=0.6
        )
        hover(drawn, *texts)
        axes.add_collection(drawn)


def _dress(axes: Axes, rows: Sequence[_Row], size: float) -> None:
    axes.set_xlim(0, 1)
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.set_yticks([])
    for row in rows:
        for text, x, side, aside in (
            (row.text, 0, "right", -72 * EDGE_IN),
            (units.share(row.profile.scheduling), 1, "left", 72 * EDGE_IN),
        ):
            axes.annotate(
                drawable(text),
                (x, row.y),
                xytext=(aside, 0),
                textcoords="offset points",
                ha=side,
                va="center",
                size=size,
                color=INK.light,
            )
    axes.xaxis.set_major_locator(MultipleLocator(0.2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_xlabel("share of the CPU samples")
    axes.spines["bottom"].set_visible(False)
