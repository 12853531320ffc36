"""The shape of an output format: how the text of a load tool is recognised and read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from benchkit.models.load_result import LoadResult


@dataclass(frozen=True)
class OutputFormat:
    """The outputs of one load tool, in all of their forms: text, JSON, tables.

    Both functions are pure, and take a whole text as `benchkit.loadtools.preparation.prepare` returns it. It has one
    kind of line end and blank, no colour codes, and no prefixes of a log.
    """

    tool: str
    """Name of the tool that wrote it."""
    recognise: Callable[[str], bool] = field(repr=False)
    """True for a text with marks that only this tool writes, be the text whole or not."""
    parse: Callable[[str], LoadResult] = field(repr=False)
    """Text → LoadResult. Raises ParseError for text that is no output of the tool, or that states nothing."""
    starts: tuple[re.Pattern[str], ...] = field(default=(), repr=False)
    """Patterns of a run's first lines, in their order, each once a run. The first pattern found in a text divides it
    into runs; the order of all patterns then divides a part that still has several."""
    dialect_of: str | None = None
    """Tool whose parser reads these outputs too, and whose outputs this parser reads: wrk, for wrk2."""
