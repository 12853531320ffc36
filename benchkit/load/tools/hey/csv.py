"""hey's and boom's `-o csv`: a row for every request that was answered, up to a million."""

from __future__ import annotations

import re
from collections import Counter

from benchkit.errors import ParseError
from benchkit.load.tools.samples import latency_of
from benchkit.load.tools.text import lines_of, unread_notes
from benchkit.models.load_result import LoadResult, Note

MAX_RESULTS = 1_000_000
"""`maxRes` in requester/report.go."""
_HEADING = re.compile(
    r"response-time(,DNS\+dialup,DNS,Request-write,Response-delay,Response-read)?(,status-code)?(,offset)?"
)
_TIME = r"[0-9]{1,9}\.[0-9]{4}"
_BOOM = re.compile(r"([0-9]{1,9}),([0-9]{1,9})\.([0-9]{4})")
"""A row of boom, which prints no heading: its number from 1, and its time."""


def parse_csv(text: str) -> LoadResult | None:
    """The result that stands in a CSV of hey or boom; None for any other text. Raises ParseError for two in one text."""
    lines = lines_of(text)
    start = next((i for i, line in enumerate(lines) if line.strip()), len(lines))
    first = lines[start].strip() if start < len(lines) else ""
    if heading := _HEADING.fullmatch(first):
        phases, status, offset = heading.groups()
        row = re.compile(
            rf"([0-9]{{1,9}})\.([0-9]{{4}})(?:,{_TIME}){{{5 if phases else 0}}}"
            + (",([0-9]{3})" if status else "()")
            + (f",{_TIME}" if offset else "")
        )
        return _rows(lines[start + 1 :], row)
    boom = _BOOM.fullmatch(first)
    return _numbered(lines[start:]) if boom and boom[1] == "1" else None


def _rows(lines: list[str], row: re.Pattern[str]) -> LoadResult:
    """Rows below hey's heading."""
    times: list[int] = []
    statuses: Counter[str] = Counter()
    unread: list[str] = []
    for line in lines:
        if match := row.fullmatch(line.strip()):
            times.append(int(match[1] + match[2]))  # in steps of 0.1 ms
            statuses[match[3]] += 1
        elif _HEADING.fullmatch(line.strip()):
            raise ParseError("two CSV files of hey in one text", hint="parse each by itself")
        elif line.strip():
            unread.append(line)
    del statuses[""]
    return _result(times, statuses, unread)


def _numbered(lines: list[str]) -> LoadResult:
    """Rows of boom."""
    times: list[int] = []
    unread: list[str] = []
    for line in lines:
        match = _BOOM.fullmatch(line.strip())
        if match and int(match[1]) == len(times) + 1:
            times.append(int(match[2] + match[3]))
        elif match and match[1] == "1":
            raise ParseError("two CSV files of boom in one text", hint="parse each by itself")
        elif line.strip():
            unread.append(line)
    return _result(times, Counter(), unread)


def _result(times: list[int], statuses: Counter[str], unread: list[str]) -> LoadResult:
    """What the rows tell: `times` in steps of 0.1 ms, and how often each status was met."""
    capped = len(times) >= MAX_RESULTS
    notes = [Note(code="hey-csv", message="a row is an answer: failures are not in it, nor the time the run took")]
    if capped:
        notes.append(Note(code="hey-cap", message=f"hey keeps {MAX_RESULTS:,} results: there may have been more"))
    return LoadResult(
        tool="hey",
        requests=None if capped else len(times),
        latency=latency_of(times, 1e-4, resolution_s=1e-4),
        status=dict(sorted(statuses.items())),
        non_2xx=sum(n for code, n in statuses.items() if code[0] != "2") if statuses and not capped else None,
        complete=bool(times) and not unread,
        notes=(*notes, *unread_notes(unread)),
    )
