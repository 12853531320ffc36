"""Preparation of a text before its tool is recognised: one kind of line end, no colour codes, no prefixes of a log.

Web pages put a text between tags, write `&gt;` for `>`, set lines in bold or number them.

Logs put something before each line: docker compose the name of a service, kubectl the time and the container, CI
systems and journald the time. A known prefix is removed from the lines that have it, where most lines do. Banners of
the log, and headings of the author, have none. Any other text with which most lines begin is a prefix only where it
hides the marks of a tool (`prepare_further`). Rows of figures begin alike too. A note names what was removed.
"""

from __future__ import annotations

import html
import json
import re
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
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
    """True for a prefix that must be on every line between the first and the last that have it."""


_PREFIXES = (
    _Prefix("docker compose", re.compile(r"[\w.-]{1,80} *\|(?: |$)")),
    _Prefix("GitHub Actions", re.compile(rf"(?:[^\t]{{1,200}}\t){{2}}{_STAMP}{_END}")),
    _Prefix("kubectl", re.compile(r"\[pod/[\w.-]{1,253}/[\w.-]{1,63}\](?: |$)")),
    _Prefix(
        "journald",
        re.compile(rf"(?:[A-Z][a-z]{{2}} [ 0-9][0-9] {_TIME}|{_STAMP}) \S{{1,80}} (?!\S*\.\.)[^\s:]{{1,80}}:(?: |$)"),
    ),
    _Prefix(
        "time", re.compile(rf"(?:{_STAMP}|{_TIME})(?:{_END}(?:(?:[0-9]{{2}}[OE]|std(?:out|err) [FP])(?:[ +]|$))?)")
    ),
    _Prefix("time", re.compile(rf"\[[^\]]{{0,40}}{_TIME}[^\]]{{0,40}}\](?:[ \t]{{1,4}}{_LEVEL}\b)?:?(?: |$)")),
    _Prefix("level", re.compile(rf"\[?{_LEVEL}\]?:?(?:[ \t]|$)")),
    _Prefix("name", re.compile(r"\[[\w.@/:-]{1,80}\](?: |$)"), share=1),
    _Prefix("added lines of a diff", re.compile(r"\+(?!\+\+ )"), is_block=True),
    _Prefix("quotation", re.compile(r"[ \t]{0,3}(?:>|\||#|//|\*)(?=[ \t]|$) ?"), is_block=True),
)
_COMMAND = re.compile(r"##\[\w+\].*")
"""Line that GitHub Actions and Azure Pipelines write between the lines of a step."""
_ESCAPED_LINE_END = re.compile(r'(?:\\r)?\\n|(?<=":)[ \t]*"|(?<!\\)"(?=[ \t]*[,}\]])')
"""Line end within a string of JSON, and the string's beginning and end: its first and last lines stand alone then."""
_QUOTED_LINE = re.compile(r'^[ \t]*"([^"\n]*)",?[ \t]*$', re.MULTILINE)
"""Line that is an item of a list in JSON, as Ansible prints outputs."""
_BOUNDARY = re.compile(r"[ \t:|>\]}-]")
_LONGEST_PREFIX = 120
_TABLE_HEADING = re.compile(r'([ \t]*)"?[A-Za-z][\w %/."-]{0,80}[,;\t][^\s]')
_MOST_HEADING_LINES = 20
_TABLE_END = re.compile(r"^[ \t]*(?:```|~~~|\[?[\w.-]+@[\w.-]+[^\n$#]{0,80}[$#](?: |$)|\$(?: |$))", re.MULTILINE)
"""The line after a table: the end of a block of code, a prompt."""
_EMPHASIS = re.compile(r"(?<![^\s|(])\*\*(?=[^\s*])([^*\n]{1,200})(?<=\S)\*\*(?![^\s|),.:;])")
"""Bold text of Markdown; not the `**` of a path."""
_CHARACTERS = "\u00b5\u03bc\u2502\u2503\u2500\u2713\u2717\u2588\u25a0"
"""Signs in outputs whose bytes of UTF-8 are often decoded by a code page."""
_CODE_PAGES = ("cp1252", "cp850", "cp437", "latin-1")
_DOCKER_LOG = re.compile(r'\s*\{"log": ?"')
_PLAIN = r"(?:<[^<>\n]*>|[^<\"\n])*"
"""Part of a line that is in no string of JSON."""
_OPENING = re.compile(rf"^({_PLAIN})<pre\b[^>]*>(?:\s*<code\b[^>]*>)?", re.IGNORECASE | re.MULTILINE)
_CLOSING = re.compile(rf"(?:</code>\s*)?</pre>(?={_PLAIN}$)", re.IGNORECASE | re.MULTILINE)
_SPAN = re.compile(r"^[ \t]*<span\b", re.MULTILINE)
_INLINE_TAGS = re.compile(r"</?(?:span|b|strong|em)\b[^>]*>", re.IGNORECASE)
_BREAK = re.compile(r"<br[ \t]*/?>[ \t]*$", re.IGNORECASE | re.MULTILINE)
_ENTITIES = re.compile(r"&(?:lt|gt|nbsp|apos|#x27|#[0-9]{2,3});")
_XML = re.compile(r"<\?xml|<testResults|<(?:httpSample|sample) ")
_LINE_NUMBER = re.compile(r"[ \t]{0,8}([0-9]{1,5})(?:[.:|)]?[ \t]{1,2}|[.:|)]?$)")
_MIN_NUMBERED = 5
_FIRST_WORD = re.compile(r"[a-z][\w.-]{0,80} ")
_MIN_SHARE_OF_WORD = 0.9


class PreparedText(NamedTuple):
    """A text that formats read, and notes on what was removed from it."""

    text: str
    notes: tuple[Note, ...]


def prepare(text: str) -> PreparedText:
    """Return `text` without colour codes, marks of bold text, and prefixes of a log; the lines end with a line feed."""
    notes = []
    if ESCAPES.search(text):
        notes.append(Note(code="colours-removed", message="colour codes of a terminal were removed"))
    plain = "\n".join(split_lines(text))
    for step, (code, message) in _MARKUP.items():
        bare = step(plain)
        if bare != plain:
            plain = bare
            notes.append(Note(code=code, message=message))
    lines = textwrap.dedent(plain).split("\n")
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


def lines_of_strings(prepared: PreparedText) -> PreparedText | None:
    """Return a text with the lines of its strings in JSON as lines of their own; None where it has none."""
    plain = _ESCAPED_LINE_END.sub("\n", prepared.text) if "\\n" in prepared.text else prepared.text
    plain = _QUOTED_LINE.sub(r"\1", plain)
    if plain == prepared.text:
        return None
    note = Note(code="strings-read", message="the lines within strings of JSON were read")
    return PreparedText("\n".join(split_lines(plain)), (*prepared.notes, note))


def _misread(character: str, code_page: str) -> str:
    """Return a character as its bytes of UTF-8 look in a code page; a byte that the code page lacks stays."""
    return "".join(bytes([byte]).decode(code_page, "ignore") or chr(byte) for byte in character.encode())


_MISREAD = {_misread(each, code_page): each for each in _CHARACTERS for code_page in _CODE_PAGES}
_ANY_MISREAD = re.compile("|".join(map(re.escape, _MISREAD)))


def _with_characters(text: str) -> str:
    return text if text.isascii() else _ANY_MISREAD.sub(lambda match: _MISREAD[match[0]], text)


def _without_tags(text: str) -> str:
    """Return the text without `<br>`, its `<pre>` in lines of its own; a tag in a string of JSON stays."""
    if _XML.search(text):
        return text
    opened = _OPENING.sub("\\1\n", _BREAK.sub("", text))
    is_page = opened != text or _SPAN.search(text) is not None
    return _INLINE_TAGS.sub("", _CLOSING.sub("\n", opened)) if is_page else text


def _of_docker(text: str) -> str:
    """Return what a container wrote, from docker's log file: an object of JSON for each line."""
    if not _DOCKER_LOG.match(text):
        return text
    try:
        entries = [json.loads(line) for line in text.split("\n") if line.strip()]
        return "".join(entry["log"] for entry in entries)
    except (ValueError, KeyError, TypeError):
        return text


def _without_entities(text: str) -> str:
    """Return the characters that a page writes as entities; XML and strings of JSON have some of their own."""
    is_escaped = _ENTITIES.search(text) or ("&quot;" in text and '"' not in text)
    if not is_escaped or _XML.search(text):
        return text
    in_strings = text.replace("&quot;", "&amp;quot;") if '"' in text else text
    return html.unescape(in_strings).replace("\u00a0", " ")


def _without_emphasis(text: str) -> str:
    return _EMPHASIS.sub(r"\1", text) if "**" in text else text


def _without_line_numbers(text: str) -> str:
    """Return the lines without the numbers that a page or an editor puts before each, where none is missing."""
    lines = text.split("\n")
    found = [(position, _LINE_NUMBER.match(line)) for position, line in enumerate(lines) if line.strip()]
    starts = {int(match[1]) - position if match else None for position, match in found}
    if len(found) < _MIN_NUMBERED or len(starts) > 1 or None in starts:
        return text
    return "\n".join(_LINE_NUMBER.sub("", line, count=1) for line in lines)


_MARKUP: Mapping[Callable[[str], str], tuple[str, str]] = {
    _of_docker: ("docker-log-read", "the lines in docker's log file were read"),
    _with_characters: ("encoding-restored", "signs whose bytes were read in another encoding were restored"),
    _without_entities: ("entities-read", "characters that a web page writes as entities (&gt;) were restored"),
    _without_tags: ("tags-removed", "the tags of a web page were removed"),
    _without_emphasis: ("emphasis-removed", "the marks ** of bold text were removed"),
    _without_line_numbers: ("line-numbers-removed", "the numbers of the lines were removed"),
}
"""Additions of pages to a text, each with the code and the message of its note."""


def prepare_further(prepared: PreparedText) -> PreparedText | None:
    """Return a text without the prefix of most of its lines, in which numbers may differ; None where there is none.

    The prefix may be any text, such as a container's name. In a text of few lines it must be a known one.
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
    within = prepare("\n".join(stripped))  # a log in a log
    return PreparedText(within.text, (*prepared.notes, note, *within.notes))


def tables_within(prepared: PreparedText) -> Iterator[PreparedText]:
    """Yield the rest of a text from each of its first lines that looks like a table's heading: separated names.

    Harnesses and shells print lines of their own above a table, whose heading has to be the first line. In a document
    the table ends with its block of code.
    """
    rest, above_it = prepared.text, set[str]()
    for number in range(1, _MOST_HEADING_LINES + 1):
        line, line_end, rest = rest.partition("\n")
        above_it.add(line)
        if not line_end:
            return
        heading = rest.partition("\n")[0]
        indented = _TABLE_HEADING.match(rest)
        if not indented or heading in above_it:  # a second run
            continue
        table, *below = _TABLE_END.split(rest, maxsplit=1)
        if heading in "".join(below).split("\n"):  # a second run, which the tool's parser refuses
            table = rest
        table = re.sub(rf"^{indented[1]}", "", table, flags=re.MULTILINE)
        above = counted(number, "line")
        note = Note(
            code="heading-removed", message=f"{above} above the table {'was' if number == 1 else 'were'} removed"
        )
        yield PreparedText(table, (*prepared.notes, note))


def _starts_of(line: str) -> Iterator[str]:
    """Yield each prefix that a line may have, each number in it as a zero."""
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
