"""Text from hosts and files without characters that cannot be shown."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories without a glyph: control, format (bidirectional overrides among them), surrogates, private,
none."""


def legible(text: str) -> str:
    """Return the text with every character without a glyph replaced, except line feeds and tabs."""
    return _substituted(text, lambda _: REPLACEMENT)


def legible_json(text: str) -> str:
    """Return the JSON text with every character without a glyph escaped: the same document, safe in a terminal."""
    return _substituted(text, lambda char: json.dumps(char)[1:-1])


def clean(text: str) -> str:
    """Return the text on one line, with single spaces and without such characters."""
    return legible(" ".join(text.split()))


def _substituted(text: str, substitute: Callable[[str], str]) -> str:
    if text.replace("\n", "").replace("\t", "").isprintable():
        return text
    return "".join(
        substitute(char) if unicodedata.category(char) in _UNPRINTABLE and char not in "\n\t" else char for char in text
    )
