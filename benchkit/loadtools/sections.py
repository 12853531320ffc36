"""The reader of outputs in sections, as hey prints them, and oha after its example."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import ClassVar

from benchkit.loadtools.text import Reader, Rules, parse_count, several_runs

TIMES: Mapping[str, str] = {"Total": "duration_s", "Slowest": "slowest", "Fastest": "fastest", "Average": "average"}
"""Labels of times, each with its attribute."""


class SectionReader(Reader):
    """Reader of a text whose sections have rules of their own; a run has each section once."""

    _heading: ClassVar[re.Pattern[str]]
    """Heading of a section, its name being the first group."""

    slowest: float | None = None
    fastest: float | None = None
    average: float | None = None

    def __init__(self) -> None:
        """Start in the summary, whose heading may be missing."""
        super().__init__()
        self.sections: set[str] = set()
        """Sections that the text has."""
        self.percentiles: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        self.errors: Counter[str] = Counter()
        """Number of times that each error occurred, by its text."""
        self._rules_of = self.section_rules()
        self._start_section("Summary")

    def section_rules(self) -> Mapping[str, Rules]:
        """Return the rules of each section that is read."""
        raise NotImplementedError

    def _start_section(self, name: str) -> None:
        self._rules = ((self._heading, self.read_heading), *self._rules_of.get(name, ()))

    def read_heading(self, match: re.Match[str]) -> None:
        """Start a section. Raises ParseError for a second one of its name."""
        section = match[1].replace("distrubution", "distribution")  # in early versions of hey
        if section in self.sections:
            raise several_runs(self.tool, match[0])
        self.sections.add(section)
        self._start_section(section)

    def read_status(self, match: re.Match[str]) -> None:
        """Add the number of answers of a status."""
        self.add_once(self.statuses, match[1], parse_count(match[2]), match[0])

    def read_error(self, match: re.Match[str]) -> None:
        """Add an error; two errors may have the same text where the tool shortened their addresses."""
        if self.unterminated:
            self.unread.append(match[0])  # its kind may be in the missing end
        self.errors[match[2]] += int(match[1])
