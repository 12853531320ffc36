"""Matplotlib's SVG as a file and as an element of a page, and the colours of the theme."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
import pytest
from matplotlib.figure import Figure

from benchkit.report.figure import page_element, svg_file
from benchkit.report.style import GRID, INK, MUTED, SERIES, SURFACE, TONES, Tone, style

NS = {"svg": "http://www.w3.org/2000/svg"}


def raw_svg(salt: str = "x") -> str:
    """Return a figure as matplotlib writes it."""
    with style(), mpl.rc_context({"svg.hashsalt": salt}):
        figure = Figure(figsize=(2, 1))
        axes = figure.add_axes((0.2, 0.2, 0.7, 0.7))
        axes.scatter([0.123456789, 0.5, 0.9], [1, 2, 3], color=SERIES[0].light, edgecolors=SURFACE.light)
        axes.set_xlabel("a label of 0.123456", color=INK.light)
        raw = io.StringIO()
        figure.savefig(raw, format="svg", metadata={"Date": None, "Title": "Title <1>"})
    return raw.getvalue()


FILE = svg_file(raw_svg(), "A description & more")


ELEMENT = page_element(FILE, "the label")


def tree(text: str) -> ET.Element:
    return ET.fromstring(text)  # noqa: S314 - drawn above


def test_a_file_has_title_and_description_and_no_date() -> None:
    root = tree(FILE)
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert root.findtext("svg:title", namespaces=NS) == "Title <1>"
    assert root.findtext("svg:desc", namespaces=NS) == "A description & more"
    assert root.get("width", "").endswith("pt")
    assert "metadata" not in FILE
    assert not re.search(r"20\d\d-\d\d", FILE)


def test_texts_stay_texts_in_a_font_with_a_fallback() -> None:
    for text in (FILE, ELEMENT):
        assert "a label of 0.123456" in [element.text for element in tree(text).iter()]
        assert "sans-serif" in text


def test_an_element_has_the_colours_of_the_page() -> None:
    assert not re.search(r"#[0-9a-f]{6}\b", ELEMENT)
    values = {value for element in tree(ELEMENT).iter() for value in element.attrib.values()}
    assert {"var(--series-1)", "var(--ink)", "var(--surface)"} <= values


def test_an_element_has_no_inline_style_and_scales() -> None:
    root = tree(ELEMENT)
    assert all("style" not in element.attrib and not element.tag.endswith("style") for element in root.iter())
    assert root.attrib.keys() >= {"viewBox", "role", "aria-label"}
    assert root.attrib.keys().isdisjoint({"width", "height"})
    assert root.get("aria-label") == "the label"


def test_the_ids_of_figures_differ_and_are_all_used() -> None:
    elements = [page_element(svg_file(raw_svg(salt), "d"), "l") for salt in ("one", "two")]
    ids = [[element.attrib["id"] for element in tree(text).iter() if "id" in element.attrib] for text in elements]
    assert not set(ids[0]) & set(ids[1])
    for text, names in zip(elements, ids, strict=True):
        assert len(names) == len(set(names))
        references = {value for element in tree(text).iter() for value in element.attrib.values()}
        assert all(f"#{name}" in references or f"url(#{name})" in references for name in names)


def test_places_have_two_decimals() -> None:
    for text in (FILE, ELEMENT):
        places = [element.get(name, "") for element in tree(text).iter() for name in ("d", "x", "y")]
        assert any(places)
        assert not any(re.search(r"\.\d{3}", place) for place in places)


Vector = npt.NDArray[np.float64]


def linear(colour: str) -> Vector:
    """Convert sRGB to linear RGB (IEC 61966-2-1)."""
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of WCAG 2.2."""
    low, high = sorted(float(linear(colour) @ [0.2126, 0.7152, 0.0722]) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("side", ["light", "dark"])
def test_text_and_marks_stand_out_from_the_surface(side: str) -> None:
    def to_surface(tone: Tone) -> float:
        return contrast(getattr(tone, side), getattr(SURFACE, side))

    assert min(to_surface(tone) for tone in (INK, MUTED)) >= 4.5
    assert min(to_surface(tone) for tone in SERIES) >= 3
    assert to_surface(GRID) < 1.5  # lines that only guide the eye stay behind


def test_the_light_colour_names_its_tone() -> None:
    assert len({tone.light for tone in TONES}) == len(TONES)
