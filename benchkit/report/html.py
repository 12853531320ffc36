"""What pages of HTML have in common: templates that escape all data, and a policy under which only ours runs."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from benchkit.report.clean_text import legible
from benchkit.report.flame import palette
from benchkit.report.tables import Table
from benchkit.report.theme import SERIES, TONES

_OPENS = {"number": "<td", "name": "<th scope=row", "text": "<td class=text", "prose": "<td class=prose"}
"""How the cells of a column begin, by its kind."""

_MARKUP = re.compile("[&<>\"']").search


@functools.cache
def environment() -> Environment:
    """Templates of this package: everything is escaped, nothing may be missing, text loses what has no picture.

    There is one, which compiles each template once.
    """
    made = Environment(
        loader=PackageLoader("benchkit.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalised,
    )
    made.filters["body"] = body
    return made


def body(table: Table) -> Markup:
    """The rows of a table. A run has ten thousand of them, for which templates are too slow.

    HTML closes rows and cells by itself, and short attributes need no quotes; of a long table that is a fifth of the file.
    """
    opens = [_OPENS[column.kind] for column in table.columns]
    parts: list[str] = []
    for row in table.rows:
        parts.append("<tr>")
        for begin, entry in zip(opens, row, strict=True):
            exact = entry.exact
            parts.append(f"{begin}>" if exact is None else f"{begin} data-v={exact}>")
            text = legible(entry.text)
            parts.append(escape(text) if _MARKUP(text) else text)
    return Markup("".join(parts))  # noqa: S704 - texts in it are escaped


def policy(style: str, script: str) -> str:
    """The content security policy of a page with this style and this script: nothing else runs, nothing is fetched."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def theme() -> str:
    """The tones as CSS variables, light and on dark screens; paper is light. Series colours as classes."""
    tones = (*TONES, *palette.TONES)
    light = "".join(f"--{tone.name}:{tone.light};" for tone in tones)
    dark = "".join(f"--{tone.name}:{tone.dark};" for tone in tones)
    series = "".join(f".tone-{i}{{color:var(--{tone.name})}}" for i, tone in enumerate(SERIES))
    return f":root{{{light}}}@media screen and (prefers-color-scheme:dark){{:root{{{dark}}}}}{series}\n"


def asset(name: str) -> str:
    """A file of ours that goes into a page as it is."""
    return files("benchkit.report").joinpath("templates", name).read_text(encoding="utf-8")


def _finalised(value: object) -> object:
    return legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _digest(content: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
