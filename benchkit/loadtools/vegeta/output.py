"""Parser of the output of `vegeta report` (6 to 12): text, JSON, buckets and percentiles.

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
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from benchkit.loadtools.json_text import JsonOutput, read_document, within
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    QUOTED,
    Count,
    Figure,
    excerpt,
    has_line,
    latency_by_name,
    line_with,
    no_end_mark,
    of_unit,
    parse_count,
    parse_duration,
    parse_number,
    several_runs,
    split_lines,
)
from benchkit.loadtools.tool import RequestRows
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

ROWS = RequestRows("vegeta")
"""Every request; those without an answer (status 0) have the time until they failed, as in vegeta's own figures. Error
messages are counted by text; an answer below 200 or above 399 has its status line there."""

_ROW = re.compile(r"(Requests|Duration|Latencies|Bytes In|Bytes Out|Success)\s+\[([^\]]{1,80})\]\s+(\S.*)")
_CODES = re.compile(r"Status Codes\s+\[code:count\]\s*(.*)")
_CODE = re.compile(r"([0-9]{1,3}):([0-9]{1,18})")
_ERRORS = re.compile(r"Error Set:")
_DAMAGED = re.compile(r"(?:Requests|Duration|Latencies|Bytes In|Bytes Out|Success|Status Codes)\s.*")
_BUCKETS = re.compile(r"Bucket\s+#\s+%\s+Histogram")
_FENCE = "```"
_BUCKET = re.compile(r"\[(\S+),\s+(\S+)\]\s+([0-9]{1,18})\s+[0-9.]+%.*")
_SPECTRUM = re.compile(r"Value\(ms\)\s+Percentile\s+TotalCount\s+1/\(1-Percentile\)")
_HEADINGS = (_ROW, _BUCKETS, _SPECTRUM)
_POINT = re.compile(r"([0-9]{1,12}\.[0-9]{6})\s+([01]\.[0-9]{6})\s+([0-9]{1,18})\s+([0-9.]+)")


def _parse_share(cell: str) -> float | None:
    percent = parse_number(cell.removesuffix("%"))
    is_valid = percent is not None and cell.endswith("%") and percent <= 100  # noqa: PLR2004 - per cent
    return of_unit(percent, 0.01) if is_valid else None


_FIGURES: Mapping[tuple[str, str], tuple[str, Callable[[str], float | None]]] = {
    ("Requests", "total"): ("requests", parse_count),
    ("Requests", "rate"): ("rps", parse_number),
    ("Requests", "throughput"): ("throughput", parse_number),
    ("Duration", "total"): ("total_s", parse_duration),
    ("Duration", "attack"): ("duration_s", parse_duration),
    ("Duration", "wait"): ("wait_s", parse_duration),
    ("Bytes In", "total"): ("bytes_total", parse_count),
    ("Bytes Out", "total"): ("bytes_out", parse_count),
    ("Success", "ratio"): ("success", _parse_share),
}
"""Figures by the label of their row and their name in it, each with its attribute and parser."""


class _VegetaReader(Reader):
    tool = "vegeta"

    total_s: float | None = None
    """Attack and wait together, the only duration that versions before 6 state."""
    latencies: Mapping[str, float] | None = None
    """Times by the report's own names: min, mean, max, and percentiles as "50"."""
    is_closed: bool = True
    """False for metrics without what vegeta derives at the end."""
    success: float | None = None
    """Share of answers with a status from 200 to 399."""
    status_codes: Mapping[str, int] | None = None
    """Answers by status code; "0" is a request without an answer."""

    def __init__(self) -> None:
        super().__init__()
        self.kind: Literal["text", "json", "hist", "hdrplot"] = "text"
        self.also: Literal["hist", "hdrplot"] | None = None
        """Kind of a second report of the same run, below the text."""
        self.buckets: list[int] = []
        self.points: dict[str, float] = {}
        self.errors: list[str] | None = None
        """Kinds of error; None before their heading."""
        self.is_listing = True
        """False behind the end of the list of errors."""
        self._rules = (
            (_ROW, self.read_row),
            (_CODES, self.read_codes),
            (_ERRORS, self.read_error_set),
            (_BUCKETS, partial(self.start_report, kind="hist")),
            (_BUCKET, self.read_bucket),
            (_SPECTRUM, partial(self.start_report, kind="hdrplot")),
            (_POINT, self.read_point),
            (_DAMAGED, self.add_unread),
        )

    def read(self, text: str) -> LoadResult:
        if '"latencies"' in text:
            plain = "\n".join(line.strip(QUOTED) for line in split_lines(text))
            if "{" in plain:
                self.read_json(plain)
                return self.result()
        return super().read(text)

    def has_figures(self) -> bool:
        return bool(self.stated or self.buckets or self.points)

    def read_json(self, text: str) -> None:
        document = read_document(text, _Document, "vegeta")
        self.kind = "json"
        self.requests = document.requests
        self.rps = document.rate
        self.duration_s = of_unit(document.duration, 1e-9)
        times = {name.removesuffix("th"): of_unit(ns, 1e-9) for name, ns in document.latencies.items()}
        self.latencies = {name: time for name, time in times.items() if name != "total"}
        self.bytes_total = document.bytes_in
        self.success = document.success
        self.status_codes = document.status_codes
        self.errors = [excerpt(message) for message in document.errors or ()]
        if document.requests > 1 and not document.rate and not document.duration:
            self.leave_out_derived(document.latencies.get("total"))

    def leave_out_derived(self, total_ns: float | None) -> None:
        """Keep the counts, extremes and sum of times of a program that calls vegeta and never closed its metrics.

        The rates and means that it printed are 0.
        """
        self.is_closed, self.rps, self.duration_s, self.success = False, None, None, None
        self.latencies = {name: time for name, time in (self.latencies or {}).items() if name in {"min", "max"}}
        if total_ns and self.requests:
            self.latencies = {**self.latencies, "mean": float(f"{total_ns / self.requests * 1e-9:.12g}")}

    def read_line(self, line: str) -> None:
        if line.startswith(_FENCE) and self.errors is not None:
            self.is_listing = False
        if self.is_listing and self.errors is not None and not any(each.fullmatch(line) for each in _HEADINGS):
            self.errors.append(excerpt(line))
        else:
            super().read_line(line)

    def read_row(self, match: re.Match[str]) -> None:
        """Read a row that has the names of its figures in brackets."""
        label, names, cells = match[1], match[2].split(", "), match[3].split(", ")
        if len(names) != len(cells) or self.ends_mid_number(match[0]):
            self.unread.append(match[0])
            return
        named = dict(zip(names, cells, strict=True))
        if label == "Latencies":
            times = {name: parse_duration(cell) for name, cell in named.items()}
            self.set_once(match[0], latencies=None if None in times.values() else times)
            return
        for name, cell in named.items():
            if (label, name) in _FIGURES:  # others are means of bytes
                attribute, parse_cell = _FIGURES[label, name]
                self.set_once(match[0], **{attribute: parse_cell(cell)})

    def read_codes(self, match: re.Match[str]) -> None:
        pairs = [_CODE.fullmatch(pair) for pair in match[1].split()]
        codes = {pair[1]: int(pair[2]) for pair in pairs if pair}
        whole = len(codes) == len(pairs)
        if (self.unterminated or not codes) and sum(codes.values()) != self.requests:
            whole = False
        self.set_once(match[0], status_codes=codes if whole else None)

    def read_error_set(self, _match: re.Match[str]) -> None:
        self.errors = []

    def read_bucket(self, match: re.Match[str]) -> None:
        if "hist" in {self.kind, self.also}:
            self.buckets.append(int(match[3]))

    def read_point(self, match: re.Match[str]) -> None:
        if self.kind == "hdrplot":
            share = float(match[2])
            name = "min" if share == 0 else "max" if share == 1 else f"{share * 100:.7g}"
            self.points[name] = of_unit(float(match[1]), 1e-3)

    def start_report(self, match: re.Match[str], kind: Literal["hist", "hdrplot"]) -> None:
        if self.kind != "text" or self.also:
            raise several_runs("vegeta", match[0])
        self.is_listing = False
        if self.stated:
            self.also = kind
        else:
            self.kind = kind

    def result(self) -> LoadResult:
        if self.kind == "hist":
            self.requests = sum(self.buckets)
        if self.also == "hist" and sum(self.buckets) != self.requests:
            raise several_runs("vegeta", "a report")
        if self.kind == "hdrplot":
            self.latencies = self.points
        codes = self.status_codes
        return self.load_result(
            duration_s=self.total_s if self.duration_s is None else self.duration_s,
            latency=self._latency(),
            errors=Errors(other=None if codes is None else codes.get("0", 0)),
            status=codes or {},
            non_2xx=None if codes is None else sum(n for code, n in codes.items() if code[0] not in "02"),
            failed=None if codes is None else sum(n for code, n in codes.items() if code[0] not in "23"),
            availability=self.success,
            complete=self._complete(),
            notes=self._notes(),
        )

    def _latency(self) -> Latency:
        latency = latency_by_name((self.latencies or {}) if self.requests != 0 else {}, "connect+request")
        step = 1e-9 if self.kind == "json" and self.requests else None
        return latency.model_copy(update={"resolution_s": step})

    def _complete(self) -> bool:
        """Return whether the text has all that this kind of report always states."""
        if self.kind == "hist":
            return bool(self.requests) and not self.unread
        if self.kind == "hdrplot":
            return {"min", "max"} <= (self.latencies or {}).keys() and not self.unread
        if self.requests is not None and self.errors is not None and self.status_codes and self.kind == "text":
            return not self.unread  # the author left out lines between
        required = (self.requests, self.status_codes, self.success if self.is_closed else 1)
        return None not in required and bool(self.latencies) and not self.unread

    def _notes(self) -> Iterator[Note]:
        if not self.is_closed:
            yield Note(code="vegeta-open", message="these metrics were not closed: rates and percentiles are missing")
        if self.kind == "hist":
            yield Note(code="vegeta-hist", message="a histogram report states only the number of requests, by bucket")
            yield no_end_mark("a histogram report")
        codes = self.status_codes or {}
        if self.errors and any(code[0] not in "23" for code in codes):
            examples = "; ".join(self.errors[:3])
            yield Note(
                code="vegeta-errors",
                message=f"{len(self.errors)} kinds of error, without a count in vegeta's report: {examples}",
            )


class _Document(JsonOutput):
    """JSON report; times are nanoseconds."""

    latencies: dict[str, Figure]
    requests: Count
    rate: Figure | None = None
    duration: Figure | None = None
    bytes_in: Count | None = within("bytes_in", "total", default=None)
    success: Annotated[float, Field(ge=0, le=1)] | None = None
    status_codes: dict[str, Count] | None = None
    errors: list[str] | None = None


def parse(text: str) -> LoadResult:
    """Return the result of a report. Raises ParseError for other text, and for several reports."""
    return _VegetaReader().read(text)


FORMAT = OutputFormat(
    "vegeta",
    has_line(
        r"Requests\s+\[total[,\]]",
        r"Duration\s+\[total[,\]]",
        r"Latencies\s+\[",
        r"Bytes (?:In|Out)\s+\[total, mean\]",
        r"Success\s+\[ratio\]",
        r"Status Codes\s+\[code:count\]",
        _BUCKETS.pattern,
        _SPECTRUM.pattern,
        r'\{?"latencies":\s*\{\s*"(?:total|mean|50th)":',
        r'[^\n{"]{0,120}\{.*"latencies":\s*\{"(?:total|mean)":',
    ),
    parse,
    (
        line_with(r"Requests\s+\[total[,\]]", r'[^\n{"]{0,120}\{\s*"latencies"'),
        line_with(_BUCKETS.pattern, _SPECTRUM.pattern),
    ),
)
