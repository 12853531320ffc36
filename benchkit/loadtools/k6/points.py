"""Parser of the points of k6 (`--out json`, `--out csv`): a line for each value of each metric.

A request has a point in `http_reqs`, `http_req_duration` (milliseconds) and `http_req_failed` (1: it failed). Their
time is when it ended, in CSV whole seconds, unless asked for otherwise. Its status is a tag, "0" or none without an
answer. The run is taken to last from the first request's start to the end of the last one. An unfinished line makes the
run incomplete; a line of another program does not.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from pydantic import ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput
from benchkit.loadtools.text import (
    Figure,
    count_non_2xx,
    csv_rows,
    latency_of,
    no_end_mark,
    parse_number,
    several_runs,
    unread_notes,
)
from benchkit.models.load_result import LoadResult, Note

_POINT = re.compile(
    r'^\s*\{"(?:metric"\s*:\s*"[\w.-]+",\s*"type"\s*:\s*"(?:Point|Metric)"|type"\s*:\s*"(?:Point|Metric)",\s*"data")',
    re.MULTILINE,
)
_HEADING = re.compile(r"^metric_name,timestamp,metric_value,.*", re.MULTILINE)
_ROW = re.compile(r"\w+,[0-9]")
_SECONDS_DIGITS = 10
"""Digits of a time in seconds; one in milliseconds has three more."""


def is_points(text: str) -> bool:
    """Return whether the text has lines of points."""
    return _POINT.search(text) is not None or _HEADING.search(text) is not None


class _Tags(JsonOutput):
    status: str | None = None


class _Data(JsonOutput):
    time: str
    value: Figure
    tags: _Tags | None = None


class _Point(JsonOutput):
    metric: str
    data: _Data


class _Points:
    def __init__(self) -> None:
        self.times: list[int] = []
        self.statuses: Counter[str] = Counter()
        self.sums: Counter[str] = Counter()
        self.users = 0
        self.begun_s, self.ended_s = float("inf"), 0.0
        self.unread: list[str] = []

    def add(self, metric: str, at_s: float, value: float, status: str | None) -> None:
        """Add a point, at a time in seconds."""
        self.sums[metric] += int(value)
        if metric == "vus":
            self.users = max(self.users, int(value))
        elif metric == "http_reqs":
            self.statuses[status or "0"] += 1
        elif metric == "http_req_duration":
            self.times.append(round(value * 1e6))
            self.begun_s, self.ended_s = min(self.begun_s, at_s - value / 1000), max(self.ended_s, at_s)

    def result(self, *, complete: bool, notes: Sequence[Note] = ()) -> LoadResult:
        """Return the result of the requests. Raises ParseError without one."""
        requests = self.statuses.total()
        if not requests or not self.times:
            hint = "were they made by a script with k6/http?"
            raise ParseError("these points of k6 have no requests of HTTP", hint=hint)
        del self.statuses["0"]
        duration_s = self.ended_s - self.begun_s
        return LoadResult(
            tool="k6",
            duration_s=duration_s,
            requests=requests,
            rps=requests / duration_s if duration_s > 0 else None,
            users=self.users or None,
            bytes_total=self.sums["data_received"] or None,
            latency=latency_of(self.times, 1e-9).model_copy(update={"covers": "request"}),
            status=dict(sorted(self.statuses.items())),
            non_2xx=count_non_2xx(self.statuses),
            failed=self.sums["http_req_failed"],
            dropped=self.sums["dropped_iterations"] or None,
            complete=complete,
            notes=(
                Note(
                    code="k6-points", message="the points are of single requests: benchkit counts and sorts them itself"
                ),
                no_end_mark("a file of points"),
                *notes,
                *unread_notes(self.unread),
            ),
        )


def read_points(text: str) -> LoadResult:
    """Return the result of a file of points. Raises ParseError without a request, and for the files of two runs."""
    heading = _HEADING.search(text)
    return _read_json_lines(text) if heading is None else _read_csv(heading[0], text[heading.end() :])


def _read_json_lines(text: str) -> LoadResult:
    points, seen = _Points(), set[str]()
    for line in filter(str.strip, text.split("\n")):
        if '"type":"Metric"' in line.replace(" ", "")[:200]:
            if line in seen:
                raise several_runs("k6", line)
            seen.add(line)
            continue
        try:
            point = _Point.model_validate_json(line)
            at_s = datetime.fromisoformat(point.data.time).timestamp()
        except (ValidationError, ValueError):
            points.unread.append(line)
            continue
        points.add(point.metric, at_s, point.data.value, point.data.tags.status if point.data.tags else None)
    return points.result(complete=not any(line.lstrip().startswith("{") for line in points.unread))


def _read_csv(heading: str, text: str) -> LoadResult:
    """Return the result of the rows below a heading."""
    points, names = _Points(), heading.split(",")
    is_exact = True
    for line in filter(str.strip, text.split("\n")):
        if line == heading:
            raise several_runs("k6", line)
        row = next(csv_rows([line]))
        figures = dict(zip(names, row, strict=False))
        at_s, value = _seconds(figures.get("timestamp", "")), parse_number(figures.get("metric_value"))
        if len(row) != len(names) or at_s is None or value is None:
            points.unread.append(line)
            continue
        is_exact = is_exact and len(figures["timestamp"]) != _SECONDS_DIGITS
        points.add(figures["metric_name"], at_s, value, figures.get("status"))
    rounded = Note(code="whole-seconds", message="the times of the points are rounded down to whole seconds")
    complete = not any(_ROW.match(line) for line in points.unread)
    return points.result(complete=complete, notes=() if is_exact else (rounded,))


def _seconds(text: str) -> float | None:
    """Return a time in seconds, as K6_CSV_TIME_FORMAT asks for it; None for any other text."""
    if text.isdecimal() and len(text) >= _SECONDS_DIGITS:
        return int(text) / 10.0 ** (len(text) - _SECONDS_DIGITS)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None
