"""What matplotlib writes as SVG, made fit to stand alone in a file or inside a page. Pure.

Text stays outlines: the picture is the same in every browser, editor and paper, without a font beside it. What a screen
reader needs is the description and the table that the figure is drawn from, not the letters along its axes.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from urllib.parse import unquote
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

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
_REFERENCE = re.compile(r"(?:url\()?#([^)]+)\)?$")
_MARKUP = re.compile(r'[&<>"\n]').search
_INHERITED = ("fill", "stroke", "stroke-width")


def standalone(raw: str | bytes, title: str, description: str) -> bytes:
    """The figure as a file: light, with title and description."""
    return _standalone(_read(raw), title, description)


def inline(raw: str | bytes, prefix: str, label: str) -> str:
    """The figure as an element of a page: coloured by the page's theme, its ids its own, without style attributes."""
    return _inline(_read(raw), prefix, label)


def both(raw: str | bytes, prefix: str, title: str, description: str) -> tuple[bytes, str]:
    """The figure as a file, and as an element of a page."""
    root = _read(raw)
    return _standalone(root, title, description), _inline(root, prefix, description)


def _standalone(root: ET.Element, title: str, description: str) -> bytes:
    alone = ET.Element(root.tag, {**root.attrib, "xmlns": _SVG, "xmlns:xlink": _XLINK, "role": "img"})
    for tag, text in (("title", title), ("desc", description)):
        ET.SubElement(alone, tag).text = text
    alone.extend(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{_written(alone)}\n'.encode()


def _inline(root: ET.Element, prefix: str, label: str) -> str:
    del root.attrib["width"], root.attrib["height"]
    for element in root.iter():
        _themed(element)
    _slim(root)
    _rename(root, prefix)
    root.attrib.update({"role": "img", "aria-label": label})
    return _written(root)


def _read(raw: str | bytes) -> ET.Element:
    """The picture without namespaces, style sheet and false precision, its links made hover texts."""
    root = ET.fromstring(raw)  # noqa: S314 - matplotlib wrote it a moment ago
    for element in list(root.iter()):
        attributes = element.attrib
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        element.text = element.tail = None
        if "d" in attributes:
            attributes["d"] = _LONG_DECIMAL.sub(_rounded, " ".join(attributes["d"].split()))
        for name in ("x", "y"):
            if name in attributes:
                attributes[name] = _short(attributes[name])
        if "transform" in attributes:
            attributes["transform"] = _TRANSLATION.sub(
                lambda match: f"translate({_short(match[1])} {_short(match[2])})", attributes["transform"]
            )
        if element.tag == "a":
            title = ET.Element("title")
            title.text = unquote(attributes.pop(_HREF).removeprefix(HOVER))
            element.tag = "g"
            attributes.clear()
            element.insert(0, title)
        elif _HREF in attributes:
            attributes["xlink:href"] = attributes.pop(_HREF)
    for parent in (root, *root.findall("defs")):
        parent[:] = [child for child in parent if child.tag not in {"style", "metadata"}]
    # What the style sheet said of every element, as attributes that all of them inherit.
    root.attrib.update({"stroke-linejoin": "round", "stroke-linecap": "butt"})
    return root


def _themed(element: ET.Element) -> None:
    """Style as attributes, because the page's policy allows no inline style; colours as the theme's variables."""
    attributes = element.attrib
    if "style" in attributes:
        attributes.update(_declared(attributes.pop("style")))
    if "xlink:href" in attributes:
        attributes["href"] = attributes.pop("xlink:href")


@functools.lru_cache(maxsize=256)
def _declared(style: str) -> dict[str, str]:
    """The declarations of a style attribute; of thousands of marks it is the same."""
    declarations = (declaration.partition(":") for declaration in style.split(";"))
    return {
        name.strip(): _COLOUR.sub(lambda match: _VARIABLES[match[0]], value.strip())
        for name, _, value in declarations
        if value
    }


def _slim(element: ET.Element) -> None:
    """Drop what draws nothing, and say once what all marks of a group say of themselves: a run has thousands."""
    for child in element:
        _slim(child)
    children: list[ET.Element] = []
    for child in element:
        bare = child.tag == "g" and not child.attrib.keys() - {"id"} and child.find("title") is None
        children += child if bare else [child]
    element[:] = [child for child in children if len(child) or child.tag not in {"g", "defs"}]
    if element.tag == "use":
        _place(element.attrib)
    for tag in ("use", "path"):
        marks = list(_marks(element, tag))
        if len(marks) > 1 and len(marks) == sum(1 for _ in element.iter(tag)):
            for name in _INHERITED:
                if len(said := {mark.get(name) for mark in marks}) == 1 and (value := said.pop()) is not None:
                    element.set(name, value)
                    for mark in marks:
                        del mark.attrib[name]


def _marks(element: ET.Element, tag: str) -> Iterator[ET.Element]:
    """The marks of a group, whether they have a text of their own or not."""
    for child in element:
        if child.tag == tag:
            yield child
        elif child.tag != "defs":
            yield from child.findall(tag)


def _place(attributes: dict[str, str]) -> None:
    """Where a glyph or mark stands, in the shortest way: 0 is where it stands anyway."""
    if place := _TRANSLATION.fullmatch(attributes.get("transform", "")):
        del attributes["transform"]
        attributes.update(x=place[1], y=place[2])
    for name in ("x", "y"):
        if attributes.get(name) == "0":
            del attributes[name]


def _rename(root: ET.Element, prefix: str) -> None:
    """Short ids that no other figure of the page has; those that nothing refers to go."""
    names: dict[str, str] = {}
    for element in root.iter():
        for attribute, value in element.attrib.items():
            if value.startswith(("#", "url(#")) and (match := _REFERENCE.match(value)):
                name = names.setdefault(match[1], f"{prefix}{len(names)}")
                element.set(attribute, value.replace(match[1], name))
    for element in root.iter():
        old = element.attrib.pop("id", None)
        if old in names:
            element.set("id", names[old])


def _written(root: ET.Element) -> str:
    """The element as text; what ElementTree writes, less what it does for namespaces and mixed text."""
    parts: list[str] = []
    _write(root, parts.append)
    return "".join(parts)


def _write(element: ET.Element, add: Callable[[str], None]) -> None:
    attributes = "".join(f' {name}="{_attribute(value)}"' for name, value in element.attrib.items())
    if not len(element) and not element.text:
        add(f"<{element.tag}{attributes}/>")
        return
    add(f"<{element.tag}{attributes}>{escape(element.text or '')}")
    for child in element:
        _write(child, add)
    add(f"</{element.tag}>")


def _attribute(value: str) -> str:
    return escape(value, {'"': "&quot;", "\n": "&#10;"}) if _MARKUP(value) else value


def _rounded(match: re.Match[str]) -> str:
    """A hundredth of a point is below what any screen or printer shows."""
    return _short(match[0])


def _short(number: str) -> str:
    short = f"{float(number):.2f}".rstrip("0").rstrip(".")
    return "0" if short == "-0" else short
