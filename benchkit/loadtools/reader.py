"""The readers of outputs: lines by patterns whose named groups are figures, and documents of JSON."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import AliasPath, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.text import (
    MAX_LINE,
    SECONDS,
    TIMES,
    Figure,
    all_of_unit,
    is_not_a_number,
    latency_by_name,
    not_output_of,
    parse_count,
    parse_number,
    parse_scaled,
    several_runs,
    split_lines,
    unread_notes,
    without_times,
)
from benchkit.models.load_result import Covers, Errors, Latency, LoadResult, Note
from benchkit.validation import first_fault

Action = Callable[[re.Match[str]], None]
Figures = Mapping[str, Callable[[str], object]]
"""Parsers of figures, by their names."""

Document = TypeVar("Document", bound=BaseModel)

_COUNTS = ("requests", "connections", "threads", "users", "failed", "failed_length", "dropped", "non_2xx")
_ERRORS = tuple(f"errors_{kind}" for kind in Errors.model_fields)
_FIGURES: Figures = {
    **dict.fromkeys((*_COUNTS, *_ERRORS), parse_count),
    **dict.fromkeys(("duration_s", "rps", "bytes_total", "bytes_per_s"), parse_number),
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
    """True for a text with marks that only this tool writes, whether or not the text is whole."""
    parse: Callable[[str], LoadResult] = field(repr=False)
    """Text → LoadResult. Raises ParseError for text that is not an output of the tool, or that states nothing."""
    dialect_of: str | None = None
    """Tool whose parser reads these outputs too, and whose outputs this parser reads: wrk, for wrk2."""


class Reader(ABC):
    """Reader of a tool's output, line by line; the figures are its attributes.

    Attributes of this class are figures of `LoadResult`, of its latency and of its errors; None where the text does
    not state them. A document of JSON may set them as well.
    """

    tool: ClassVar[str]
    covers: ClassVar[Covers] = "connect+request"
    figures: ClassVar[Figures] = {}
    """Parsers of the tool's own figures, or of those that it states in units of its own. Others are text."""
    units: ClassVar[Mapping[str, float]] = SECONDS
    """Seconds in the units of its latencies."""
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
    failed_length: int | None = None
    non_2xx: int | None = None
    dropped: int | None = None
    availability: float | None = None
    connect_mean_s: float | None = None
    first_byte_mean_s: float | None = None
    step_s: float | None = None
    """Largest step in which the latencies are stated."""
    corrected: bool | None = False
    errors_connect: int | None = None
    errors_read: int | None = None
    errors_write: int | None = None
    errors_timeout: int | None = None
    errors_other: int | None = None

    def __init__(self) -> None:
        self.tokens: dict[str, str] = {}
        """Tokens of the figures that the text states, whether or not they could be read."""
        self.times: dict[str, float | None] = {}
        """Latencies in seconds by the tool's names, as `latency_by_name` knows them."""
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
                if self.is_last and _CUT.search(line) and not _WHOLE.search(line):
                    self.unread.append(line)
                else:
                    action(match)
                return

    def time(self, token: str) -> float | None:
        """Return the seconds of a latency, and keep its step; None for another token."""
        scaled = parse_scaled(token, self.units)
        if scaled is None:
            return None
        self.step_s = max(self.step_s or 0.0, scaled[1])
        return scaled[0]

    def set_figures(self, match: re.Match[str]) -> None:
        """Set the figures in the named groups of a line that a run prints once.

        Raises ParseError where one of them was stated before with another token: figures of two runs are never mixed.
        """
        named = {name: token for name, token in match.groupdict().items() if token is not None}
        if any(self.tokens.get(name, token) != token for name, token in named.items()):
            raise several_runs(self.tool, match[0])
        self.tokens |= named
        for name, token in named.items():
            parse = self.time if name in TIMES else self.figures.get(name) or _FIGURES.get(name, str)
            figures: dict[str, Any] = self.times if name in TIMES else vars(self)
            figures[name] = parse(token)
            if figures[name] is None and not is_not_a_number(token):
                self.unread.append(match[0])

    def add(self, figures: dict[str, Any], name: str, figure: float | None, line: str) -> None:
        """Add a figure to others of its kind; `None` is one that could not be read.

        Raises ParseError where there is another one with this name.
        """
        if figures.get(name, figure) != figure:
            raise several_runs(self.tool, line)
        if figure is None:
            self.unread.append(line)
        else:
            figures[name] = figure

    def add_percentile(self, match: re.Match[str]) -> None:
        """Add a percentile: a line with its rank and its time."""
        if not is_not_a_number(match[2]):
            self.add(self.percentiles, f"{float(match[1]):g}", self.time(match[2]), match[0])

    def add_status(self, match: re.Match[str]) -> None:
        """Add the number of answers of a status: a line with the status and their number."""
        self.add(self.statuses, match[1], parse_count(match[2]), match[0])

    def add_message(self, match: re.Match[str]) -> None:
        """Add an error: a line with its number and its text. Two errors may have the same text."""
        if self.is_last:
            self.unread.append(match[0])  # its kind may be in the missing end
        self.messages[match[2]] += int(match[1])

    def set_document(self, text: str, model: type[Document], unit_s: float, step_s: float | None = None) -> Document:
        """Set the figures of a document whose fields have the names of attributes, and return it.

        Its `times` are in units of `unit_s`, and stated in steps of `step_s`, else of that unit. Raises ParseError
        where it is not a document of the tool, is truncated, or is several of them.
        """
        document = read_document(text, model, self.tool)
        vars(self).update(document)
        self.times = dict(all_of_unit(self.times, unit_s))
        self.step_s = step_s or unit_s
        return document

    def latency(self) -> Latency:
        """Return the latencies that were read."""
        times = self.times | self.percentiles
        return latency_by_name(times, self.covers, step_s=self.step_s, corrected=self.corrected)

    def load_result(
        self,
        *,
        is_measured: bool = True,
        latency: Latency | None = None,
        notes: Iterable[Note] = (),
        **others: object,
    ) -> LoadResult:
        """Return the figures that this class has, overridden by `others`, with a note on unread lines.

        `is_measured` is False where no request was answered: zeros that the tool prints then are no times.
        """
        stated = {name: getattr(self, name) for name in Reader.__annotations__ if name in LoadResult.model_fields}
        errors = {kind: getattr(self, f"errors_{kind}") for kind in Errors.model_fields}
        latency = latency or self.latency()
        notes = [*notes, *unread_notes(self.unread)]
        if not is_measured:
            latency = without_times(latency)
            message = f"no request was answered: the zeros that {self.tool} prints are not measured times"
            notes.append(Note(code="no-samples", message=message))
        of_lines = {"latency": latency, "errors": errors, "status": self.statuses, "notes": notes}
        return LoadResult.model_validate(stated | of_lines | others)


class SectionReader(Reader):
    """Reader of a text in sections, as hey prints it, and oha after its example. A run has each section once."""

    heading: ClassVar[re.Pattern[str]]
    """Pattern of a section's heading; its first group is the section's name."""

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

    def add_message(self, match: re.Match[str]) -> None:
        """Add an error, in the section of errors."""
        if self.section == "Error distribution":
            super().add_message(match)

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


def _flat(times: object) -> object:
    """Return times by their names, with those of a part, as of percentiles."""
    if not isinstance(times, Mapping):
        return times
    parts = [part for part in times.values() if isinstance(part, Mapping)]
    return {
        name: time
        for each in (times, *parts)
        for name, time in each.items()
        if time is None or isinstance(time, int | float)
    }


Times = Annotated[dict[str, Figure | None], BeforeValidator(_flat)]
"""Times by the names of a tool, in a document."""

_DOCUMENT = re.compile(r"^[^\n{\"]{0,120}\{", re.MULTILINE)
"""Beginning of a document of JSON, even after the prefix of a log."""


def read_document(text: str, model: type[Document], tool: str) -> Document:
    """Return the JSON in `text`, from the first line with a brace to the last brace.

    Raises ParseError where it is not a document of the tool, is truncated, or is several of them.
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
