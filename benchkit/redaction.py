"""Values that this process must not write: text of others is searched for them before it is stored or shown.

What benchkit writes itself names the source of a secret, never its value. This is for what it only passes on: messages
of load tools, logs of servers, bodies of responses.
"""

from __future__ import annotations

import logging
import re

SHORTEST = 8
"""Fewest characters of a value that is searched for: a shorter one stands in too much text by chance."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]* +(?=\S)")
"""Start of a value with an authentication scheme, as in `Bearer abc` (RFC 9110, 11.4): servers log what follows."""

_known: set[str] = set()


def redact_from_now_on(value: str) -> None:
    """Have a value, and its part behind an authentication scheme, redacted for as long as this process runs."""
    _known.update(part for part in (value, _SCHEME.sub("", value, count=1)) if len(part) >= SHORTEST)


def redacted(text: str) -> str:
    """Return text with every known value replaced by as many asterisks, so that lengths stay true."""
    for value in sorted(_known, key=len, reverse=True):
        text = text.replace(value, "*" * len(value))
    return text


def redacted_bytes(content: bytes) -> bytes:
    """Return the content of a file likewise."""
    for value in sorted(_known, key=len, reverse=True):
        content = content.replace(value.encode(), b"*" * len(value))
    return content


class RedactingFormatter(logging.Formatter):
    """A log formatter whose lines have no known value."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        return redacted(super().format(record))
