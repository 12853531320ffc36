"""The colours of flame graphs, for light and for dark surfaces.

They lie behind text, so that each keeps 4.5:1 to the ink of its surface (WCAG 2.2, 1.4.3; a test computes it). Their
meaning is also in words: the package of a frame in its name, a difference in the description of the frame.
"""

from __future__ import annotations

import zlib

from benchkit.models.profile import Frame
from benchkit.report.theme import Tone

PACKAGES = (
    Tone("pack-0", "#f9cf9c", "#6b4514"),
    Tone("pack-1", "#f7c1ad", "#743a22"),
    Tone("pack-2", "#f4dc8c", "#5c4d0b"),
    Tone("pack-3", "#f3b8bf", "#73343f"),
    Tone("pack-4", "#dfe08f", "#4c5111"),
    Tone("pack-5", "#eabfe0", "#643a60"),
    Tone("pack-6", "#c7e2a3", "#38551f"),
)
KERNEL = Tone("pack-kernel", "#b9d4f3", "#294a70")
EVERYTHING = Tone("pack-all", "#dfe3e8", "#39414b")

MORE = (
    Tone("more-1", "#fbe3dc", "#4a2f2a"),
    Tone("more-2", "#f7c6b8", "#67352b"),
    Tone("more-3", "#f2a591", "#853a2c"),
    Tone("more-4", "#ec8570", "#9c3c2b"),
)
LESS = (
    Tone("less-1", "#dfeaf7", "#28364a"),
    Tone("less-2", "#bed6f2", "#28466c"),
    Tone("less-3", "#97bdec", "#26548b"),
    Tone("less-4", "#74a5e6", "#2460a6"),
)
SAME = EVERYTHING

STEPS = (0.002, 0.01, 0.03)
"""Shares from which a difference has the next stronger colour; the script of the page has the same."""
UNCHANGED = STEPS[0] / 4
"""Difference below which two shares are shown as the same."""

TONES = (*PACKAGES, KERNEL, EVERYTHING, *MORE, *LESS)


def tone(frame: Frame) -> Tone:
    """Return the colour of a frame: one for the kernel, else by package, so that related neighbours look alike."""
    if frame.kernel:
        return KERNEL
    return PACKAGES[zlib.crc32(package(frame.label).encode("utf-8", "replace")) % len(PACKAGES)]


def change_tone(change: float) -> Tone:
    """Return the colour of a difference of shares."""
    if abs(change) < UNCHANGED:
        return SAME
    return (MORE if change > 0 else LESS)[sum(abs(change) >= step for step in STEPS)]


def package(label: str) -> str:
    """Return the package of a function: Go's `net/http`, C++'s `v8`, Node's `JS`, the prefix of a name in C."""
    if "::" in label:
        return label.partition("::")[0].rpartition(" ")[2].rpartition("<")[2]
    if (script := label.partition(":"))[1]:
        return script[0]
    path, slash, name = label.partition("(")[0].rpartition("/")
    return path + slash + name.partition("." if "." in name else "_")[0]


def style() -> str:
    """Return the colours as CSS classes; the theme defines them for light and dark screens."""
    return "".join(f".{each.name}{{background:var(--{each.name})}}" for each in TONES) + "\n"
