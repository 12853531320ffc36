"""Contrast and distances of the colours, by the formulas of their standards."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from benchkit.report.theme import GRID, INK, MUTED, SERIES, SURFACE, TONES, Tone

Vector = npt.NDArray[np.float64]

# From "A physiologically-based model for simulation of color vision deficiency" (Machado et al. 2009),
# severity 1.0; they act on linear RGB.
VISIONS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}


def linear(colour: str) -> Vector:
    """Convert sRGB to linear RGB (IEC 61966-2-1)."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def oklab(rgb: Vector) -> Vector:
    """Convert linear RGB to OKLab (Ottosson 2020), in which distances follow perception."""
    to_lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    lab: Vector = to_lab @ np.cbrt(to_lms @ np.clip(rgb, 0, 1))
    return lab


@pytest.mark.parametrize("side", ["light", "dark"])
def test_text_and_marks_stand_out_from_the_surface(side: str) -> None:
    def to_surface(tone: Tone) -> float:
        return contrast(getattr(tone, side), getattr(SURFACE, side))

    assert min(to_surface(tone) for tone in (INK, MUTED)) >= 4.5
    assert min(to_surface(tone) for tone in SERIES) >= 3
    assert to_surface(GRID) < 1.5  # lines that only guide the eye stay behind


@pytest.mark.parametrize("side", ["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_any_two_series_differ_for_every_kind_of_colour_vision(side: str, vision: str) -> None:
    seen = [oklab(VISIONS[vision] @ linear(getattr(tone, side))) for tone in SERIES]
    assert min(float(np.linalg.norm(one - other)) for one, other in combinations(seen, 2)) >= 0.1


def test_the_light_colour_names_its_tone() -> None:
    assert len({tone.light for tone in TONES}) == len(TONES)
