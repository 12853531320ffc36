"""Text from hosts and files, made fit to be shown."""

from __future__ import annotations

import unicodedata

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

_UNFIT = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})
"""Unicode categories of characters with no picture: control, format (as the bidirectional overrides), surrogates, …"""


def legible(text: str) -> str:
    """The text, its lines and tabs kept, with every other character that has no picture replaced."""
    if text.isprintable():
        return text
    return "".join(
        REPLACEMENT if unicodedata.category(char) in _UNFIT and char not in "\n\t" else char for char in text
    )


def clean(text: str) -> str:
    """The text on one line, white space made single spaces, so replaced."""
    return legible(" ".join(text.split()))
