"""The shape of an output format: how the text of a load tool is recognised and read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from benchkit.models.load_result import LoadResult


@dataclass(frozen=True)
class OutputFormat:
    """What one load tool writes, in all of its forms: text, JSON, tables.

    Both functions are pure, and take a whole text as `benchkit.loadtools.text.decode` returns it.
    """

    tool: str
    """Name of the tool that wrote it."""
    recognise: Callable[[str], bool] = field(repr=False)
    """True for a text with marks that only this tool writes, be the text whole or not."""
    parse: Callable[[str], LoadResult] = field(repr=False)
    """Text → LoadResult. Raises ParseError for text that is no output of the tool, or that states nothing."""
