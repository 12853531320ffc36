"""Redaction and cleaning of the text of other programs, such as messages of load tools, logs and response bodies.

Redaction is for such quoted text only: benchkit's own texts name the source of a secret, never its value.
"""

from __future__ import annotations

import json
import logging
import re
import unicodedata
from collections.abc import Callable

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories without a glyph: control, format (bidirectional overrides among them), surrogates, private,
none."""

SHORTEST = 8
"""Fewest characters of a secret that is redacted: shorter ones occur by chance in much text."""
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9-]* +(?=\S)")
"""Authentication scheme at the start of a secret, as in `Bearer abc` (RFC 9110, 11.4): servers log only the rest."""
_secrets: set[str] = set()


def legible(text: str) -> str:
    """Return the text with every character without a glyph replaced, except line feeds and tabs."""
    return _substituted(text, lambda _: REPLACEMENT)


def legible_json(text: str) -> str:
    """Return the JSON text with every character without a glyph escaped: the same document, safe in a terminal."""
    return _substituted(text, lambda char: json.dumps(char)[1:-1])


def clean(text: str) -> str:
    """Return the text on one line, with single spaces and unprintable characters replaced."""
    return legible(" ".join(text.split()))


def _substituted(text: str, substitute: Callable[[str], str]) -> str:
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        substitute(char) if unicodedata.category(char) in _UNPRINTABLE and char not in "\n\t" else char for char in text
    )


def redact_from_now_on(value: str) -> None:
    """Redact a secret, and its part after an authentication scheme, until this process ends."""
    _secrets.update(part for part in (value, _SCHEME.sub("", value, count=1)) if len(part) >= SHORTEST)


def redacted(text: str) -> str:
    """Return the text with every secret replaced by asterisks of the same length."""
    for value in sorted(_secrets, key=len, reverse=True):
        text = text.replace(value, "*" * len(value))
    return text


def redacted_bytes(content: bytes) -> bytes:
    """Return the content of a file with every secret replaced in the same way."""
    for value in sorted(_secrets, key=len, reverse=True):
        content = content.replace(value.encode(), b"*" * len(value))
    return content


class RedactingFormatter(logging.Formatter):
    """A log formatter that redacts secrets."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the redacted line of a record."""
        return redacted(super().format(record))
