"""Preparation of a text before its tool is recognised: one kind of line end, no colour codes, no prefixes of a log.

Logs put something before each line: docker compose the name of a service, kubectl the time and the container, CI
systems and journald the time. A prefix is removed from the lines that have it, where nearly all have one, and a note
says so.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

from benchkit.loadtools.text import ESCAPES, excerpt, split_lines
from benchkit.models.load_result import Note

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
    _Prefix("quotation", re.compile(r"[ \t]{0,3}(?:>|\||#|//|\*)(?=[ \t]|$) ?"), share=1),
)
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
    lines = split_lines(text)
    has_time = False
    for _ in range(MAX_LAYERS):
        prefix = _common_prefix(lines, has_time=has_time)
        if prefix is None:
            break
        has_time = has_time or prefix.name in {"time", "GitHub Actions"}
        first = next(match[0] for line in lines if (match := prefix.pattern.match(line)))
        lines = [prefix.pattern.sub("", line, count=1) for line in lines]
        notes.append(
            Note(
                code="prefix-removed", message=f"a prefix of each line ({prefix.name}) was removed: {excerpt(first)!r}"
            )
        )
    return PreparedText("\n".join(lines), tuple(notes))


def _common_prefix(lines: list[str], *, has_time: bool) -> _Prefix | None:
    """Return the first kind of prefix that enough lines have; None without any.

    A plain word, such as a container's name, is a prefix only behind a time.
    """
    filled = [line for line in lines if line.strip()]
    if len(filled) < MIN_LINES:
        return None
    for prefix in _PREFIXES:
        if sum(1 for line in filled if prefix.pattern.match(line)) >= prefix.share * len(filled):
            return prefix
    if not has_time:
        return None
    words = Counter(match[0] for line in filled if (match := _FIRST_WORD.match(line)))
    word, number = words.most_common(1)[0] if words else ("", 0)
    return _Prefix("name", re.compile(re.escape(word))) if number >= _MIN_SHARE_OF_WORD * len(filled) else None
