"""Text from hosts and files without characters that cannot be shown."""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNPRINTABLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories without a glyph: control, format (bidirectional overrides among them), surrogates, private,
none."""


def legible(text: str) -> str:
    """Return the text with every character without a glyph replaced, except line feeds and tabs."""
    if text.isprintable():
        return text
    return "".join(
        REPLACEMENT if unicodedata.category(char) in _UNPRINTABLE and char not in "\n\t" else char for char in text
    )


def clean(text: str) -> str:
    """Return the text on one line, with single spaces and without such characters."""
    return legible(" ".join(text.split()))
