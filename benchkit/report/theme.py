"""Colours of figures and reports, each for light and for dark surfaces.

Text keeps a contrast of 4.5:1 to its surface and marks keep 3:1 (WCAG 2.2, 1.4.3 and 1.4.11). The series colours were
chosen by a search in OKLab so that any two differ by at least 0.1. They do so as seen with normal vision and with
protanopia, deuteranopia and tritanopia (simulated after Machado, Oliveira & Fernandes 2009). Marks differ in shape,
too.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tone:
    """A colour of the theme with its name in CSS; the light one identifies it in drawn figures."""

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
