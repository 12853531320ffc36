"""The words of benchkit that a reader meets, each with its meaning; `scenarios/GLOSSARY.md` has the same for users."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

TERMS: Mapping[str, str] = MappingProxyType(
    {
        "cell": "one combination that is compared",
        "block": "one repetition of all cells, in random order",
        "slice": "a short turn of load within a block",
        "stack": "the servers of a cell",
        "trial": "one cell in one block",
        "suspect": "used with care",
        "invalid": "shown, and used in no ratio",
    }
)


def explain(*terms: str) -> str:
    """Return the meanings of words in one line: `cell: one combination that is compared · …`."""
    return " · ".join(f"{term}: {TERMS[term]}" for term in terms)
