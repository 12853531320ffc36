"""k6: its command line, and its output.

Its command line, read from its source (1.8.1: lib/executor, lib/netext/httpext, internal/output/csv):

- Each virtual user has a connection of its own, also of HTTP/2, and one request in flight.
- At a rate, a request that is due while every user waits is dropped. Times count from sending.
- Requests in flight when the time is over are waited for (`gracefulStop`).
- Over TLS it takes what the server chooses of HTTP/2 and HTTP/1.1. It is told to verify no certificate, and resumes no
  session.

Its output, read from its source (internal/js/summary.js, lib/netext/httpext):

- The rate is requests ÷ time of the whole run, pauses included. Requests include failed ones.
- `http_req_failed` is a rate of failures: `passes` (✓, or the number before "out of") failed, and `fails` did not.
- `http_req_duration` runs from sending a request to the end of its answer, without connecting. Requests without an
  answer have a time too, often 0. `{ expected_response:true }` has those that did not fail.
- Virtual users are not connections. With an arrival rate, an iteration without a free user is dropped.
- kB and MB are 1000 and 1000². A script of gRPC alone has no HTTP requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue

from benchkit.errors import ParseError
from benchkit.files import BACKENDS
from benchkit.loadtools.reader import Action, JsonOutput, OutputFormat, Reader, read_document, within
from benchkit.loadtools.text import (
    DECIMAL_SIZES,
    Figure,
    all_of_unit,
    errors_of,
    excerpt,
    has_any,
    has_line,
    implied_duration,
    line_with,
    of_unit,
    parse_duration,
    parse_number,
    parse_quantity,
    parse_time,
    several_runs,
)
from benchkit.loadtools.tool import (
    GoProgram,
    LoadLimits,
    ParsedOutput,
    RateSupport,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    body_file,
    body_files,
    option,
    repeated_requests,
)
from benchkit.models.load import NS_PER_S, Load
from benchkit.models.load_result import LoadResult, Note
from benchkit.units import counted

ROWS = RequestRows("k6", covers="request")
"""Every request that got an answer, in nanoseconds from sending it; the others are errors."""

_MARK = r"(?:\S{1,6}\s+)?"
_CELL = re.compile(r"(avg|min|med|max|p\([0-9]{1,2}(?:\.[0-9]{1,5})?\))=(\S+)")
_COUNTER = re.compile(r"(?P<count>[0-9]{1,18})\s+\(?(?P<rate>[0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)/s\)?")
_ROWS: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(("http_reqs", "iterations", "dropped_iterations"), _COUNTER),
    "data_received": re.compile(r"(?P<count>[0-9.]+ ?[kMGTP]?B)\s+(?P<rate>[0-9.]+ ?[kMGTP]?B)/s"),
    "http_req_failed": re.compile(
        r"[0-9.]{1,12}%(?:\s+\D{0,8}?(?P<passes>[0-9]{1,18})\s+(?:out of\s+|\D{0,8}?\s*)[0-9]{1,18})?"
    ),
    "vus": re.compile(r"[0-9]+\s+min=[0-9]+\s+max=(?P<max>[0-9]+)"),
}
_OWN = line_with(
    rf"{_MARK}(?:http_req_\w+|http_reqs|iteration_duration|vus_max)\.{{2,}}:",
    r"running \([0-9hm.]+s\), [0-9]+/[0-9]+ VUs, ",
    r"scenarios: \([0-9.]+%\) [0-9]+ scenarios?, [0-9]+ max VUs",
)
_has_row = has_line(rf"{_MARK}http_reqs\.{{2,}}:")
"""True for a text with the summary in rows, which a document of JSON may follow."""
_JSON = re.compile(r'"http_req(?:s|_\w+)(?:\{[^"\n]{0,200}\})?"\s*[:,]|"k6_version"\s*:')
_TIMES = ("http_req_duration", "expected", "grpc_req_duration")
_TRENDS = frozenset({*_TIMES, "http_req_waiting"})


class _K6Reader(Reader):
    """The metrics of one run, from its text or from a document: values by the metric's name, and by their own."""

    tool = "k6"
    covers = "request"
    own = _OWN

    metric = ""
    is_open = False
    """True where iterations are due at a rate."""
    is_aborted = False
    is_part = False
    """True behind the totals, in the rows of a group or scenario."""
    beginning: str | None = None
    has_end = False
    """True after the line of progress with no user at work, or the last row of a summary."""
    interrupted: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.metrics: dict[str, Mapping[str, float]] = {}
        """Times are in seconds; `expected` has those of requests that did not fail."""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"running \([0-9hm.]+s\), ([0-9]+)/([0-9]+) VUs, [0-9]+ complete and ([0-9]+) interrupted iterations": (
                self.read_running
            ),
            rf"{_MARK}([a-z][\w ]*)\.{{2,}}:\s*(\S.*)": self.read_row,
            rf"{_MARK}\{{\s*expected_response:\s*true\s*\}}\.{{2,}}:\s*(\S.*)": self.read_expected,
            r"(?:\S{1,3}\s+)?(?:GROUP|SCENARIO): .*": lambda _match: setattr(self, "is_part", True),
            r"(?P<beginning>execution: (?:local|cloud)).*": None,
            r"\* .*?: (?:Up to )?[0-9.]+ iterations/\S+ for .*": lambda _match: setattr(self, "is_open", True),
            r".*(?:test run was aborted|stopping test prematurely).*": lambda _match: setattr(self, "is_aborted", True),
        }

    def read_running(self, match: re.Match[str]) -> None:
        """Read a line of progress: the last one has no user at work."""
        self.tokens["beginning"] = self.tokens.get("beginning", match[0])
        if int(match[1]) == 0:  # padded: `000/200 VUs`
            self.has_end = True
            self.users, self.interrupted = int(match[2]), int(match[3])

    def read_row(self, match: re.Match[str]) -> None:
        self.metric, cells = match[1], match[2].strip()
        if self.is_part:
            return
        if self.metric in self.tokens:
            raise several_runs("k6", match[0])
        self.tokens[self.metric] = cells
        self.has_end = self.has_end or self.metric in {"data_sent", "vus_max"}
        values = None if self.is_last and not cells.endswith("/s") else _values_of(self.metric, cells)
        if values is None:
            self.unread.append(match[0])
        self.metrics[self.metric] = values or {}

    def read_expected(self, match: re.Match[str]) -> None:
        if self.metric == "http_req_duration" and not self.is_part:
            self.metrics["expected"] = _trend(match[1]) or {}

    def count(self, metric: str, name: str = "count") -> int | None:
        value = self.metrics.get(metric, {}).get(name)
        return None if value is None else int(value)

    def rate(self, metric: str) -> float | None:
        return self.metrics.get(metric, {}).get("rate")

    def result(self) -> LoadResult:
        times = next((name for name in _TIMES if self.metrics.get(name)), None)
        self.requests, self.rps = self.count("http_reqs"), self.rate("http_reqs")
        self.dropped = self.count("dropped_iterations")
        if self.rps is None and self.requests is not None and self.duration_s:
            self.rps = self.requests / self.duration_s
        self.times = dict(self.metrics[times]) if times else {}
        users = self.count("vus", "max")
        self.users = self.users if users is None else users
        is_grpc = self.requests is None and times == "grpc_req_duration"
        is_whole = (is_grpc or (self.requests is not None and times in _TIMES[:2])) and not self.unread
        implied_s = implied_duration(self.requests, self.rps)
        implied_s = implied_s or implied_duration(self.count("iterations"), self.rate("iterations"))
        failed = self.metrics.get("http_req_failed", {})
        return self.load_result(
            is_measured=self.times.get("max") != 0,
            duration_s=implied_s if self.duration_s is None else self.duration_s,
            bytes_total=self.metrics.get("data_received", {}).get("count"),
            bytes_per_s=self.rate("data_received"),
            failed=self.count("http_req_failed", "passes" if "passes" in failed else "matches"),
            first_byte_mean_s=self.metrics.get("http_req_waiting", {}).get("avg"),
            complete=is_whole and (self.has_end or "beginning" not in self.tokens) and not self.is_aborted,
            notes=self._notes(is_grpc=is_grpc),
        )

    def _notes(self, *, is_grpc: bool) -> Iterator[Note]:
        if self.dropped or self.is_open:
            dropped = f"; {self.dropped} were dropped for lack of a free user" if self.dropped else ""
            yield Note(code="open-model", message=f"iterations were due at a rate (open model){dropped}")
        if self.interrupted:
            message = (
                f"the end of the run interrupted {self.interrupted} iterations; requests that it aborted may be counted"
            )
            yield Note(code="k6-interrupted", message=message)
        if is_grpc:
            yield Note(code="k6-grpc", message="no HTTP requests: times are of gRPC calls")
        if self.is_aborted:
            yield Note(code="aborted", message="the run was aborted before its end")


def _values_of(metric: str, cells: str) -> Mapping[str, float] | None:
    """Return the values in the row of a metric; None where it is damaged, and none of metrics that are not read."""
    if metric in _TRENDS:
        return _trend(cells)
    if metric not in _ROWS:
        return {}
    row = _ROWS[metric].match(cells)
    if row is None:
        return None
    values = {}
    for name, token in row.groupdict().items():
        value = parse_number(token)
        values[name] = parse_quantity(token, DECIMAL_SIZES) if value is None else value
    return all_of_unit(values, 1)


def _trend(cells: str) -> Mapping[str, float] | None:
    """Return the times of a row, `avg=26.54ms  min=2.67ms …`; None where one of them is damaged."""
    times: dict[str, float] = {}
    for name, token in _CELL.findall(cells):
        time = parse_duration(token)
        if time is None and not token.endswith(("m", "h")):
            time = parse_time(token)
        if time is None:
            return None
        times[name] = time
    return times or None


class _Named(JsonOutput):
    name: str
    values: dict[str, JsonValue]


class _Document(JsonOutput):
    """JSON of --summary-export, of handleSummary, or of --new-machine-readable-summary; times are milliseconds."""

    metrics: dict[str, dict[str, JsonValue]] = Field(default={})
    run_ms: Figure | None = within("state", "testRunDurationMs", default=None)
    duration_s: Figure | None = within("config", "duration", default=None)
    version: str | None = within("metadata", "k6_version", default=None)
    named_metrics: tuple[_Named, ...] = within("results", "metrics", default=())


def _read_json(text: str) -> LoadResult:
    document, reader = read_document(text, _Document, "k6"), _K6Reader()
    reader.tool_version, reader.step_s = document.version, 1e-9
    reader.duration_s = document.duration_s if document.run_ms is None else of_unit(document.run_ms, 1e-3)
    metrics = document.metrics | {each.name: each.values for each in document.named_metrics}
    for name, metric in metrics.items():
        nested = metric.get("values")
        values = nested if isinstance(nested, dict) else metric
        figures = {key: float(each) for key, each in values.items() if isinstance(each, int | float) and each >= 0}
        unit = 1e-3 if name.partition("{")[0] in _TRENDS else 1
        key = "expected" if name == "http_req_duration{expected_response:true}" else name
        reader.metrics[key] = all_of_unit(figures, unit)
    result = reader.result()
    if result.requests is None and not reader.times:
        names = ", ".join(list(metrics)[:5]) or "none"
        raise ParseError("this JSON of k6 has no requests of HTTP", why=f"its metrics: {names}")
    return result.model_copy(update={"complete": True})


def parse(text: str) -> LoadResult:
    """Return the result that k6 printed or wrote. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) and not _has_row(text) else _K6Reader().read(text)


FORMAT = OutputFormat("k6", has_any(_OWN, _JSON), parse)


_ERROR = re.compile(r"level=error msg=(.*)")
_DROPPED = re.compile(r"dropped_iterations[.:]*\s+([0-9]{1,12})\b")


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what k6 measured: `duration_s` is from the first request to the last answer. Raises ParseError."""
    from benchkit.loadtools import reducer_output  # noqa: PLC0415 - numpy is slow to import

    rows = reducer_output.read_file(output.reduction, "k6")
    failed, span = sum(rows.errors.values()) + rows.other_errors, rows.span
    return reducer_output.result_of_rows(
        rows,
        ROWS,
        duration_s=(span.last_end_ns - span.first_start_ns) / NS_PER_S if span else None,
        errors=errors_of(rows.errors, rows.other_errors),
        failed=failed,
        notes=_notes(output, failed),
    )


def _notes(output: ToolOutput, failed: int) -> Iterator[Note]:
    if dropped := _DROPPED.search(output.stdout):
        message = f"{counted(int(dropped[1]), 'request')} that were due found no free virtual user, and were dropped"
        yield Note(code="k6-dropped", message=message)
    if failed:
        yield Note(code="k6-failed", message=f"{counted(failed, 'request')} without an answer have no latency")
    if errors := _ERROR.findall(output.stderr):
        message = f"k6 printed {counted(len(errors), 'error')}; the first: {excerpt(errors[0])}"
        yield Note(code="k6-errors", message=message)


PROGRAM = GoProgram(BACKENDS / "k6", "go.k6.io/k6", "1.8.1", "k6")

SCRIPT = Path(__file__).with_name("load.js")
LOAD = "k6.load.json"
GRACE_S = 30
"""Time for the answers to the last requests."""
TREND_STATS = ("min", "avg", "med", "max", "p(75)", "p(90)", "p(95)", "p(99)", "p(99.9)", "p(99.99)")
TAGS = ("status", "error", "error_code")
"""Columns of the rows."""


def _validate_target(load: Load, _target: Target) -> Iterable[str]:
    if load.streams > 1:
        yield "streams: a virtual user of k6 has one request in flight, and a connection of its own"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    mix = load.request_mix
    requests = [
        {
            "method": request.method,
            "url": target.named_origin + request.path,
            "headers": {name: str(value) for name, value in request.headers.items()},
            "body": body_file(load, request),
        }
        for request in mix
    ]
    hosts = {} if target.server_name is None else {"hosts": {target.server_name: target.authority}}
    document = {
        "options": {**_options(load), **hosts},
        "params": {} if load.timeout_s is None else {"timeout": f"{load.timeout_s * 1000:.0f}ms"},
        "requests": requests,
        "order": load.order or [mix.index(request) for request in repeated_requests(load)],
    }
    return {SCRIPT.name: SCRIPT.read_bytes(), LOAD: json.dumps(document).encode(), **body_files(load, target)}


def _options(load: Load) -> dict[str, Any]:
    return {
        "scenarios": {"load": _scenario(load)},
        "discardResponseBodies": True,
        "insecureSkipTLSVerify": True,
        "noConnectionReuse": not load.keepalive,
        "summaryTrendStats": TREND_STATS,
        "systemTags": TAGS,
    }


def _scenario(load: Load) -> dict[str, Any]:
    grace, duration = f"{GRACE_S}s", f"{(load.duration_s or 0) * 1000:.0f}ms"
    if load.rate is None:
        return {"executor": "constant-vus", "vus": load.connections, "duration": duration, "gracefulStop": grace}
    whole = load.rate == int(load.rate)
    return {
        "executor": "constant-arrival-rate",
        "rate": round(load.rate if whole else load.rate * 1000),
        "timeUnit": "1s" if whole else "1000s",
        "duration": duration,
        "preAllocatedVUs": load.connections,
        "maxVUs": load.connections,
        "gracefulStop": grace,
    }


def _argv(load: Load, _target: Target) -> list[str]:
    return [
        *(PROGRAM.name, "run", "--quiet", "--no-color", "--no-usage-report", "--address="),
        *option("--out=csv=fileName=-,timeFormat=unix_nano", load.histogram),
        *load.extra_args,
        SCRIPT.name,
    ]


TOOL = Tool(
    name="k6",
    binary="k6",
    argv=_argv,
    format=FORMAT,
    measure=measure,
    rows=ROWS,
    go_program=PROGRAM,
    rate=RateSupport(is_open=False, clocks="one"),
    options=frozenset({"duration_s", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(mix="in turn", follows_order=True, own_headers=("content-length",)),
    files=_files,
    limits=LoadLimits(ends="time", least_s=1, rate_step=0.001, reserved=("--out", "-o")),
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
    validate_target=_validate_target,
    own_s=10.0,
)
