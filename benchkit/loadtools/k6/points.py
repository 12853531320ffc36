"""Parser of the points of k6 (`--out json`): a line for each value of each metric.

A request has a point in `http_reqs`, `http_req_duration` (milliseconds) and `http_req_failed` (1: it failed), whose
time is when it ended. Its status is a tag, "0" without an answer. The run is taken to last from the first request's
start to the end of the last one. An unfinished line makes it incomplete, one of another program does not.
"""

from __future__ import annotations

import re
from collections import Counter
from datetime import datetime

from pydantic import ValidationError

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput
from benchkit.loadtools.text import Figure, latency_of, no_end_mark, several_runs, unread_notes
from benchkit.models.load_result import LoadResult, Note

_POINT = re.compile(
    r'^\s*\{"(?:metric"\s*:\s*"[\w.-]+",\s*"type"\s*:\s*"(?:Point|Metric)"|type"\s*:\s*"(?:Point|Metric)",\s*"data")',
    re.MULTILINE,
)


def is_points(text: str) -> bool:
    """Return whether the text has lines of points."""
    return _POINT.search(text) is not None


class _Tags(JsonOutput):
    status: str | None = None


class _Data(JsonOutput):
    time: str
    value: Figure
    tags: _Tags | None = None


class _Point(JsonOutput):
    metric: str
    data: _Data


def read_points(text: str) -> LoadResult:
    """Return the result of a file of points. Raises ParseError without a request, and for the files of two runs."""
    times: list[int] = []
    statuses: Counter[str] = Counter()
    sums: Counter[str] = Counter()
    unread: list[str] = []
    seen: set[str] = set()
    users = 0
    begun_s, ended_s = float("inf"), 0.0
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
            unread.append(line)
            continue
        sums[point.metric] += int(point.data.value)
        if point.metric == "vus":
            users = max(users, int(point.data.value))
        elif point.metric == "http_reqs":
            statuses[(point.data.tags and point.data.tags.status) or "0"] += 1
        elif point.metric == "http_req_duration":
            times.append(round(point.data.value * 1e6))
            begun_s, ended_s = min(begun_s, at_s - point.data.value / 1000), max(ended_s, at_s)
    requests = statuses.total()
    if not requests or not times:
        raise ParseError("these points of k6 have no requests of HTTP", hint="were they made by a script with k6/http?")
    del statuses["0"]
    duration_s = ended_s - begun_s
    return LoadResult(
        tool="k6",
        duration_s=duration_s,
        requests=requests,
        rps=requests / duration_s if duration_s > 0 else None,
        users=users or None,
        bytes_total=sums["data_received"] or None,
        latency=latency_of(times, 1e-9, resolution_s=1e-9).model_copy(update={"covers": "request"}),
        status=dict(sorted(statuses.items())),
        non_2xx=sum(n for code, n in statuses.items() if code[0] != "2"),
        failed=sums["http_req_failed"],
        dropped=sums["dropped_iterations"] or None,
        complete=not any(line.lstrip().startswith("{") for line in unread),
        notes=(
            Note(code="k6-points", message="the points are of single requests: benchkit counts and sorts them itself"),
            no_end_mark("a file of points"),
            *unread_notes(unread),
        ),
    )
