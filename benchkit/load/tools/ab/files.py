"""The files that ab writes beside its summary: percentages (`-e`) and every request (`-g`)."""

from __future__ import annotations

import re

from benchkit.errors import ParseError
from benchkit.load.tools.samples import latency_of
from benchkit.load.tools.text import count, lines_of, unread_notes
from benchkit.models.load_result import Latency, LoadResult

_PERCENTAGES = "Percentage served,Time in ms"
_REQUESTS = re.compile(r"starttime\s+seconds\s+ctime\s+dtime\s+ttime\s+wait")
_PERCENTAGE = re.compile(r"([0-9]{1,3}),([0-9]{1,15}(?:\.[0-9]{1,9})?(?:e[+-][0-9]{2})?)")
_LAST = (99, 100)
"""The last row of `-e`: version 2.0 and 2.2 stop at 99."""
_TTIME = 4
"""The column of `-g` with the whole time of a request."""
_COLUMNS = 6


def parse_file(text: str) -> LoadResult | None:
    """The result that stands in a file of ab's `-e` or `-g`; None for any other text. Raises ParseError for two."""
    lines = lines_of(text)
    first = next((line.strip() for line in lines if line.strip()), "")
    if first == _PERCENTAGES:
        return _percentages(lines)
    return _requests(lines) if _REQUESTS.fullmatch(first) else None


def _percentages(lines: list[str]) -> LoadResult:
    """Rows `percentage,milliseconds`; row 0 is the shortest request, row 100 the longest."""
    times: dict[int, float] = {}
    unread: list[str] = []
    step = 1.0
    for position, line in enumerate(lines):
        row = line.strip()
        if row in {"", _PERCENTAGES}:
            continue
        match = _PERCENTAGE.fullmatch(row)
        if match is None or position == len(lines) - 1:  # a row that no line end follows may lack digits
            unread.append(row)
            continue
        if int(match[1]) in times:
            raise ParseError("two files of ab -e in one text", hint="parse each by itself")
        times[int(match[1])] = float(f"{float(match[2]) / 1000:.15g}")
        step = min(step, 10.0 ** -len(match[2].partition(".")[2].partition("e")[0]))
    if not times:
        raise ParseError("no row in this file of ab -e", hint="the run ended before ab wrote it")
    return LoadResult(
        tool="ab",
        latency=Latency(
            min_s=times.get(0),
            max_s=times.get(100),
            percentiles={str(p): time for p, time in sorted(times.items()) if 0 < p <= _LAST[1]},
            resolution_s=step / 1000,
            covers="connect+request",
            corrected=False,
        ),
        complete=not unread and max(times) in _LAST and len(times) == max(times) + 1,
        notes=tuple(unread_notes(unread)),
    )


def _requests(lines: list[str]) -> LoadResult:
    """One row a request; times are whole milliseconds."""
    times: list[int] = []
    unread: list[str] = []
    headings = 0
    for position, line in enumerate(lines):
        cells = line.strip().split("\t")
        if cells == [""]:
            continue
        if _REQUESTS.fullmatch(line.strip()):
            headings += 1
            continue
        time = count(cells[_TTIME]) if len(cells) == _COLUMNS else None
        if time is None or count(cells[-1]) is None:
            unread.append(line)
        else:
            times.append(time)
            if position == len(lines) - 1:
                unread.append(line)  # its last column, which is not used, may lack digits
    if headings > 1:
        raise ParseError("two files of ab -g in one text", hint="parse each by itself")
    return LoadResult(
        tool="ab",
        requests=len(times),
        latency=latency_of(times, 1e-3, resolution_s=1e-3),
        complete=not unread,
        notes=tuple(unread_notes(unread)),
    )
