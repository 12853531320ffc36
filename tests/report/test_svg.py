from __future__ import annotations

import io
import re
from xml.etree import ElementTree as ET

from matplotlib.figure import Figure

from benchkit.report.figures.registry import FIGURES
from benchkit.report.rendering import prefix
from benchkit.report.style import hover, style
from benchkit.report.svg import both, inline, standalone
from benchkit.report.theme import INK, SERIES, SURFACE

NS = {"svg": "http://www.w3.org/2000/svg"}


def drawn() -> bytes:
    with style():
        figure = Figure(figsize=(2, 1))
        axes = figure.add_axes((0.2, 0.2, 0.7, 0.7))
        points = axes.scatter(
            [0.123456789, 0.5, 0.9], [1, 2, 3], color=SERIES[0].light, edgecolors=SURFACE.light, clip_on=False
        )
        hover(points, "block 1: 5 & more", "block 2", "<b>block 3</b>")
        (line,) = axes.plot([0, 1], [1, 3], color=SERIES[1].light)
        hover(line, "a line")
        axes.set_xlabel("a label", color=INK.light)
        raw = io.BytesIO()
        figure.savefig(raw, format="svg")
    return raw.getvalue()


RAW = drawn()


def test_a_file_says_what_it_shows_and_holds_no_date() -> None:
    text = standalone(RAW, "Title <1>", "What it shows & why").decode()
    root = ET.fromstring(text)  # noqa: S314 - drawn above
    assert [child.tag.rpartition("}")[2] for child in root][:2] == ["title", "desc"]
    assert root.findtext("svg:title", namespaces=NS) == "Title <1>"
    assert root.findtext("svg:desc", namespaces=NS) == "What it shows & why"
    assert root.get("width", "").endswith("pt")
    assert "metadata" not in text
    assert not re.search(r"20\d\d-\d\d", text)


def test_letters_are_outlines_so_that_no_font_is_needed() -> None:
    text = standalone(RAW, "t", "d").decode()
    assert "<text" not in text
    assert "font-family" not in text


def test_hover_texts_are_titles_of_their_marks() -> None:
    for text in (standalone(RAW, "t", "d").decode(), inline(RAW, "x-", "label")):
        root = ET.fromstring(text)  # noqa: S314 - drawn above
        marks = [g for g in root.iter() if g.tag.rpartition("}")[2] == "g" and len(g) and "title" in g[0].tag]
        assert [mark[0].text for mark in marks] == ["block 1: 5 & more", "block 2", "<b>block 3</b>", "a line"]
        assert all(len(mark) == 2 for mark in marks)
        assert "hover:" not in text


def test_an_element_takes_the_colours_of_the_page() -> None:
    text = inline(RAW, "x-", "label")
    assert not re.search(r"#[0-9a-f]{6}", text)
    assert {"var(--series-1)", "var(--series-2)", "var(--ink)", "var(--surface)"} <= set(
        re.findall(r"var\([^)]*\)", text)
    )


def test_an_element_has_no_style_of_its_own_and_scales() -> None:
    root = ET.fromstring(inline(RAW, "x-", "the label"))  # noqa: S314 - drawn above
    assert all("style" not in element.attrib and element.tag != "style" for element in root.iter())
    assert root.attrib.keys() >= {"viewBox", "role", "aria-label"}
    assert root.attrib.keys().isdisjoint({"width", "height"})
    assert root.get("aria-label") == "the label"


def test_every_id_of_an_element_is_its_own_and_referred_to() -> None:
    root = ET.fromstring(inline(RAW, "x-", "label"))  # noqa: S314 - drawn above
    ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
    values = [value for element in root.iter() for value in element.attrib.values()]
    referred = {
        name for value in values for name in re.findall(r"^#(.+)$|^url\(#(.+)\)$", value) for name in name if name
    }
    assert len(ids) == len(set(ids))
    assert set(ids) == referred
    assert all(name.startswith("x-") for name in ids)


def test_places_keep_a_hundredth_of_a_point() -> None:
    for text in (standalone(RAW, "t", "d").decode(), inline(RAW, "x-", "label")):
        places = re.findall(r' (?:d|x|y)="([^"]*)"', text)
        assert places
        assert not any(re.search(r"\.\d{3}", place) for place in places)


def test_the_ids_of_each_figure_are_its_own() -> None:
    prefixes = [prefix(name) for name in FIGURES]
    assert len(set(prefixes)) == len(prefixes)


def test_what_all_marks_of_a_group_say_of_themselves_stands_once() -> None:
    root = ET.fromstring(inline(RAW, "x-", "label"))  # noqa: S314 - drawn above
    (group,) = [element for element in root.iter() if element.get("fill") == "var(--series-1)"]
    marks = list(group.iter("use"))
    assert (group.tag, group.get("stroke"), len(marks)) == ("g", "var(--surface)", 3)
    assert all(mark.attrib.keys() == {"href", "x", "y"} for mark in marks)


def test_both_forms_are_those_that_each_alone_has() -> None:
    assert both(RAW, "x-", "t", "d") == (standalone(RAW, "t", "d"), inline(RAW, "x-", "d"))
