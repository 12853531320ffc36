"""Common parts of HTML pages: templates that escape all data, and a policy that runs only benchkit's own script."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from benchkit.report.tables import Table
from benchkit.report.theme import SERIES, TONES
from benchkit.safe_text import legible

_TAGS = {"number": "<td", "name": "<th scope=row", "text": "<td class=text", "prose": "<td class=prose"}
"""Opening tag of the cells of a column, by its kind."""

_MARKUP = re.compile("[&<>\"']").search


@functools.cache
def environment() -> Environment:
    """Return the environment of this package's templates, which compiles each of them once.

    It escapes all data, refuses missing values, and replaces characters without a glyph.
    """
    result = Environment(
        loader=PackageLoader("benchkit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_cleaned,
    )
    result.filters["body"] = body
    return result


def body(table: Table) -> Markup:
    """Return the rows of a table as HTML. Templates would be too slow: a run has ten thousand rows."""
    tags = [(_TAGS[column.kind], "</th>" if column.kind == "name" else "</td>") for column in table.columns]
    parts: list[str] = []
    for row in table.rows:
        parts.append("<tr>")
        for (tag, end), entry in zip(tags, row, strict=True):
            exact = entry.exact
            parts.append(f"{tag}>" if exact is None else f"{tag} data-v={exact}>")
            text = legible(entry.text)
            parts.append(escape(text) if _MARKUP(text) else text)
            parts.append(end)
        parts.append("</tr>")
    return Markup("".join(parts))  # noqa: S704 - texts in it are escaped


def policy(style: str, script: str) -> str:
    """Return the content security policy of a page: it runs this style and this script alone and fetches nothing."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def theme() -> str:
    """Return the tones as CSS variables, light and for dark screens (paper is light), and series colours as classes."""
    light = "".join(f"--{tone.name}:{tone.light};" for tone in TONES)
    dark = "".join(f"--{tone.name}:{tone.dark};" for tone in TONES)
    series = "".join(f".tone-{i}{{color:var(--{tone.name})}}" for i, tone in enumerate(SERIES))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{series}\n"


def asset(name: str) -> str:
    """Return a file of this package that goes into a page unchanged."""
    return files("benchkit.report").joinpath("templates", name).read_text(encoding="utf-8")


def _cleaned(value: object) -> object:
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
