"""What the parsers share: bytes to lines, and figures read strictly or not at all.

A figure is read only when the whole token is one: `12.3`, never `12,3`, `1e9`, `nan` or `12.3x`. A doubtful token
gives `None`, so that a damaged output loses a value and never gains a wrong one.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import ClassVar

from benchkit.errors import ParseError
from benchkit.models.load_result import Note

MAX_LINE = 4096
"""No line that states a figure is near as long."""
QUOTED = " \t>|*#"
"""Indentation, and what quotes an output in a document."""
MAX_NOTES = 5
"""Unread lines that are named one by one."""
MAX_SHOWN = 100
"""Characters of foreign text in a message."""

_BOMS = (  # the longer ones first: UTF-32's little-endian mark begins with UTF-16's
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\^_])")
_LINE_ENDS = re.compile(r"\r\n|[\n\r\v\f\x85\u2028\u2029]")
_BLANKS = str.maketrans({"\u00a0": " ", "\u202f": " ", "\u2009": " ", "\u200b": None, "\ufeff": None, "\x00": None})
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?")
_COUNT = re.compile(r"[0-9]{1,18}")
_SCALED = re.compile(r"([0-9]{1,18}(?:\.([0-9]{1,18}))?)([^0-9\s.,]{0,3})")

SECONDS: Mapping[str, float] = {
    "us": 1e-6,
    "\u00b5s": 1e-6,  # micro sign
    "\u03bcs": 1e-6,  # Greek mu
    "?s": 1e-6,  # a micro sign lost in encoding: no other unit of time has a letter outside ASCII
    "\ufffds": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "m": 60.0,
    "h": 3600.0,
}
"""Seconds in a unit of time, as wrk and its like abbreviate them."""


def decode(data: bytes) -> str:
    """Text of a tool's output as found in a file: UTF-8, or what its byte order mark says (PowerShell writes UTF-16).

    Bytes that are no text become U+FFFD, which no figure contains.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, errors="replace")
    head = data[:200]
    if head.count(0) > len(head) // 4:  # UTF-16 without a mark: every other byte of ASCII is zero
        return data.decode("utf-16-be" if head[:1] == b"\x00" else "utf-16-le", errors="replace")
    return data.decode("utf-8", errors="replace")


def lines_of(text: str) -> list[str]:
    """The lines of `text` without terminal escapes; blanks of every kind are spaces, a carriage return ends a line.

    The last item is what follows the last line end: empty where the text is whole, else a line that may be cut.
    """
    if "\x1b" in text:
        text = _ESCAPES.sub("", text)
    return _LINE_ENDS.split(text.translate(_BLANKS))


def number(token: str | None) -> float | None:
    """A plain decimal number, finite and not negative; `None` for anything else."""
    return float(token) if token is not None and _NUMBER.fullmatch(token) else None


def count(token: str | None) -> int | None:
    """A whole number below 10^18; `None` for anything else."""
    return int(token) if token is not None and _COUNT.fullmatch(token) else None


def unless_zero(value: float | None, *, void: bool) -> float | None:
    """The value, but `None` for the 0 that a tool prints where it measured nothing (`void`)."""
    return None if void and value == 0 else value


def scaled(token: str | None, units: Mapping[str, float]) -> tuple[float, float] | None:
    """(value, step) of a number with its unit (`1.21s`, `17.76GB`) in the base unit, or `None`.

    The step is what one more in the last digit would add: 0.01 s for `1.21s`.
    """
    match = _SCALED.fullmatch(token) if token is not None else None
    if match is None or match[3] not in units:
        return None
    unit = units[match[3]]
    # Fifteen digits are more than any tool prints, and leave out the noise of binary fractions (64.69 * 1024).
    value = float(match[1]) * unit
    return float(f"{value:.15g}"), unit * math.pow(10, -len(match[2] or ""))


class Findings:
    """What one pass over a tool's lines found: fields of the tool's model, and lines with a figure that is none."""

    def __init__(self, tool: str) -> None:
        """Start with nothing found of `tool`."""
        self.tool = tool
        self.values: dict[str, object] = {}
        self.unread: list[str] = []

    def once(self, line: str, **values: object) -> None:
        """Keep what stands once in a run; `None` is a figure that could not be read.

        Raises ParseError where one of the names was found before: figures of two runs are never mixed.
        """
        if self.values.keys() & values.keys():
            raise several_runs(self.tool, line)
        if None in values.values():
            self.unread.append(line)
        self.values.update(values)


Action = Callable[[re.Match[str]], None]
Rules = Sequence[tuple[re.Pattern[str], Action]]
"""What a line may be, and what to do with it; the first pattern that matches the whole line takes it."""


class Reader:
    """One pass over the lines of a tool's output; a tool's reader adds its `rules`."""

    tool: ClassVar[str]

    def __init__(self) -> None:
        """Start with nothing found."""
        self.found = Findings(self.tool)
        self.cut = False
        """Whether no line end follows the line at hand, so that its last figure may lack digits."""

        self.headless = False
        """Whether the text begins with the line at hand, and that with a digit: its first figure may lack digits."""

    @property
    def rules(self) -> Rules:
        """The rules for the next line."""
        raise NotImplementedError

    def scan(self, text: str) -> list[str]:
        """Take every line of `text` by the rules, and give the lines back."""
        lines = lines_of(text)
        last = len(lines) - 1
        for position, raw in enumerate(lines):
            self.cut = position == last
            self.headless = position == 0 and raw[:1].isdigit()
            line = raw.strip(QUOTED)
            if line and len(line) <= MAX_LINE:
                self.take(line)
        return lines

    def take(self, line: str) -> None:
        """Take one line, stripped of blanks and quoting."""
        for pattern, action in self.rules:
            if match := pattern.fullmatch(line):
                action(match)
                return

    def doubtful(self, line: str) -> bool:
        """Whether a figure at the end of `line` may go on: the text ends in its digits."""
        return self.cut and line[-1:].isdigit()

    def damaged(self, match: re.Match[str]) -> None:
        """Note a line that is the tool's and could not be read."""
        self.found.unread.append(match[0])


def unread_notes(unread: Sequence[str]) -> Iterator[Note]:
    """A note for each line of a tool's output that could not be read, up to a handful."""
    for line in unread[:MAX_NOTES]:
        yield Note(code="unread", message=f"could not be read: {shown(line)}")
    if len(unread) > MAX_NOTES:
        yield Note(code="unread", message=f"could not be read: {len(unread) - MAX_NOTES} lines more")


def shown(line: str) -> str:
    """A line of foreign text, made fit for a message: short, and nothing that a terminal would obey."""
    line = " ".join(line.split())
    line = line if len(line) <= MAX_SHOWN else line[: MAX_SHOWN - 3] + "..."
    return "".join(c if c.isprintable() else "\ufffd" for c in line)


def not_output_of(tool: str, lines: list[str]) -> ParseError:
    """The error for text that is no output of `tool`, naming its first words."""
    first = next((line for line in lines if line.strip()), None)
    if first is None:
        return ParseError("the output is empty", where=tool, hint="did the tool run, and was its output redirected?")
    return ParseError(
        f"this is no output of {tool}", why=f"it begins with {shown(first)!r}", hint="name the tool that wrote it"
    )


def several_runs(tool: str, line: str) -> ParseError:
    """The error for text in which a line of the tool that stands once in a run stands again."""
    return ParseError(
        f"more than one run of {tool} in one text",
        why=f"this stands in it more than once: {shown(line)!r}",
        hint="parse each run by itself; figures of two runs are never mixed",
    )
