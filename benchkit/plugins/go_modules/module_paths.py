"""Module paths: patterns of private ones, as the go command matches them, and their form in URLs. Pure."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import StringConstraints

PathPattern = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9*?][A-Za-z0-9._~*?-]*(/[A-Za-z0-9._~*?-]+)*$")]
"""`mycompany.com/go`, `*.mycompany.com/team-*`: matches the leading elements of a module path, as in GOPRIVATE
(https://go.dev/ref/mod#private-modules). The brackets that Go also allows are not supported."""


def escape_path(path: str) -> str:
    """Return a module path as URLs and caches of module proxies have it: `!` and a small letter for each capital.

    https://go.dev/ref/mod#goproxy-protocol
    """
    return re.sub(r"[A-Z]", lambda capital: f"!{capital[0].lower()}", path)


def path_expression(pattern: str) -> str:
    """Return the regular expression of the paths in URLs that a pattern matches."""
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(character, re.escape(character)) for character in escape_path(pattern))
