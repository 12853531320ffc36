"""The look of figures and pages: colours for light and dark surfaces, markers, and matplotlib's settings.

Text keeps a contrast of 4.5:1 to its surface and marks keep 3:1 (WCAG 2.2, 1.4.3 and 1.4.11). Any two series colours
differ by at least 0.1 in OKLab, for normal vision, protanopia, deuteranopia and tritanopia (simulated after Machado,
Oliveira & Fernandes 2009). Marks differ in shape as well.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import matplotlib.style
from matplotlib.font_manager import FontProperties, findfont
from matplotlib.ft2font import FT2Font
from matplotlib.lines import Line2D

from benchkit.safe_text import REPLACEMENT, clean


@dataclass(frozen=True)
class Tone:
    """A colour with its name in CSS; the light one identifies it in drawn figures."""

    name: str
    light: str
    dark: str


SURFACE = Tone("surface", "#ffffff", "#15181d")
INK = Tone("ink", "#1b1f24", "#e6e9ed")
MUTED = Tone("muted", "#57606a", "#9ea7b3")
GRID = Tone("grid", "#dfe3e8", "#2c323a")
SERIES = (
    Tone("series-1", "#2f55e0", "#7ba3f8"),
    Tone("series-2", "#d9722e", "#f08a24"),
    Tone("series-3", "#044a25", "#8ff5d2"),
    Tone("series-4", "#a6138d", "#a8629f"),
    Tone("series-5", "#6e5f14", "#f5d24f"),
    Tone("series-6", "#2e0c5d", "#7060f0"),
)
TONES = (SURFACE, INK, MUTED, GRID, *SERIES)

MARKERS = "osD^vPX"
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1.5, 1.5)), (0, (6, 1.5, 1.5, 1.5)))
_RC: dict[str, Any] = {
    "font.family": ["sans-serif"],
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib: the same layout on every machine
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
    "axes.titley": 1.0,  # otherwise matplotlib measures every tick to find room above the axes
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
    "svg.fonttype": "none",  # text stays text: it can be searched, copied and read aloud
    "path.simplify": False,
}


@contextmanager
def style() -> Iterator[None]:
    """Apply benchkit's style over matplotlib's defaults while a figure is drawn or saved."""
    with matplotlib.style.context(["default", _RC]):
        yield


def colour(hue: int | None) -> str:
    """Return the colour of the nth level, black for none; the six colours repeat with other markers and dashes."""
    return INK.light if hue is None else SERIES[hue % len(SERIES)].light


def marker(hue: int | None) -> str:
    """Return the marker of the nth level: of seven, so that colour and marker together repeat only after 42 levels."""
    return MARKERS[(hue or 0) % len(MARKERS)]


def dashes(hue: int | None) -> Any:  # noqa: ANN401 - matplotlib's line styles are text or tuples
    """Return the line style of the nth level: solid for the first six."""
    return DASHES[(hue or 0) // len(SERIES) % len(DASHES)]


@dataclass(frozen=True)
class MarkStyle:
    """Look of marks; hollow ones are filled with the colour of the surface."""

    shape: str
    colour: str
    hollow: bool = False

    @property
    def is_line(self) -> bool:
        """True for a shape without an inside, such as a cross."""
        return self.shape not in Line2D.filled_markers

    @property
    def fill(self) -> str:
        """Colour inside."""
        return SURFACE.light if self.hollow else self.colour

    @property
    def edge(self) -> float:
        """Width of the edge in points; filled marks have none."""
        return 1.1 if self.hollow or self.is_line else 0.0


def drawable(text: str) -> str:
    """Return the text with characters replaced that the font lacks, so that none is drawn as an empty box."""
    return "".join(char if ord(char) in _glyphs() else REPLACEMENT for char in clean(text))


@functools.cache
def _glyphs() -> frozenset[int]:
    font = findfont(FontProperties(family="DejaVu Sans"), fallback_to_default=False)
    return frozenset(FT2Font(font).get_charmap())
