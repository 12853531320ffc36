"""Preparation of a text before its tool is recognised: one kind of line end, no colour codes, no prefixes of a log.

Logs put something before each line: docker compose the name of a service, kubectl the time and the container, CI
systems and journald the time. A known prefix is removed from the lines that have it, where most have one: banners of
the log, and headings of the author, have none. Any other text with which most lines begin is a prefix only where it
hides the marks of a tool (`prepare_further`): rows of figures begin alike too. A note names what was removed.
"""

from __future__ import annotations

import html
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from benchkit.loadtools.text import ESCAPES, excerpt, split_lines
from benchkit.models.load_result import Note
from benchkit.units import counted

MIN_SHARE = 0.6
"""Least share of the lines that have a prefix: headings of the author stand between the lines of a log."""
MIN_LINES = 3
"""Least number of lines from which a prefix is told from a figure."""
MAX_LAYERS = 4
"""Most prefixes that are removed from one line: the time within a line of docker compose, and so on."""

_DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}[T ]"
_TIME = r"[0-9]{2}:[0-9]{2}:[0-9]{2}(?:[.,][0-9]{1,9})?"
_ZONE = r"(?:Z|[+-][0-9]{2}:?[0-9]{2})?"
_STAMP = rf"{_DATE}{_TIME}{_ZONE}"
_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|info|debug|warn|error)"
_END = r"(?:[ \t]|$)"


class _Prefix(NamedTuple):
    """A kind of prefix, and the least share of lines that must have it."""

    name: str
    pattern: re.Pattern[str]
    share: float = MIN_SHARE
    is_block: bool = False
    """True for one that must be on each line from the first that has it to the last."""


_PREFIXES = (
    _Prefix("docker compose", re.compile(r"[\w.-]{1,80} *\|(?: |$)")),
    _Prefix("GitHub Actions", re.compile(rf"(?:[^\t]{{1,200}}\t){{2}}{_STAMP}{_END}")),
    _Prefix("kubectl", re.compile(r"\[pod/[\w.-]{1,253}/[\w.-]{1,63}\](?: |$)")),
    _Prefix(
        "journald", re.compile(rf"(?:[A-Z][a-z]{{2}} [ 0-9][0-9] {_TIME}|{_STAMP}) \S{{1,80}} [^\s:]{{1,80}}:(?: |$)")
    ),
    _Prefix(
        "time", re.compile(rf"(?:{_STAMP}|{_TIME})(?:{_END}(?:(?:[0-9]{{2}}[OE]|std(?:out|err) [FP])(?:[ +]|$))?)")
    ),
    _Prefix("time", re.compile(rf"\[[^\]]{{0,40}}{_TIME}[^\]]{{0,40}}\](?:[ \t]{{1,4}}{_LEVEL}\b)?:?(?: |$)")),
    _Prefix("level", re.compile(rf"\[?{_LEVEL}\]?:?(?:[ \t]|$)")),
    _Prefix("name", re.compile(r"\[[\w.@/:-]{1,80}\](?: |$)"), share=1),
    _Prefix("quotation", re.compile(r"[ \t]{0,3}(?:>|\||#|//|\*)(?=[ \t]|$) ?"), is_block=True),
)
_COMMAND = re.compile(r"##\[\w+\].*")
"""Line of GitHub Actions and Azure Pipelines between those of a step."""
_TAG = re.compile(r"</?(?:span|pre|code|samp|div|p|br|b|i|em|strong|font)\b[^<>\n]{0,200}>", re.IGNORECASE)
_ESCAPED_LINE_END = re.compile(r'(?:\\r)?\\n|(?<=":)[ \t]*"')
"""Line end within a string of JSON, and the beginning of one: its first line stands alone then."""
_QUOTED_LINE = re.compile(r'^[ \t]*"([^"\n]*)",?[ \t]*$', re.MULTILINE)
"""Line that is an item of a list in JSON, as Ansible prints outputs."""
_BOUNDARY = re.compile(r"[ \t:|>\]}-]")
_LONGEST_PREFIX = 120
_TABLE_HEADING = re.compile(r'"?[A-Za-z][\w %/."-]{0,80},[^\n]')
_MOST_HEADING_LINES = 20
_FIRST_WORD = re.compile(r"[a-z][\w.-]{0,80} ")
_MIN_SHARE_OF_WORD = 0.9


class PreparedText(NamedTuple):
    """A text that formats read, and notes on what was removed from it."""

    text: str
    notes: tuple[Note, ...]


def prepare(text: str) -> PreparedText:
    """Return `text` without colour codes and prefixes of a log; the lines end with a line feed."""
    notes = []
    if ESCAPES.search(text):
        notes.append(Note(code="colours-removed", message="colour codes of a terminal were removed"))
    lines = textwrap.dedent("\n".join(split_lines(text))).split("\n")
    has_time = False
    for _ in range(MAX_LAYERS):
        prefix = _common_prefix(lines, has_time=has_time)
        if prefix is None:
            break
        has_time = has_time or prefix.name in {"time", "GitHub Actions"}
        lines, note = _without(prefix, lines)
        notes.append(note)
    if has_time:
        lines = ["" if _COMMAND.fullmatch(line) else line for line in lines]
    return PreparedText("\n".join(lines), tuple(notes))


def without_markup(prepared: PreparedText) -> PreparedText | None:
    """Return a text without tags of HTML, and the lines of strings in JSON; None where it has neither."""
    plain = html.unescape(_TAG.sub("", prepared.text)) if _TAG.search(prepared.text) else prepared.text
    if "\\n" in plain:
        plain = _ESCAPED_LINE_END.sub("\n", plain)
    plain = _QUOTED_LINE.sub(r"\1", plain)
    if plain == prepared.text:
        return None
    note = Note(code="markup-removed", message="tags of HTML, or escapes of a string in JSON, were removed")
    return PreparedText("\n".join(split_lines(plain)), (*prepared.notes, note))


def prepare_further(prepared: PreparedText) -> PreparedText | None:
    """Return a text without what most of its lines begin with, numbers in it apart; None where they begin with nothing.

    It may be any prefix, such as that of a container's name. In a text of few lines it must be a known one.
    """
    lines = prepared.text.split("\n")
    filled = [line for line in lines if line.strip()]
    prefix = next((each for each in _PREFIXES if any(map(each.pattern.match, filled))), None)
    if len(filled) >= MIN_LINES:
        starts = Counter(start for line in filled for start in _starts_of(line))
        most = max(starts.values(), default=0)
        common = [
            start for start, number in starts.items() if number == most >= max(MIN_LINES, MIN_SHARE * len(filled))
        ]
        longest = max(common, key=len, default=None)
        prefix = None if longest is None else _Prefix("a common beginning", _pattern_of(longest))
    if prefix is None:
        return None
    stripped, note = _without(prefix, lines)
    return PreparedText("\n".join(stripped), (*prepared.notes, note))


def tables_within(prepared: PreparedText) -> Iterator[PreparedText]:
    """Yield what follows each of the first lines of a text, where that begins with names separated by commas.

    Harnesses and shells print lines of their own above a table, whose heading has to be the first line.
    """
    rest, above_it = prepared.text, set[str]()
    for number in range(1, _MOST_HEADING_LINES + 1):
        line, line_end, rest = rest.partition("\n")
        above_it.add(line)
        if not line_end:
            return
        if _TABLE_HEADING.match(rest) and rest.partition("\n")[0] not in above_it:  # else a second run
            above = counted(number, "line")
            note = Note(
                code="heading-removed", message=f"{above} above the table {'was' if number == 1 else 'were'} removed"
            )
            yield PreparedText(rest, (*prepared.notes, note))


def _starts_of(line: str) -> Iterator[str]:
    """Yield what a line may begin with, each number in it as a zero."""
    head = re.sub("[0-9]+", "0", line[:_LONGEST_PREFIX])
    yield from (head[: match.end()] for match in _BOUNDARY.finditer(head))


def _pattern_of(start: str) -> re.Pattern[str]:
    exact = re.escape(start.rstrip()).replace("0", "[0-9]+")
    blanks = re.escape(start[len(start.rstrip()) :])
    return re.compile(rf"{exact}(?:{blanks}|\s*$)")


def _without(prefix: _Prefix, lines: list[str]) -> tuple[list[str], Note]:
    first = next(match[0] for line in lines if (match := prefix.pattern.match(line)))
    message = f"a prefix of each line ({prefix.name}) was removed: {excerpt(first)!r}"
    return [prefix.pattern.sub("", line, count=1) for line in lines], Note(code="prefix-removed", message=message)


def _common_prefix(lines: list[str], *, has_time: bool) -> _Prefix | None:
    """Return the first kind of prefix that enough lines have; None without any.

    A plain word, such as a container's name, is a prefix only behind a time.
    """
    filled = [line for line in lines if line.strip()]
    if len(filled) < MIN_LINES:
        return None
    for prefix in _PREFIXES:
        having = [position for position, line in enumerate(filled) if prefix.pattern.match(line)]
        is_block = bool(having) and having[-1] - having[0] + 1 == len(having)
        if having and len(having) >= prefix.share * len(filled) and (is_block or not prefix.is_block):
            return prefix
    if not has_time:
        return None
    words = Counter(match[0] for line in filled if (match := _FIRST_WORD.match(line)))
    word, number = words.most_common(1)[0] if words else ("", 0)
    return _Prefix("name", re.compile(re.escape(word))) if number >= _MIN_SHARE_OF_WORD * len(filled) else None
