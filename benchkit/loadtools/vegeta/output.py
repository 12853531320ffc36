"""Parser of the output of `vegeta report` (6 to 12): text, JSON, buckets and percentiles.

Meaning of the figures, read from its source (lib/metrics.go, reporters.go, attack.go):

- "rate" is requests ÷ attack time, which runs from the first request to the last one; "throughput" is good answers ÷
  (attack + wait). `duration_s` here is the attack time, so that requests ÷ duration is the rate.
- Status code 0 is a request without an answer. Success is the share of 200 to 399.
- A time runs from sending the request to the end of its body; it includes connecting, and waiting for a connection
  where their number is limited. Percentiles are estimates (t-digest); the text rounds to three or six decimals.
- Bytes are of bodies alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from benchkit.loadtools.json_text import read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import (
    QUOTED,
    Count,
    Reader,
    excerpt,
    has_line,
    line_with,
    no_end_mark,
    not_output_of,
    parse_count,
    parse_duration,
    parse_number,
    several_runs,
    split_lines,
    unread_notes,
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

_PERCENTILE = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,5})?")


class _VegetaReader(Reader):
    """Figures of a report by vegeta's own labels; times in seconds, sizes in bytes."""

    tool = "vegeta"

    requests: int | None = None
    rate: float | None = None
    """Requests sent ÷ attack time."""
    attack_s: float | None = None
    total_s: float | None = None
    """Attack and wait together, the only duration that versions before 6 state."""
    latencies: Mapping[str, float] | None = None
    """Times by the report's own names: min, mean, max, and percentiles as "50"."""
    bytes_in: int | None = None
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
            (_BUCKETS, self.read_start_buckets),
            (_BUCKET, self.read_bucket),
            (_SPECTRUM, self.read_start_points),
            (_POINT, self.read_point),
            (_DAMAGED, self.add_unread),
        )

    def read(self, text: str) -> LoadResult:
        if '"latencies"' in text:
            plain = "\n".join(line.strip(QUOTED) for line in split_lines(text))
            if "{" in plain:
                self.read_json(plain)
                return self.result()
        lines = self.read_lines(text)
        if not self.stated and not self.buckets and not self.points:
            raise not_output_of("vegeta", lines)
        if self.kind == "hist":
            self.requests = sum(self.buckets)
        if self.also == "hist" and sum(self.buckets) != self.requests:
            raise several_runs("vegeta", "a report")
        if self.kind == "hdrplot":
            self.latencies = self.points
        return self.result()

    def read_json(self, text: str) -> None:
        document = read_document(text, _Document, "vegeta")
        self.kind = "json"
        self.requests = document.requests
        self.rate = document.rate
        self.attack_s = None if document.duration is None else float(f"{document.duration * 1e-9:.15g}")
        times = {name.removesuffix("th"): float(f"{ns * 1e-9:.15g}") for name, ns in document.latencies.items()}
        self.latencies = {name: time for name, time in times.items() if name != "total"}
        self.bytes_in = None if document.bytes_in is None else document.bytes_in.total
        self.success = document.success
        self.status_codes = document.status_codes
        self.errors = [excerpt(message) for message in document.errors or ()]
        if document.requests > 1 and not document.rate and not document.duration:
            self.leave_out_derived(document.latencies.get("total"))

    def leave_out_derived(self, total_ns: float | None) -> None:
        """Keep what a program counted that calls vegeta and never closed its metrics: their rates and means are 0."""
        self.is_closed, self.rate, self.attack_s, self.success = False, None, None, None
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
            self.set_once(match[0], **_figure(label, name, cell))

    def read_codes(self, match: re.Match[str]) -> None:
        pairs = [_CODE.fullmatch(pair) for pair in match[1].split()]
        codes = {pair[1]: int(pair[2]) for pair in pairs if pair}
        whole = len(codes) == len(pairs)
        if (self.unterminated or not codes) and sum(codes.values()) != self.requests:
            whole = False
        self.set_once(match[0], status_codes=codes if whole else None)

    def read_error_set(self, _match: re.Match[str]) -> None:
        self.errors = []

    def read_start_buckets(self, match: re.Match[str]) -> None:
        self._start(match, "hist")

    def read_bucket(self, match: re.Match[str]) -> None:
        if "hist" in {self.kind, self.also}:
            self.buckets.append(int(match[3]))

    def read_start_points(self, match: re.Match[str]) -> None:
        self._start(match, "hdrplot")

    def read_point(self, match: re.Match[str]) -> None:
        if self.kind == "hdrplot":
            share = float(match[2])
            name = "min" if share == 0 else "max" if share == 1 else f"{share * 100:.7g}"
            self.points[name] = float(f"{float(match[1]) / 1000:.15g}")

    def _start(self, match: re.Match[str], kind: Literal["hist", "hdrplot"]) -> None:
        if self.kind != "text" or self.also:
            raise several_runs("vegeta", match[0])
        self.is_listing = False
        if self.stated:
            self.also = kind
        else:
            self.kind = kind

    def result(self) -> LoadResult:
        codes = self.status_codes
        return LoadResult(
            tool="vegeta",
            duration_s=self._duration_s(),
            requests=self.requests,
            rps=self.rate,
            bytes_total=self.bytes_in,
            latency=self._latency(),
            errors=Errors(other=None if codes is None else codes.get("0", 0)),
            status=codes or {},
            non_2xx=None if codes is None else sum(n for code, n in codes.items() if code[0] not in "02"),
            failed=None if codes is None else sum(n for code, n in codes.items() if code[0] not in "23"),
            availability=self.success,
            complete=self._complete(),
            notes=tuple(self._notes()),
        )

    def _latency(self) -> Latency:
        times = self.latencies or {}
        if self.requests == 0:
            return Latency(covers="connect+request", corrected=False)
        return Latency(
            min_s=times.get("min"),
            mean_s=times.get("mean"),
            max_s=times.get("max"),
            percentiles={name: time for name, time in times.items() if _PERCENTILE.fullmatch(name)},
            resolution_s=1e-9 if self.kind == "json" else None,
            covers="connect+request",
            corrected=False,
        )

    def _duration_s(self) -> float | None:
        return self.total_s if self.attack_s is None else self.attack_s

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
        yield from unread_notes(self.unread)


def _figure(label: str, name: str, cell: str) -> dict[str, object]:
    """Return the model's field for one figure of a row; empty for figures not in the model (means of bytes)."""
    match label, name:
        case "Requests", "total":
            return {"requests": parse_count(cell)}
        case "Requests", ("rate" | "throughput"):
            return {name: parse_number(cell)}
        case "Duration", ("total" | "attack" | "wait"):
            return {f"{name}_s": parse_duration(cell)}
        case (("Bytes In" | "Bytes Out"), "total"):
            return {label.lower().replace(" ", "_"): parse_count(cell)}
        case "Success", "ratio":
            percent = parse_number(cell.removesuffix("%"))
            is_valid = percent is not None and cell.endswith("%") and percent <= 100  # noqa: PLR2004 - per cent
            return {"success": float(f"{percent / 100:.15g}") if is_valid and percent is not None else None}
    return {}


_Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class _Json(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")


class _Bytes(_Json):
    total: Count


class _Document(_Json):
    """JSON report; times are nanoseconds."""

    latencies: dict[str, _Number]
    requests: Count
    rate: _Number | None = None
    throughput: _Number | None = None
    duration: _Number | None = None
    wait: _Number | None = None
    bytes_in: _Bytes | None = None
    bytes_out: _Bytes | None = None
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
