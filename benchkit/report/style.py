"""The one style of all figures. Nothing of it stays in matplotlib's settings, and none of the user's leaks in."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec
from urllib.parse import quote

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.collections import Collection
from matplotlib.figure import Figure
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.textpath import TextToPath

from benchkit.report.clean_text import REPLACEMENT, clean
from benchkit.report.svg import HOVER
from benchkit.report.theme import GRID, INK, MUTED, SERIES, SURFACE

Params = ParamSpec("Params")

MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
_RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # ships with matplotlib: the same outlines on every machine
    "font.size": 9,
    "text.color": INK.light,
    "text.parse_math": False,  # names are data: a `$` in one is a dollar
    "text.usetex": False,
    "axes.edgecolor": GRID.light,
    "axes.facecolor": SURFACE.light,
    "axes.labelcolor": MUTED.light,
    "axes.titlecolor": INK.light,
    "axes.labelsize": 9,
    "axes.titlesize": 9,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titley": 1.0,  # else matplotlib looks for room above the axes, at the cost of measuring every tick
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.formatter.use_locale": False,
    "grid.color": GRID.light,
    "grid.linewidth": 0.8,
    "xtick.color": GRID.light,
    "ytick.color": GRID.light,
    "xtick.labelcolor": MUTED.light,
    "ytick.labelcolor": MUTED.light,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "lines.linewidth": 1.2,
    "figure.facecolor": SURFACE.light,
    "savefig.facecolor": SURFACE.light,
    "svg.fonttype": "path",  # glyphs travel inside the file and look the same in every viewer
    "svg.hashsalt": "benchkit",  # ids that do not change from drawing to drawing
    "path.simplify": False,
}


@contextmanager
def style() -> Iterator[None]:
    """Matplotlib's defaults with the style of benchkit on them, for drawing and for saving."""
    with matplotlib.style.context(["default", _RC]):
        yield


def styled(draw: Callable[Params, Figure]) -> Callable[Params, Figure]:
    """The drawing function, with the style in force while it runs."""

    @functools.wraps(draw)
    def drawn(*args: Params.args, **kwargs: Params.kwargs) -> Figure:
        with style():
            return draw(*args, **kwargs)

    return drawn


def colour(hue: int) -> str:
    """The colour of the nth level; after six they come again, with another marker and other dashes."""
    return SERIES[hue % len(SERIES)].light


def marker(hue: int) -> str:
    """The marker of the nth level; seven of them, so that colour and marker come together again only after 42."""
    return MARKERS[hue % len(MARKERS)]


def dashes(hue: int) -> Any:  # noqa: ANN401 - matplotlib's line styles are text or tuples
    """The line style of the nth level: solid while the colours last."""
    return DASHES[hue // len(SERIES) % len(DASHES)]


def tick(text: str) -> str:
    """A number with its unit as an axis shows it: `20.0 ms` as `20 ms`."""
    number, _, unit = text.partition(" ")
    return " ".join(filter(None, (number.rstrip("0").rstrip(".") if "." in number else number, unit)))


def drawable(text: str) -> str:
    """The text with the characters that the font lacks replaced, so that nothing is drawn as an empty box."""
    return "".join(char if ord(char) in _glyphs() else REPLACEMENT for char in clean(text))


MOST_HOVERS = 400
"""A collection with more marks than this shows none of their texts: nobody could point at one of them, they would be
most of the file, and the table has them all."""


def hover(artist: Artist, *texts: str, most: int = MOST_HOVERS) -> None:
    """Texts that viewers show over an artist; a collection takes one for each of its marks, in their order.

    Of more than `most` none is shown.

    They travel as the artist's links, which matplotlib writes around each mark, and `benchkit.report.svg` unpacks them.
    """
    if len(texts) > most:
        return
    links = [HOVER + quote(clean(text)) for text in texts]
    artist.set(urls=links) if isinstance(artist, Collection) else artist.set(url=links[0])


@functools.cache
def width_in(text: str, size: float, weight: str = "normal") -> float:
    """The width of a line of text in inches; from the outlines, so that no machine's hinting is in it."""
    font = FontProperties(family="DejaVu Sans", size=size, weight=weight)
    points, _, _ = TextToPath().get_text_width_height_descent(text, font, ismath=False)
    return points / 72


@functools.cache
def _glyphs() -> frozenset[int]:
    font = findfont(FontProperties(family="DejaVu Sans"), fallback_to_default=False)
    return frozenset(FT2Font(font).get_charmap())
