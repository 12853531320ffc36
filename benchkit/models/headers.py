"""Headers of HTTP requests, as scenarios have them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import StringConstraints

HeaderName = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$")]
HeaderValue = Annotated[str, StringConstraints(pattern=r"^[!-~]([ -~]*[!-~])?$")]
"""Header names and values of RFC 9110, 5.1 and 5.5: tokens, and visible characters with blanks between them."""

Headers = Mapping[HeaderName, HeaderValue]


CONTENT_LENGTH = "Content-Length"


def header_value(headers: Headers, name: str) -> str | None:
    """Return the value of a header, None where there is none; case does not matter (RFC 9110, 5.1)."""
    return next((value for each, value in headers.items() if each.lower() == name.lower()), None)


def has_header(headers: Headers, name: str) -> bool:
    """Return whether there is a header of this name."""
    return header_value(headers, name) is not None


def without_header(headers: Headers, name: str) -> dict[str, str]:
    """Return the headers without the one of this name."""
    return {each: value for each, value in headers.items() if each.lower() != name.lower()}


def merged_headers(common: Headers, own: Headers) -> dict[str, str]:
    """Return the headers with those in `own` overriding common ones of the same name."""
    return {**{name: value for name, value in common.items() if not has_header(own, name)}, **own}
