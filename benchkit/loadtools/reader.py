"""The readers of outputs, line by line: the parser of a tool derives one, with a rule for each kind of line."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

from benchkit.loadtools.text import (
    MAX_LINE,
    QUOTED,
    not_output_of,
    parse_count,
    several_runs,
    split_lines,
    unread_notes,
)
from benchkit.models.load_result import LoadResult, Note

Action = Callable[[re.Match[str]], None]
Rules = Sequence[tuple[re.Pattern[str], Action]]
"""Patterns of lines, each with the action that reads it; the first pattern that matches the whole line is used."""


T = TypeVar("T")


class Reader(ABC):
    """Reader of a tool's output, line by line, by the tool's `_rules`; the figures are its attributes.

    Attributes of this class are figures of `LoadResult`, by its names; None where the text does not state them.
    """

    tool: ClassVar[str]
    _own: ClassVar[re.Pattern[str]] = re.compile("")
    """Text that each output of the tool has somewhere."""
    _behind_lines: ClassVar[re.Pattern[str]] = re.compile(r"(?!)")
    """Text removed from the end of a line: none, or `TEXT_AFTER_LINE` where no line of the tool has one."""
    _prints_no_bar: ClassVar[bool] = False
    """True where the tool prints no `|`: a line that has one is a row of a table that the author made."""
    _rules: Rules = ()

    tool_version: str | None = None
    target: str | None = None
    duration_s: float | None = None
    requests: int | None = None
    rps: float | None = None
    connections: int | None = None
    threads: int | None = None
    bytes_total: float | None = None
    bytes_per_s: float | None = None

    def __init__(self) -> None:
        self.stated: set[str] = set()
        """Attributes that the text stated, whether or not their figure could be read."""
        self.once_read: set[str] = set()
        """Lines with figures that a run prints once."""
        self.unread: list[str] = []
        """Lines that the tool printed, with a figure that could not be read."""
        self.unterminated = False
        """True where no line end follows the current line: its last figure may lack digits."""
        self.starts_mid_number = False
        """True where the current line is the first one and starts with a digit: its first figure may lack digits."""

    @abstractmethod
    def has_figures(self) -> bool:
        """Return whether the lines had figures that tell an output of the tool from other text."""

    @abstractmethod
    def result(self) -> LoadResult:
        """Return the result by the figures that were read."""

    def read(self, text: str) -> LoadResult:
        """Return the result of a text. Raises ParseError for a text of another kind, and for several runs."""
        lines = self.read_lines(text)
        if not self._own.search(text) or not self.has_figures():
            raise not_output_of(self.tool, lines)
        return self.result()

    def load_result(self, *, notes: Iterable[Note] = (), **others: object) -> LoadResult:
        """Return the figures that this class has, overridden by `others`, with a note for each unread line."""
        stated = {
            "tool": self.tool,
            "tool_version": self.tool_version,
            "target": self.target,
            "duration_s": self.duration_s,
            "requests": self.requests,
            "rps": self.rps,
            "connections": self.connections,
            "threads": self.threads,
            "bytes_total": self.bytes_total,
            "bytes_per_s": self.bytes_per_s,
        }
        return LoadResult.model_validate(stated | others | {"notes": (*notes, *unread_notes(self.unread))})

    def set_once(self, line: str, **values: object) -> None:
        """Set attributes that a run prints once; `None` is a figure that could not be read.

        Raises ParseError where one of them was set before: figures of two runs are never mixed. A repeated line with
        the same figures is ignored: it is a quotation.
        """
        words = " ".join(line.split())
        if self.stated & values.keys():
            if words in self.once_read and any(c.isdigit() for c in line):
                return
            raise several_runs(self.tool, line)
        self.once_read.add(words)
        if None in values.values():
            self.unread.append(line)
        self.stated |= values.keys()
        for name, value in values.items():
            setattr(self, name, value)

    def add_once(self, figures: dict[str, T], name: str, figure: T | None, line: str) -> None:
        """Add a figure to others of its kind; `None` is one that could not be read.

        Raises ParseError where there is one with this name.
        """
        if name in figures:
            raise several_runs(self.tool, line)
        if figure is None:
            self.unread.append(line)
        else:
            figures[name] = figure

    def once(self, *, whole: bool = False, **readers: Callable[[str], object]) -> Action:
        """Return the action that sets attributes once, each from the next group of the line by its reader.

        With `whole`, no figure is read where the text ends within the last one.
        """

        def read(match: re.Match[str]) -> None:
            is_cut = whole and self.ends_mid_number(match[0])
            named = zip(readers.items(), match.groups(), strict=False)
            self.set_once(match[0], **{name: None if is_cut else reader(token) for (name, reader), token in named})

        return read

    def latest(self, **readers: Callable[[str], object]) -> Action:
        """Return the action that sets attributes, each from the next group by its reader; the last line counts."""

        def read(match: re.Match[str]) -> None:
            for (name, reader), token in zip(readers.items(), match.groups(), strict=False):
                setattr(self, name, None if token is None else reader(token))

        return read

    def mark(self, **values: object) -> Action:
        """Return the action that sets attributes to these values, by a line that a run prints once."""
        return lambda match: self.set_once(match[0], **values)

    def put(self, **values: object) -> Action:
        """Return the action that sets attributes to these values, however often the line occurs."""
        return lambda _match: vars(self).update(values)

    def read_lines(self, text: str) -> list[str]:
        """Read every line of `text` by the rules, and return the lines."""
        lines = split_lines(text)
        last = len(lines) - 1
        for position, raw in enumerate(lines):
            self.unterminated = position == last
            self.starts_mid_number = position == 0 and raw[:1].isdigit()
            line = self._behind_lines.sub("", raw.strip(QUOTED))
            if self._prints_no_bar and "|" in line:
                line = " ".join(line.replace("|", " ").split())
            if line and len(line) <= MAX_LINE:
                self.read_line(line)
        return lines

    def read_line(self, line: str) -> None:
        """Read one line, stripped of blanks and quoting, by the first rule that matches it."""
        for pattern, action in self._rules:
            if match := pattern.fullmatch(line):
                action(match)
                return

    def ends_mid_number(self, line: str) -> bool:
        """Return whether the figure at the end of `line` may lack digits: the text ends with it."""
        return self.unterminated and line[-1:].isdigit()

    def add_unread(self, match: re.Match[str]) -> None:
        """Record a line that the tool printed and that could not be read."""
        self.unread.append(match[0])


TIMES: Mapping[str, str] = {"Total": "duration_s", "Slowest": "slowest", "Fastest": "fastest", "Average": "average"}
"""Labels of times, each with its attribute."""


class SectionReader(Reader):
    """Reader of a text in sections with rules of their own, as hey prints it, and oha after its example.

    A run has each section once.
    """

    _heading: ClassVar[re.Pattern[str]]
    """Pattern of a section's heading; its first group is the section's name."""

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

    @abstractmethod
    def section_rules(self) -> Mapping[str, Rules]:
        """Return the rules of each section that is read."""

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
