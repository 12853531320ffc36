"""CPU time of each profiled service: a bar of all its CPU samples, divided into categories."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter, MultipleLocator

from benchkit import units
from benchkit.comparison.cpu_profiles import ServiceProfile
from benchkit.models.profile import CATEGORIES, Category
from benchkit.report.figures.figure import ReportFigure, provenance
from benchkit.report.layout import label_rows, new_figure, rows_height, write_beside
from benchkit.report.stored_run import StoredRun
from benchkit.report.style import hover, styled
from benchkit.report.theme import MUTED, SERIES, SURFACE, Tone

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
"""Colour and opacity of each category; related ones share a colour."""

_BAR = 0.7
_MAX_NAMED = 8


def is_available(run: StoredRun) -> bool:
    """Return True if any service was profiled."""
    return not run.profile_shares.empty


def alt(run: StoredRun) -> str:
    """Describe the largest category of each service; of many the first ones."""
    largest = []
    for name, profile in list(_profiles(run).items())[:_MAX_NAMED]:
        category, share = max(profile.categories.items(), key=lambda each: each[1])
        largest.append(f"{name} most in {category} ({units.share(share)})")
    return f"Stacked bars of CPU samples by category: {'; '.join(largest)}."


def caption(run: StoredRun) -> str:
    """Explain the bars, and the category of kernel time."""
    profiles = _profiles(run).values()
    return (
        "A bar is all CPU samples of a service, each in exactly one category by its stack, as the mean over the profiles "
        f"of the cell ({units.counted(sum(each.profiles for each in profiles), 'profile')} in total). Kernel time within a "
        "system call counts as that call: for services under perf as for those with a profiler of their own, which sees "
        "no kernel."
        + (
            " All profiles of services marked invalid are excluded from comparisons."
            if any("shares" in each.invalid_figures for each in profiles)
            else ""
        )
    )


@styled
def draw(run: StoredRun) -> Figure:
    """Draw a row for each profiled service of a cell."""
    profiles = _profiles(run)
    used = [name for name in CATEGORIES if any(each.categories[name] > 0 for each in profiles.values())]
    figure = new_figure(
        rows_height(len(profiles)),
        title=TITLE,
        subtitle=["each sample in one category; on the right the Go scheduler's share, netpoll included"],
        source=provenance(run),
        legend=[(Patch(facecolor=_colour(name)), name) for name in used],
        legend_columns=5,
    )
    axes = figure.subplots()
    label_rows(axes, dict(enumerate(profiles)), len(profiles))
    _draw_bars(axes, profiles, used)
    for y, profile in enumerate(profiles.values()):
        write_beside(axes, y, units.share(profile.scheduling), len(profiles))
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_locator(MultipleLocator(0.2))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.0%}"))
    axes.set_xlabel("share of the CPU samples")
    return figure


FIGURE = ReportFigure(
    name="categories",
    title=TITLE,
    is_available=is_available,
    alt=alt,
    caption=caption,
    see="The longest part of a bar is where this server spends most of its CPU time.",
    draw=draw,
    data="profiles",
)


def _profiles(run: StoredRun) -> dict[str, ServiceProfile]:
    """Return the profiled services by the name of their row, in the order of the plan."""
    has_several = len({each.service for each in run.service_profiles}) > 1
    return {
        each.annotated(
            "shares", f"{run.labels[each.cell_id]}: {each.service}" if has_several else run.labels[each.cell_id]
        ): each
        for each in run.service_profiles
    }


def _colour(category: Category) -> tuple[float, float, float, float]:
    tone, opacity = TONES[category]
    return mpl.colors.to_rgba(tone.light, opacity)


def _draw_bars(axes: Axes, profiles: Mapping[str, ServiceProfile], used: Sequence[Category]) -> None:
    """Draw a collection for each category: its parts of all bars."""
    half = _BAR / 2
    for category in used:
        before = CATEGORIES[: CATEGORIES.index(category)]
        parts, texts = [], []
        for y, (name, profile) in enumerate(profiles.items()):
            low = sum(profile.categories[other] for other in before)
            high = low + profile.categories[category]
            if high > low:
                parts.append([(low, y - half), (low, y + half), (high, y + half), (high, y - half)])
                texts.append(f"{name}: {category} {units.share(high - low)}")
        drawn = PolyCollection(parts, facecolors=_colour(category), edgecolors=SURFACE.light, linewidths=0.6)
        hover(drawn, *texts)
        axes.add_collection(drawn)
