"""Text substitutions that fit matplotlib's SVG for a file of its own and for an element of a page. Pure.

Matplotlib writes hover texts as links, six decimals, inline styles and fixed colours. A file needs titles in place of
the links. In a page, whose policy forbids inline styles, styles become attributes and colours the variables of the
theme.
"""

from __future__ import annotations

import re
from urllib.parse import unquote
from xml.sax.saxutils import escape, quoteattr

from benchkit.report import palette
from benchkit.report.theme import TONES

HOVER = "hover:"
"""Scheme of the links that carry the hover text of a mark."""

FONTS = "'DejaVu Sans', sans-serif"
_VARIABLES = {tone.light: f"var(--{tone.name})" for tone in (*palette.TONES, *TONES)}

_HEAD = re.compile(r".*?(?=<svg)", re.DOTALL)
_SIZE = re.compile(r' (?:width|height)="[^"]*pt"')
_METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
_TITLE = re.compile(r"<title>.*?</title>", re.DOTALL)
_DESCRIPTION = re.compile(r"<desc>.*?</desc>", re.DOTALL)
_STYLE_SHEET = re.compile(r"<defs>\s*<style.*?</style>\s*</defs>", re.DOTALL)
_BETWEEN_TAGS = re.compile(r">\s+<")
_HOVER_LINK = re.compile(rf'<a xlink:href="{HOVER}([^"]*)"[^>]*>')
_PLACE = re.compile(r' (?:d|x|y|transform)="[^"]*"')
_DECIMALS = re.compile(r"(\.\d\d)\d+")
_NO_ROTATION = re.compile(r' transform="rotate\(-0 [^"]*\)"')
_GROUP_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_STYLE = re.compile(r' style="([^"]*)"')
_COLOUR = re.compile(r"#[0-9a-f]{6}\b")
_ALIKE_MARKS = re.compile(
    r'<use href="(#[^"]*)" x="[^"]*" y="[^"]*"([^/]+)/>(?:<use href="\1" x="[^"]*" y="[^"]*"\2/>)+'
)
"""Neighbouring marks that differ in their place alone: a run may have ten thousand."""


def svg_file(raw: str, description: str) -> str:
    """Return the SVG of a figure for a file: described, with hover texts, places to a hundredth of a point."""
    text = _METADATA.sub(lambda _: f"<desc>{escape(description)}</desc>", raw, count=1)
    text = _HOVER_LINK.sub(lambda link: f"<g><title>{escape(unquote(link[1]))}</title>", text).replace("</a>", "</g>")
    text = _PLACE.sub(lambda place: _DECIMALS.sub(r"\1", place[0]), _NO_ROTATION.sub("", text))
    return _BETWEEN_TAGS.sub("><", text)


def page_element(file: str, label: str) -> str:
    """Return the SVG of a file as an element of a page, with a label for screen readers.

    Ids of groups go; those of markers and clips stay, and differ between figures by matplotlib's `svg.hashsalt`.
    """
    text = file
    for pattern in (_HEAD, _TITLE, _DESCRIPTION, _STYLE_SHEET):
        text = pattern.sub("", text, count=1)
    text = _SIZE.sub("", text, count=2)
    text = _STYLE.sub(_attributes, _GROUP_ID.sub("", text)).replace("xlink:href", "href").replace("<g></g>", "")
    text = _ALIKE_MARKS.sub(lambda marks: f"<g{marks[2]}>{marks[0].replace(marks[2], '')}</g>", text)
    root = f'<svg role="img" aria-label={quoteattr(label)} font-family="{FONTS}" stroke-linejoin="round"'
    return text.replace("<svg", root, 1)


def _attributes(style: re.Match[str]) -> str:
    """Return a style attribute as presentation attributes; the font is that of the whole figure."""
    declarations = (declaration.partition(":") for declaration in style[1].split(";"))
    return "".join(
        f' {name.strip()}="{_COLOUR.sub(lambda match: _VARIABLES[match[0]], value.strip())}"'
        for name, _, value in declarations
        if name.strip() != "font-family"
    )
