"""The readers of outputs: lines by patterns whose named groups are figures, and documents of JSON."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

from pydantic import AliasPath, BaseModel, ConfigDict, Field, ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.text import (
    MAX_LINE,
    is_not_a_number,
    not_output_of,
    parse_count,
    parse_number,
    several_runs,
    split_lines,
    unread_notes,
)
from benchkit.models.load_result import LoadResult, Note
from benchkit.validation import first_fault

Action = Callable[[re.Match[str]], None]
Figures = Mapping[str, Callable[[str], object]]
"""Parsers of figures, by their names."""

_FIGURES: Figures = {
    **dict.fromkeys(("requests", "connections", "threads", "users", "failed", "dropped", "non_2xx"), parse_count),
    **dict.fromkeys(("duration_s", "rps", "bytes_total", "bytes_per_s", "answered_rps"), parse_number),
}
_CUT = re.compile(r"[0-9]m?$")
_WHOLE = re.compile(r"\.[0-9]{2,}$")


@dataclass(frozen=True)
class OutputFormat:
    """The outputs of one load tool, in all of their forms: text, JSON, tables.

    Both functions are pure, and take a whole text as `benchkit.loadtools.text.prepare` returns it.
    """

    tool: str
    """Name of the tool that wrote it."""
    recognise: Callable[[str], bool] = field(repr=False)
    """True for a text with marks that only this tool writes, be the text whole or not."""
    parse: Callable[[str], LoadResult] = field(repr=False)
    """Text → LoadResult. Raises ParseError for text that is no output of the tool, or that states nothing."""
    starts: tuple[re.Pattern[str], ...] = field(default=(), repr=False)
    """Patterns of lines that a run has once. The first one found in a text divides it into runs."""
    dialect_of: str | None = None
    """Tool whose parser reads these outputs too, and whose outputs this parser reads: wrk, for wrk2."""


class Reader(ABC):
    """Reader of a tool's output, line by line; the figures are its attributes.

    Attributes of this class are figures of `LoadResult`, by its names; None where the text does not state them.
    """

    tool: ClassVar[str]
    figures: ClassVar[Figures] = {}
    """Parsers of the tool's own figures, or of those that it states in units of its own. Others are text."""
    own: ClassVar[re.Pattern[str]] = re.compile("")
    """Text that each output of the tool has somewhere."""

    tool_version: str | None = None
    target: str | None = None
    duration_s: float | None = None
    requests: int | None = None
    rps: float | None = None
    connections: int | None = None
    threads: int | None = None
    users: int | None = None
    bytes_total: float | None = None
    bytes_per_s: float | None = None
    failed: int | None = None
    non_2xx: int | None = None
    dropped: int | None = None
    answered_rps: float | None = None

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        """Tokens of the figures that the text states, whether or not they could be read."""
        self.percentiles: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        self.messages: Counter[str] = Counter()
        """Number of times that each error occurred, by its text."""
        self.unread: list[str] = []
        """Lines that the tool printed, with a figure that could not be read."""
        self.is_last = False
        """True where no line end follows the current line: its last figure may lack digits."""
        self.rules = {re.compile(pattern): action or self.set_figures for pattern, action in self.lines().items()}

    @abstractmethod
    def lines(self) -> Mapping[str, Action | None]:
        """Return the patterns of lines, each with the action that reads it; the first that matches a line is used.

        None: the named groups of the pattern are figures that a run states once (`set_figures`).
        """

    @abstractmethod
    def result(self) -> LoadResult:
        """Return the result by the figures that were read."""

    def has_figures(self) -> bool:
        """Return whether the lines had figures that tell an output of the tool from other text."""
        return bool(self.tokens)

    def read(self, text: str) -> LoadResult:
        """Return the result of a text. Raises ParseError for a text of another kind, and for several runs."""
        lines = split_lines(text)
        for position, line in enumerate(lines):
            self.is_last = position == len(lines) - 1
            if len(line) <= MAX_LINE:
                self.read_line(line.strip())
        if not self.own.search(text) or not self.has_figures():
            raise not_output_of(self.tool, lines)
        return self.result()

    def read_line(self, line: str) -> None:
        """Read one line, stripped of blanks, by the first rule that matches it."""
        for pattern, action in self.rules.items():
            if line and (match := pattern.fullmatch(line)):
                action(match)
                return

    def is_cut(self, line: str) -> bool:
        """Return whether the figure at the end of `line` may lack digits: the text ends with it."""
        return self.is_last and _CUT.search(line) is not None and _WHOLE.search(line) is None

    def set_figures(self, match: re.Match[str]) -> None:
        """Set the figures in the named groups of a line that a run prints once.

        Raises ParseError where one of them was stated before with another token: figures of two runs are never mixed.
        """
        named = {name: token for name, token in match.groupdict().items() if token is not None}
        if any(self.tokens.get(name, token) != token for name, token in named.items()):
            raise several_runs(self.tool, match[0])
        self.tokens |= named
        is_cut = self.is_cut(match[0])
        for name, token in named.items():
            parse = self.figures.get(name) or _FIGURES.get(name, str)
            value = None if is_cut and match.end(name) == match.end() else parse(token)
            if value is None and not is_not_a_number(token):
                self.unread.append(match[0])
            setattr(self, name, value)

    def add(self, figures: dict[str, Any], name: str, figure: float | None, line: str) -> None:
        """Add a figure to others of its kind; `None` is one that could not be read.

        Raises ParseError where there is another one with this name.
        """
        if figures.get(name, figure) != figure:
            raise several_runs(self.tool, line)
        if figure is None or self.is_cut(line):
            self.unread.append(line)
        else:
            figures[name] = figure

    def add_status(self, match: re.Match[str]) -> None:
        """Add the number of answers of a status: a line with the status and their number."""
        self.add(self.statuses, match[1], parse_count(match[2]), match[0])

    def add_message(self, match: re.Match[str]) -> None:
        """Add an error: a line with its number and its text. Two errors may have the same text."""
        if self.is_last:
            self.unread.append(match[0])  # its kind may be in the missing end
        self.messages[match[2]] += int(match[1])

    def load_result(self, *, notes: Iterable[Note] = (), **others: object) -> LoadResult:
        """Return the figures that this class has, overridden by `others`, with a note for each unread line."""
        stated = {name: getattr(self, name) for name in Reader.__annotations__ if name in LoadResult.model_fields}
        return LoadResult.model_validate(stated | others | {"notes": (*notes, *unread_notes(self.unread))})


class SectionReader(Reader):
    """Reader of a text in sections, as hey prints it, and oha after its example. A run has each section once."""

    heading: ClassVar[re.Pattern[str]]
    """Pattern of a section's heading; its first group is the section's name."""

    slowest: float | None = None
    fastest: float | None = None
    average: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.section = "Summary"
        self.sections: set[str] = set()
        """Sections that the text has."""

    def read_line(self, line: str) -> None:
        """Read a heading, or a line of the section."""
        if match := self.heading.fullmatch(line):
            self.section = match[1].replace("distrubution", "distribution")  # in early versions of hey
            if self.section in self.sections:
                raise several_runs(self.tool, line)
            self.sections.add(self.section)
        else:
            super().read_line(line)

    def within(self, action: Action, *sections: str) -> Action:
        """Return the action for lines of these sections alone."""
        return lambda match: action(match) if self.section in sections else None

    @property
    def counted(self) -> int:
        """Requests by statuses and errors."""
        return sum(self.statuses.values()) + self.messages.total()


class JsonOutput(BaseModel):
    """A part of a tool's JSON: what its parser uses; numbers are numbers, and other fields are ignored."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, populate_by_name=True)


def within(*path: str, default: Any = ...) -> Any:  # noqa: ANN401 - of any field
    """Return a field whose value is read from nested objects, by the path of their names."""
    return Field(default, validation_alias=AliasPath(*path))


_DOCUMENT = re.compile(r"^[^\n{\"]{0,120}\{", re.MULTILINE)
"""Beginning of a document of JSON, also behind the prefix of a log."""
Document = TypeVar("Document", bound=BaseModel)


def read_document(text: str, model: type[Document], tool: str) -> Document:
    """Return the JSON in `text`, from the first line with a brace to the last brace.

    Raises ParseError where it is no document of the tool, is truncated, or is several of them.
    """
    start = _DOCUMENT.search(text)
    document = text[start.end() - 1 : text.rfind("}") + 1] if start else text
    try:
        return model.model_validate_json(document)
    except ValidationError as error:
        raise ParseError(
            f"this JSON is not a complete output of {tool}",
            why=first_fault(error, model),
            hint="is it truncated, or does it have several runs?",
        ) from None
