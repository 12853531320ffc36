"""Module paths: what private ones match, as the go command has it, and how they stand in URLs. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import StringConstraints

PathPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9*?][A-Za-z0-9._~*?-]*(/[A-Za-z0-9._~*?-]+)*$")]
"""`mycompany.com/go`, `*.mycompany.com/team-*`: matched against as many elements from the start of a module path as it has
itself, as in GOPRIVATE (https://go.dev/ref/mod#private-modules). Of the brackets that Go allows too there are none here."""


def escaped(path: str) -> str:
    """A module path as proxies and download caches have it: `!` and the small letter in a capital's place.

    https://go.dev/ref/mod#goproxy-protocol
    """
    return re.sub(r"[A-Z]", lambda capital: f"!{capital[0].lower()}", path)


def expression_of(pattern: str) -> str:
    """A regular expression for what the pattern matches, as URLs have it."""
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(character, re.escape(character)) for character in escaped(pattern))
