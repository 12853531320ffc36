"""Charts as declarations, and their drawing: panels of rows, or panels beside each other over one scale of x."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.lines import Line2D
from matplotlib.ticker import (
    FixedLocator,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    MultipleLocator,
    NullFormatter,
    NullLocator,
)

from benchkit import units
from benchkit.report.layers import Layer
from benchkit.report.style import INK, MUTED, SURFACE, colour, dashes, drawable, marker, style

WIDTH_IN = 7.6
MAX_PANELS = 12
"""Most panels of a figure; `sample_evenly` chooses them, and the caption has the number of the others."""
MAX_ROWS = 40
"""Most rows of a figure; the caption has the number of the others."""

_EDGE_IN, _TITLE_IN, _LINE_IN, _KEY_IN, _SOURCE_IN = 0.08, 0.25, 0.17, 0.20, 0.24
_SUBTITLE_CHARACTERS, _LEGEND_CHARACTERS, _LABEL_CHARACTERS = 114, 105, 42
_ROW_IN, _SMALLEST_ROW_IN, _ROWS_IN, _AXIS_IN = 0.34, 0.13, 9.0, 0.55
_PANEL_IN, _SINGLE_PANEL_IN, _PANEL_AXIS_IN = 2.0, 3.5, 0.35
_COLUMNS, _LEGEND_COLUMNS = 3, 5
_NARROW = 4.0
"""Ratio of the ends of a logarithmic axis up to which its ticks are round numbers, as on a linear one."""
_EM = 0.62
"""Width of an average character of bold text over the font size, rounded up."""

Sampled = TypeVar("Sampled")


@dataclass(frozen=True)
class Scale:
    """An axis: the text of its ticks, its label, and its ends (None: those of the data)."""

    text: Callable[[float], str]
    label: str = ""
    low: float | None = None
    high: float | None = None
    kind: Literal["linear", "log"] = "linear"
    ticks: int = 5
    """Approximate number of ticks."""
    whole: bool = False
    """True if ticks are whole numbers, as seconds are."""
    places: Sequence[float] | None = None
    """Values of the ticks; None: round numbers."""

    def apply(self, axes: Axes, name: Literal["x", "y"]) -> None:
        """Set up one axis of a panel, and of all panels that share it."""
        axis = axes.xaxis if name == "x" else axes.yaxis
        getattr(axes, f"set_{name}scale")(self.kind)
        if (self.low is not None or self.high is not None) and self.low != self.high:
            getattr(axes, f"set_{name}lim")(self.low, self.high)
        low, high = axis.get_view_interval()
        axis.set_major_locator(self._locator(float(low), float(high)))
        if self.kind == "log":
            axis.set_minor_locator(NullLocator())
            axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: _tick(self.text(value))))

    def _locator(self, low: float, high: float) -> Locator:
        if self.places is not None:
            return FixedLocator(list(self.places))
        if self.kind == "log" and high / low > _NARROW:
            has_room = 3 * math.log10(high / low) < self.ticks + 2
            return LogLocator(subs=(1, 2, 5) if has_room else (1,), numticks=12)
        if self.kind == "log":
            return MaxNLocator(nbins=self.ticks, steps=[1, 2, 2.5, 5, 10])
        if self.text is units.size:  # sizes have binary prefixes
            return MultipleLocator(2 ** math.ceil(math.log2(high / self.ticks)))
        return MaxNLocator(nbins=self.ticks, min_n_ticks=1 if self.whole else 2, integer=self.whole)


def _tick(text: str) -> str:
    """Return a number with its unit as an axis shows it: `20.0 ms` becomes `20 ms`."""
    number, _, unit = text.partition(" ")
    is_plain = "." in number and "e" not in number
    return " ".join(filter(None, (number.rstrip("0").rstrip(".") if is_plain else number, unit)))


@dataclass(frozen=True)
class Panel:
    """A panel: its layers, the scale of its values, and its heading.

    Values are along x in a chart of rows, else along y. Panels with the same scale share it.
    """

    layers: Sequence[Layer]
    scale: Scale
    heading: str = ""


@dataclass(frozen=True)
class ChartRow:
    """A row: its name and a text right of the panels, or a heading over the whole width."""

    name: str
    beside: str = ""
    is_heading: bool = False


@dataclass(frozen=True)
class Chart:
    """The content of a figure: a caption, which also describes it to screen readers, and its panels.

    With `rows`, panels have these rows, counted from the top; otherwise they share the scale `x`.
    """

    caption: str
    panels: Sequence[Panel]
    rows: Sequence[ChartRow] = ()
    x: Scale | None = None
    subtitle: Sequence[str] = ()
    legend: Sequence[tuple[Artist, str]] = ()


def draw(chart: Chart, title: str, source: str) -> Figure:
    """Draw a chart with its title above, and the source of its data below."""
    with style():
        if chart.rows:
            row_in = max(_SMALLEST_ROW_IN, min(_ROW_IN, _ROWS_IN / len(chart.rows)))
            height_in = row_in * (len(chart.rows) + 0.2) + _AXIS_IN
        elif len(chart.panels) == 1:
            height_in = _SINGLE_PANEL_IN
        else:
            height_in = _PANEL_IN * math.ceil(len(chart.panels) / _COLUMNS) + _PANEL_AXIS_IN
        figure = _new_figure(chart, title, source, height_in)
        if chart.rows:
            _draw_rows(figure, chart)
        else:
            _draw_panels(figure, chart)
        return figure


def _draw_panels(figure: Figure, chart: Chart) -> None:
    panels, columns = chart.panels, min(_COLUMNS, len(chart.panels))
    grid = figure.add_gridspec(math.ceil(len(panels) / columns), columns)
    are_alike = all(panel.scale == panels[0].scale for panel in panels)
    room_in = WIDTH_IN / columns if all(panel.heading for panel in panels) else WIDTH_IN
    x = chart.x or Scale("{:g}".format)
    drawn: list[Axes] = []
    for i, panel in enumerate(panels):
        first = drawn[0] if drawn else None
        axes = figure.add_subplot(grid[i // columns, i % columns], sharex=first, sharey=first if are_alike else None)
        is_leftmost, is_lowest = i % columns == 0, i + columns >= len(panels)
        axes.set_title(_shorten(drawable(panel.heading), room_in - 0.4, 9.0))
        axes.set_ylabel(drawable(panel.scale.label) if is_leftmost else "")
        axes.set_xlabel(drawable(x.label) if is_lowest else "")
        axes.tick_params(labelleft=is_leftmost or not are_alike, labelbottom=is_lowest)
        for layer in panel.layers:
            layer(axes)
        drawn.append(axes)
    x.apply(drawn[0], "x")
    for axes, panel in zip(drawn[: 1 if are_alike else None], panels, strict=False):
        panel.scale.apply(axes, "y")


def _draw_rows(figure: Figure, chart: Chart) -> None:
    rows, count = chart.rows, len(chart.rows)
    size = text_size(count)
    characters = round(_LABEL_CHARACTERS * 9 / size)
    names = {y: drawable(row.name) for y, row in enumerate(rows) if row.name and not row.is_heading}
    places = list(figure.subplots(1, len(chart.panels), sharey=True, squeeze=False).flat)
    for axes, panel in zip(places, chart.panels, strict=True):
        axes.set_ylim(count - 0.4, -0.6)
        axes.set_yticks(
            list(names), [textwrap.shorten(name, characters, placeholder="…") or "…" for name in names.values()]
        )
        axes.tick_params(axis="y", length=0, labelsize=size, labelcolor=INK.light, labelleft=axes is places[0])
        axes.grid(visible=False, axis="y")
        axes.spines["bottom"].set_visible(False)
        for layer in panel.layers:
            layer(axes)
        panel.scale.apply(axes, "x")
        axes.set_xlabel(drawable(panel.scale.label))
    for y, row in enumerate(rows):
        if row.is_heading:
            _write_heading(places[0], y, row.name, size)
        elif row.beside:
            places[-1].annotate(
                drawable(row.beside),
                (1, y),
                xycoords=("axes fraction", "data"),
                xytext=(6, 0),
                textcoords="offset points",
                va="center",
                size=size,
                color=MUTED.light,
                annotation_clip=False,
            )


def _write_heading(axes: Axes, y: float, text: str, size: float) -> None:
    """Write a heading over the whole width of the figure, in front of the grid."""
    heading = axes.annotate(
        _shorten(drawable(text), WIDTH_IN - 2 * _EDGE_IN, size),
        (_EDGE_IN / WIDTH_IN, y),
        xycoords=("figure fraction", "data"),
        va="center",
        size=size,
        color=INK.light,
        weight="bold",
        annotation_clip=False,
        bbox={"facecolor": SURFACE.light, "edgecolor": "none", "pad": 1},
    )
    heading.set_in_layout(False)


def _new_figure(chart: Chart, title: str, source: str, height_in: float) -> Figure:
    """Return a figure without axes, with `height_in` inches for them and their labels."""
    keys = [(handle, drawable(name)) for handle, name in chart.legend]
    longest = max((len(name) for _, name in keys), default=0)
    columns = max(1, min(_LEGEND_COLUMNS, len(keys), _LEGEND_CHARACTERS // (longest + 6)))
    lines = [line for text in chart.subtitle for line in textwrap.wrap(drawable(text), _SUBTITLE_CHARACTERS)]
    legend_top_in = 2 * _EDGE_IN + _TITLE_IN + _LINE_IN * len(lines)
    height = legend_top_in + _KEY_IN * math.ceil(len(keys) / columns) + height_in + _SOURCE_IN
    left = _EDGE_IN / WIDTH_IN
    room = (0, _SOURCE_IN / height, 1, height_in / height)
    figure = Figure(
        figsize=(WIDTH_IN, height),
        layout=ConstrainedLayoutEngine(rect=room, w_pad=_EDGE_IN, h_pad=_EDGE_IN, wspace=0.03, hspace=0.03),
    )
    figure.text(left, 1 - _EDGE_IN / height, drawable(title), size=12, weight="bold", va="top")
    for i, line in enumerate(lines):
        figure.text(left, 1 - (_EDGE_IN + _TITLE_IN + _LINE_IN * i) / height, line, color=MUTED.light, va="top")
    if keys:
        figure.legend(
            [handle for handle, _ in keys],
            [name for _, name in keys],
            loc="upper left",
            bbox_to_anchor=(left, 1 - legend_top_in / height),
            ncols=columns,
            borderpad=0,
            borderaxespad=0,
            columnspacing=1.4,
        )
    figure.text(left, _EDGE_IN / height, drawable(source), size=7, color=MUTED.light, va="bottom")
    return figure


def notes(*parts: str | None) -> str:
    """Return a line of a subtitle: the parts that apply, with dots between them."""
    return " \N{MIDDLE DOT} ".join(filter(None, parts))


def and_more(count: int, what: str) -> str:
    """Return the end of a caption, `; 3 more cells are not drawn`; empty if the figure omits nothing."""
    return f"; {units.counted(count, f'more {what} is', f'more {what}s are')} not drawn" if count > 0 else ""


def line_legend(names: Mapping[int, str]) -> list[tuple[Artist, str]]:
    """Return the legend of lines with markers, by the number of their series."""
    return [
        (Line2D([], [], color=colour(hue), marker=marker(hue), ls=dashes(hue), markersize=5), name)
        for hue, name in names.items()
    ]


def sample_evenly(things: Sequence[Sampled], most: int = MAX_PANELS) -> list[Sampled]:
    """Return at most `most` of these things, spread evenly, the first and the last among them."""
    if len(things) <= most:
        return list(things)
    return [things[round(i * (len(things) - 1) / (most - 1))] for i in range(most)]


def text_size(rows: int) -> float:
    """Return the size of text next to the rows of a figure, by their number, in points."""
    return 9.0 if _ROWS_IN / rows >= _ROW_IN / 2 else 6.0


def _shorten(text: str, room_in: float, size: float) -> str:
    """Return the beginning of a text that fits into a width, by the average width of a character."""
    characters = int(72 * room_in / (_EM * size))
    return text if len(text) <= characters else f"{text[: max(0, characters - 1)].rstrip()}…"
