"""What matplotlib writes as SVG, made fit to stand alone in a file or inside a page. Pure.

Text stays outlines: the picture is the same in every browser, editor and paper, without a font beside it. What a screen
reader needs is the description and the table that the figure is drawn from, not the letters along its axes.
"""

from __future__ import annotations

import re
from urllib.parse import unquote
from xml.etree import ElementTree as ET

from benchkit.report.flame import palette
from benchkit.report.theme import TONES

HOVER = "hover:"
"""Scheme of the links that carry the hover text of a mark."""

_SVG, _XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"
_HREF = f"{{{_XLINK}}}href"
_VARIABLES = {tone.light: f"var(--{tone.name})" for tone in (*palette.TONES, *TONES)}
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_LONG_DECIMAL = re.compile(r"-?\d+\.\d{3,}")
_TRANSLATION = re.compile(r"translate\(([^ )]+) ([^ )]+)\)")
_REFERENCE = re.compile(r"(?:^|url\()#([^)]+)\)?$")
_INHERITED = ("fill", "stroke", "stroke-width")


def standalone(raw: bytes, title: str, description: str) -> bytes:
    """The figure as a file: light, with title and description."""
    root = _read(raw)
    for position, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ET.Element(tag)
        element.text = text
        root.insert(position, element)
    root.attrib.update({"xmlns": _SVG, "xmlns:xlink": _XLINK, "role": "img"})
    for element in root.iter():
        if _HREF in element.attrib:
            element.set("xlink:href", element.attrib.pop(_HREF))
    text = ET.tostring(root, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def inline(raw: bytes, prefix: str, label: str) -> str:
    """The figure as an element of a page: coloured by the page's theme, its ids its own, without style attributes."""
    root = _read(raw)
    del root.attrib["width"], root.attrib["height"]
    for element in root.iter():
        _themed(element)
    _slim(root)
    _rename(root, prefix)
    root.attrib.update({"role": "img", "aria-label": label})
    return ET.tostring(root, encoding="unicode")


def _read(raw: bytes) -> ET.Element:
    """The picture without namespaces, style sheet and false precision, its links made hover texts."""
    root = ET.fromstring(raw)  # noqa: S314 - matplotlib wrote it a moment ago
    for element in list(root.iter()):
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        element.text = element.tail = None
        for name in ("d", "x", "y"):
            if name in element.attrib:
                element.set(name, _LONG_DECIMAL.sub(_rounded, " ".join(element.attrib[name].split())))
        if "transform" in element.attrib:
            short = _TRANSLATION.sub(lambda match: _LONG_DECIMAL.sub(_rounded, match[0]), element.attrib["transform"])
            element.set("transform", short)
        if element.tag == "a":
            title = ET.Element("title")
            title.text = unquote(element.attrib.pop(_HREF).removeprefix(HOVER))
            element.tag = "g"
            element.attrib.clear()
            element.insert(0, title)
    for parent in root.iter():
        parent[:] = [child for child in parent if child.tag not in {"style", "metadata"}]
    # What the style sheet said of every element, as attributes that all of them inherit.
    root.attrib.update({"stroke-linejoin": "round", "stroke-linecap": "butt"})
    return root


def _themed(element: ET.Element) -> None:
    """Style as attributes, because the page's policy allows no inline style; colours as the theme's variables."""
    attributes = element.attrib
    for declaration in attributes.pop("style", "").split(";"):
        name, _, value = declaration.partition(":")
        if value:
            attributes[name.strip()] = _COLOUR.sub(lambda match: _VARIABLES[match[0]], value.strip())
    if _HREF in attributes:
        attributes["href"] = attributes.pop(_HREF)


def _slim(element: ET.Element) -> None:
    """Drop what draws nothing, and say once what all marks of a group say of themselves: a run has thousands."""
    for child in element:
        _slim(child)
    children: list[ET.Element] = []
    for child in element:
        bare = child.tag == "g" and not child.attrib.keys() - {"id"} and child.find("title") is None
        children += child if bare else [child]
    element[:] = [child for child in children if len(child) or child.tag not in {"g", "defs"}]
    if element.tag == "use" and (place := _TRANSLATION.fullmatch(element.get("transform", ""))):
        del element.attrib["transform"]
        element.attrib.update(x=place[1], y=place[2])
    marks = [mark for child in element for mark in ([child] if child.tag == "use" else child.findall("use"))]
    if len(marks) > 1 and len(marks) == sum(1 for _ in element.iter("use")):
        for name in _INHERITED:
            if len(said := {mark.get(name) for mark in marks}) == 1 and (value := said.pop()) is not None:
                element.set(name, value)
                for mark in marks:
                    del mark.attrib[name]


def _rename(root: ET.Element, prefix: str) -> None:
    """Short ids that no other figure of the page has; those that nothing refers to go."""
    names: dict[str, str] = {}
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if match := _REFERENCE.match(value):
                name = names.setdefault(match[1], f"{prefix}{len(names)}")
                element.set(attribute, value.replace(match[1], name))
    for element in root.iter():
        old = element.attrib.pop("id", None)
        if old in names:
            element.set("id", names[old])


def _rounded(match: re.Match[str]) -> str:
    """A hundredth of a point is below what any screen or printer shows."""
    short = f"{float(match[0]):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short
