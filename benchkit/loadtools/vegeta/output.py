"""Parser of the output of `vegeta report` (6 to 12): text, JSON and buckets.

Meaning of the figures, read from its source (lib/metrics.go, reporters.go, attack.go):

- "rate" is requests ÷ attack time, which runs from the first request to the last one; "throughput" is good answers ÷
  (attack + wait). `duration_s` here is the attack time, so that requests ÷ duration is the rate.
- Status code 0 is a request without an answer. Success is the share of 200 to 399.
- A time runs from sending the request to the end of its body. It includes connecting, and waiting for a connection
  where their number is limited. Percentiles are estimates (t-digest); the text rounds to three or six decimals.
- Bytes are of bodies alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated

from pydantic import Field

from benchkit.loadtools.reader import Action, JsonOutput, OutputFormat, Reader, read_document, within
from benchkit.loadtools.text import (
    Count,
    Figure,
    excerpt,
    has_line,
    implied_duration,
    latency_by_name,
    line_with,
    no_end_mark,
    of_unit,
    parse_count,
    parse_duration,
    parse_number,
    several_runs,
)
from benchkit.loadtools.tool import RequestRows
from benchkit.models.load_result import Errors, LoadResult, Note

ROWS = RequestRows("vegeta")
"""Every request; those without an answer (status 0) have the time until they failed, as in vegeta's own figures. Error
messages are counted by text; an answer below 200 or above 399 has its status line there."""

_BUCKETS = r"Bucket\s+#\s+%\s+Histogram"


def _share(cell: str) -> float | None:
    percent = parse_number(cell.removesuffix("%"))
    return of_unit(percent, 0.01) if percent is not None and percent <= 100 else None  # noqa: PLR2004 - per cent


_FIGURES: Mapping[str, Callable[[str], float | None]] = {
    "Requests total": parse_count,
    "Requests rate": parse_number,
    "Duration total": parse_duration,
    "Duration attack": parse_duration,
    "Duration wait": parse_duration,
    "Bytes In total": parse_count,
    "Success ratio": _share,
}
"""Figures by the label of their row and their name in it; others are means of bytes, or follow from these."""


class _VegetaReader(Reader):
    tool = "vegeta"

    def __init__(self) -> None:
        super().__init__()
        self.stated: dict[str, float | None] = {}
        self.times: dict[str, float | None] = {}
        """Times by the report's own names: min, mean, max, and percentiles as "50"."""
        self.buckets: list[int] | None = None
        self.errors: list[str] | None = None
        """Kinds of error; None before their heading."""
        self.has_codes = False

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"(Requests|Duration|Latencies|Bytes In|Bytes Out|Success)\s+\[([^\]]{1,80})\]\s+(\S.*)": self.read_row,
            r"Status Codes\s+\[code:count\]\s*(.*)": self.read_codes,
            _BUCKETS: self.read_buckets,
            r"\[(\S+),\s+(\S+)\]\s+([0-9]{1,18})\s+[0-9.]+%.*": self.read_bucket,
            r"Error Set:": self.read_error_set,
            r"(.+)": self.read_error,
        }

    def has_figures(self) -> bool:
        return bool(self.stated or self.times or self.buckets or self.has_codes)

    def read_row(self, match: re.Match[str]) -> None:
        """Read a row that has the names of its figures in brackets."""
        label, names, cells = match[1], match[2].split(", "), match[3].split(", ")
        if len(names) != len(cells) or self.is_cut(match[0]):
            self.unread.append(match[0])
            return
        for name, cell in zip(names, cells, strict=True):
            place, key = (self.times, name) if label == "Latencies" else (self.stated, f"{label} {name}")
            if label != "Latencies" and key not in _FIGURES:
                continue
            value = parse_duration(cell) if label == "Latencies" else _FIGURES[key](cell)
            if place.get(key, value) != value:
                raise several_runs("vegeta", match[0])
            place[key] = value
            if value is None:
                self.unread.append(match[0])

    def read_codes(self, match: re.Match[str]) -> None:
        self.has_codes = True
        codes = dict(pair.split(":", 1) for pair in match[1].split() if pair.count(":") == 1)
        for code, number in codes.items():
            self.add(self.statuses, code, parse_count(number), match[0])

    def read_error_set(self, _match: re.Match[str]) -> None:
        self.errors = []

    def read_error(self, match: re.Match[str]) -> None:
        if self.errors is not None:
            self.errors.append(excerpt(match[1]))

    def read_buckets(self, match: re.Match[str]) -> None:
        if self.buckets is not None:
            raise several_runs("vegeta", match[0])
        self.buckets = []

    def read_bucket(self, match: re.Match[str]) -> None:
        if self.buckets is not None:
            self.buckets.append(int(match[3]))

    def result(self) -> LoadResult:
        stated = self.stated
        requests, rate = stated.get("Requests total"), stated.get("Requests rate")
        attack_s, total_s = stated.get("Duration attack"), stated.get("Duration total")
        if is_histogram := self.buckets is not None and requests is None:
            requests = sum(self.buckets or ())
        elif self.buckets is not None and sum(self.buckets) != requests:
            raise several_runs("vegeta", "a report")
        if total_s is None and attack_s is not None:
            total_s = attack_s + (stated.get("Duration wait") or 0)
        figures = {
            "requests": requests,
            "rps": rate,
            "duration_s": total_s if attack_s is None else attack_s,
            "answered_rps": requests / total_s if requests and total_s and attack_s else None,
            "bytes_total": stated.get("Bytes In total"),
            "availability": stated.get("Success ratio"),
        }
        latency = latency_by_name(self.times if requests != 0 else {}, "connect+request")
        required = (requests, stated.get("Success ratio") if self.errors is None else 1, self.statuses or None)
        is_whole = (
            bool(requests) if is_histogram else None not in required and bool(self.times or self.errors is not None)
        )
        return self.load_result(
            **figures,
            **_by_status(self.statuses if self.has_codes else None),
            latency=latency,
            complete=is_whole and not self.unread,
            notes=_notes(self.statuses, self.errors or (), is_histogram=is_histogram),
        )


def _by_status(codes: Mapping[str, int] | None) -> dict[str, object]:
    """Return the counts by status; "0" is a request without an answer."""
    if not codes:
        return {}
    return {
        "status": codes,
        "errors": Errors(other=codes.get("0", 0)),
        "non_2xx": sum(n for code, n in codes.items() if code[0] not in "02"),
        "failed": sum(n for code, n in codes.items() if code[0] not in "23"),
    }


def _notes(codes: Mapping[str, int], errors: Sequence[str], *, is_histogram: bool) -> Iterator[Note]:
    if is_histogram:
        yield Note(code="vegeta-hist", message="a histogram report states only the number of requests, by bucket")
        yield no_end_mark("a histogram report")
    if errors and any(code[0] not in "23" for code in codes):
        message = f"{len(errors)} kinds of error, without a count in vegeta's report: {'; '.join(errors[:3])}"
        yield Note(code="vegeta-errors", message=message)


class _Document(JsonOutput):
    """JSON report; times are nanoseconds."""

    latencies: dict[str, Figure]
    requests: Count
    rate: Figure | None = None
    duration: Figure | None = None
    wait: Figure = 0
    bytes_in: Count | None = within("bytes_in", "total", default=None)
    success: Annotated[float, Field(ge=0, le=1)] | None = None
    status_codes: dict[str, Count] | None = None
    errors: list[str] | None = None


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "vegeta")
    times = {name.removesuffix("th"): of_unit(ns, 1e-9) for name, ns in document.latencies.items() if name != "total"}
    codes, requests, duration_s = document.status_codes, document.requests, of_unit(document.duration, 1e-9)
    total_s = (duration_s or 0) + document.wait * 1e-9
    return LoadResult(
        tool="vegeta",
        duration_s=duration_s or implied_duration(requests, document.rate),
        requests=requests,
        rps=document.rate,
        answered_rps=requests / total_s if requests and total_s and duration_s else None,
        bytes_total=document.bytes_in,
        latency=latency_by_name(times if requests else {}, "connect+request", step_s=1e-9 if requests else None),
        availability=document.success,
        complete=None not in (codes, document.success) and bool(times),
        notes=tuple(_notes(codes or {}, [excerpt(each) for each in document.errors or ()], is_histogram=False)),
        **_by_status(codes),
    )


def parse(text: str) -> LoadResult:
    """Return the result of a report. Raises ParseError for other text, and for several reports."""
    return _read_json(text) if '"latencies"' in text and "{" in text else _VegetaReader().read(text)


FORMAT = OutputFormat(
    "vegeta",
    has_line(
        r"Requests\s+\[total[,\]]",
        r"Duration\s+\[total[,\]]",
        r"Latencies\s+\[",
        r"Bytes (?:In|Out)\s+\[total, mean\]",
        r"Success\s+\[ratio\]",
        r"Status Codes\s+\[code:count\]",
        _BUCKETS,
        r'\{?"latencies":\s*\{\s*"(?:total|mean|50th)":',
        r'[^\n{"]{0,120}\{.*"latencies":\s*\{"(?:total|mean)":',
    ),
    parse,
    (line_with(r"Requests\s+\[total[,\]]", r'[^\n{"]{0,120}\{\s*"latencies"'), line_with(_BUCKETS)),
)
