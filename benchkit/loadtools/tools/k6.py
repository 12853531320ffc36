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
- Virtual users are no connections. With an arrival rate, an iteration without a free user is dropped.
- kB and MB are 1000 and 1000². A script of gRPC alone has no HTTP requests.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field, JsonValue

from benchkit.errors import ParseError
from benchkit.files import BACKENDS
from benchkit.loadtools.reader import Action, JsonOutput, OutputFormat, Reader, read_document, within
from benchkit.loadtools.text import (
    DECIMAL_SIZES,
    Figure,
    errors_of,
    excerpt,
    has_any,
    has_line,
    implied_duration,
    latency_by_name,
    line_with,
    of_unit,
    parse_duration,
    parse_number,
    parse_quantity,
    parse_time,
    several_runs,
    without_times,
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
    UnsupportedField,
    body_file,
    body_files,
    repeated_requests,
)
from benchkit.models.load import NS_PER_S, Load
from benchkit.models.load_result import Latency, LoadResult, Note
from benchkit.units import counted

ROWS = RequestRows("k6", covers="request")
"""Every request that got an answer, in nanoseconds from sending it; the others are errors."""

_MARK = r"(?:\S{1,6}\s+)?"
_CELL = re.compile(r"(avg|min|med|max|p\(([0-9]{1,2}(?:\.[0-9]{1,5})?)\))=(\S+)")
_COUNTER = re.compile(r"([0-9]{1,18})\s+\(?([0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)/s\)?")
_FAILED = re.compile(r"([0-9.]{1,12})%\s+\D{0,8}?([0-9]{1,18})\s+(out of\s+|\D{0,8}?\s*)([0-9]{1,18})")
_SHARE = re.compile(r"[0-9.]+%.*")
"""A share of failures without their counts, as in excerpts."""
SHARE_STEP = 0.01
"""Percent by which a share may differ from its counts: k6 cuts off behind two decimals."""
_GAUGE = re.compile(r"[0-9]+\s+min=[0-9]+\s+max=([0-9]+)")
_DATA = re.compile(r"([0-9.]+ ?[kMGTP]?B)\s+([0-9.]+ ?[kMGTP]?B)/s")
_OWN = line_with(
    rf"{_MARK}(?:http_req_\w+|http_reqs|iteration_duration|vus_max)\.{{2,}}:",
    r"running \([0-9hm.]+s\), [0-9]+/[0-9]+ VUs, ",
    r"scenarios: \([0-9.]+%\) [0-9]+ scenarios?, [0-9]+ max VUs",
)
_has_row = has_line(rf"{_MARK}http_reqs\.{{2,}}:")
"""True for a text with the summary in rows, which a document of JSON may follow."""
_JSON = re.compile(r'"http_req(?:s|_\w+)(?:\{[^"\n]{0,200}\})?"\s*[:,]|"k6_version"\s*:')
_TRENDS = frozenset({"http_req_duration", "http_req_waiting", "grpc_req_duration", "expected"})


class _K6Reader(Reader):
    tool = "k6"
    own = _OWN

    def __init__(self) -> None:
        super().__init__()
        self.times: dict[str, Latency] = {}
        """Trends of times: of requests, of those that did not fail (`expected`), until the first byte, and of gRPC."""
        self.iterations: int | None = None
        self.iteration_rate: float | None = None
        self.interrupted: int | None = None
        self.is_open = False
        """True where iterations are due at a rate."""
        self.is_aborted = False
        self.is_part = False
        """True behind the totals, in the rows of a group or scenario."""
        self.has_beginning = False
        self.has_end = False
        """True after the line of progress with no user at work, or the last row of a summary."""
        self.metric = ""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"running \([0-9hm.]+s\), ([0-9]+)/([0-9]+) VUs, [0-9]+ complete and ([0-9]+) interrupted iterations": (
                self.read_running
            ),
            rf"{_MARK}([a-z][\w ]*)\.{{2,}}:\s*(\S.*)": self.read_row,
            rf"{_MARK}\{{\s*expected_response:\s*true\s*\}}\.{{2,}}:\s*(\S.*)": self.read_expected,
            r"(?:\S{1,3}\s+)?(?:GROUP|SCENARIO): .*": lambda _match: setattr(self, "is_part", True),
            r"execution: (?P<execution>local|cloud).*": self.read_beginning,
            r"\* .*?: (?:Up to )?[0-9.]+ iterations/\S+ for .*": lambda _match: setattr(self, "is_open", True),
            r".*(?:test run was aborted|stopping test prematurely).*": lambda _match: setattr(self, "is_aborted", True),
        }

    def has_figures(self) -> bool:
        return bool(self.tokens) or self.has_beginning

    def read_beginning(self, match: re.Match[str]) -> None:
        if self.has_beginning:
            raise several_runs("k6", match[0])
        self.has_beginning = True

    def read_running(self, match: re.Match[str]) -> None:
        """Read a line of progress: the last one has no user at work."""
        self.has_beginning = True
        if int(match[1]) == 0 and not self.is_cut(match[0]):  # padded: `000/200 VUs`
            self.has_end = True
            self.interrupted = int(match[3])
            self.users = int(match[2]) if self.users is None else self.users

    def read_row(self, match: re.Match[str]) -> None:
        self.metric, cells = match[1], match[2].strip()
        if self.is_part:
            return
        if self.metric in self.tokens:
            raise several_runs("k6", match[0])
        self.tokens[self.metric] = cells
        self.has_end = self.has_end or self.metric in {"data_sent", "vus_max"}
        if (self.is_last and not cells.endswith("/s")) or not self.read_cells(self.metric, cells):
            self.unread.append(match[0])

    def read_expected(self, match: re.Match[str]) -> None:
        if self.metric == "http_req_duration" and not self.is_part and (row := _trend(match[1])):
            self.times["expected"] = row

    def read_cells(self, metric: str, cells: str) -> bool:
        """Read the figures of one metric; False where they are damaged."""
        if metric in _TRENDS:
            if row := _trend(cells):
                self.times[metric] = row
            return row is not None
        if metric == "http_req_failed":
            failed = _FAILED.match(cells)
            self.failed = _failed(failed) if failed else None
            return failed is not None or _SHARE.fullmatch(cells) is not None
        if metric == "data_received":
            data = _DATA.match(cells)
            self.bytes_total, self.bytes_per_s = (
                parse_quantity(cell, DECIMAL_SIZES) for cell in (data.groups() if data else ("", ""))
            )
            return data is not None
        if metric == "vus":
            gauge = _GAUGE.match(cells)
            self.users = int(gauge[1]) if gauge else self.users
            return gauge is not None
        if metric not in {"http_reqs", "iterations", "dropped_iterations"}:
            return True
        counter = _COUNTER.match(cells)
        number, rate = (int(counter[1]), float(counter[2])) if counter else (None, None)
        if metric == "http_reqs":
            self.requests, self.rps = number, rate
        elif metric == "iterations":
            self.iterations, self.iteration_rate = number, rate
        else:
            self.dropped = number
        return counter is not None

    def result(self) -> LoadResult:
        is_http = self.requests is not None and bool(self.times.keys() & {"http_req_duration", "expected"})
        is_grpc = self.requests is None and "grpc_req_duration" in self.times
        is_whole = (is_http or is_grpc) and not self.unread and (self.has_end or not self.has_beginning)
        return self.result_of_summary(complete=is_whole)

    def result_of_summary(self, *, complete: bool) -> LoadResult:
        names = ("http_req_duration", "expected", "grpc_req_duration")
        empty = Latency(covers="request", corrected=False)
        latency = next((self.times[name] for name in names if name in self.times), empty)
        waiting = self.times.get("http_req_waiting")
        implied_s = implied_duration(self.requests, self.rps) or implied_duration(self.iterations, self.iteration_rate)
        return self.load_result(
            duration_s=implied_s if self.duration_s is None else self.duration_s,
            latency=without_times(latency) if latency.max_s == 0 else latency,  # no request was answered
            first_byte_mean_s=waiting and waiting.mean_s,
            complete=complete and not self.is_aborted,
            notes=self._notes(),
        )

    def _notes(self) -> Iterator[Note]:
        if self.users is not None:
            message = f"{self.users} virtual users are no connections: each may wait between its requests"
            yield Note(code="k6-users", message=message)
        if self.dropped or self.is_open:
            dropped = f"; {self.dropped} were dropped for want of a free user" if self.dropped else ""
            yield Note(code="open-model", message=f"iterations were due at a rate (open model){dropped}")
        if self.interrupted:
            message = (
                f"the end of the run interrupted {self.interrupted} iterations; requests that it aborted may be counted"
            )
            yield Note(code="k6-interrupted", message=message)
        if "expected" in self.times and "http_req_duration" not in self.times:
            message = "the times are of requests that did not fail: others are not stated"
            yield Note(code="k6-expected-only", message=message)
        if self.requests is None and "grpc_req_duration" in self.times:
            message = (
                f"no HTTP requests: times are of gRPC calls, in {self.iterations or 'an unknown number of'} iterations"
            )
            yield Note(code="k6-grpc", message=message)
        if self.is_aborted:
            yield Note(code="aborted", message="the run was aborted before its end")


def _failed(match: re.Match[str]) -> int | None:
    """Return the failures: the first count, or the second where the share says so, as authors mix up ✓ and ✗."""
    share, first, second = parse_number(match[1]), int(match[2]), int(match[4])
    total = second if match[3].startswith("out of") else first + second
    named = (first, second) if total != second else (first,)
    return next((n for n in named if share is not None and abs(100 * n - share * total) <= SHARE_STEP * total), None)


def _trend(cells: str) -> Latency | None:
    """Return the times of a row, `avg=26.54ms  min=2.67ms …`; None where one of them is damaged."""
    times: dict[str, float | None] = {}
    for name, percentile, token in _CELL.findall(cells):
        time = parse_duration(token)
        times[percentile or name] = parse_time(token) if time is None and not token.endswith(("m", "h")) else time
    return _latency(times) if times and None not in times.values() else None


def _latency(times: Mapping[str, float | None], step_s: float | None = None) -> Latency:
    named = {"mean": times.get("avg"), "50": times.get("med")}
    return latency_by_name({**times, **named}, "request", step_s=step_s)


class _Named(JsonOutput):
    name: str
    values: dict[str, JsonValue]


class _Document(JsonOutput):
    """JSON of --summary-export, of handleSummary, or of --new-machine-readable-summary; times are milliseconds."""

    metrics: dict[str, dict[str, JsonValue]] = Field(default={})
    run_ms: Figure | None = within("state", "testRunDurationMs", default=None)
    duration_s: Figure | None = within("config", "duration", default=None)
    version: str | None = within("metadata", "k6_version", default=None)
    named_metrics: tuple[_Named, ...] | None = within("results", "metrics", default=None)


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "k6")
    metrics: Mapping[str, Mapping[str, JsonValue]] = document.metrics
    if document.named_metrics is not None:
        metrics = {each.name: each.values for each in document.named_metrics}
    reader = _K6Reader()
    reader.tool_version = document.version
    reader.duration_s = document.duration_s if document.run_ms is None else of_unit(document.run_ms, 1e-3)
    for name in (*_TRENDS, "http_req_duration{expected_response:true}"):
        if values := _values(metrics, name):
            ranks = {key: (match[1] if (match := _RANK.fullmatch(key)) else key) for key in values}
            times = {ranks[key]: of_unit(value, 1e-3) for key, value in values.items()}
            reader.times["expected" if "{" in name else name] = _latency(times, 1e-9)
    requests, failed = _values(metrics, "http_reqs"), _values(metrics, "http_req_failed")
    reader.requests, reader.rps = _count(requests, "count"), requests.get("rate")
    if reader.rps is None and reader.requests is not None and reader.duration_s:
        reader.rps = reader.requests / reader.duration_s
    reader.failed = _count(failed, "passes" if "passes" in failed else "matches")
    reader.users = _count(_values(metrics, "vus"), "max")
    reader.dropped = _count(_values(metrics, "dropped_iterations"), "count")
    iterations, data = _values(metrics, "iterations"), _values(metrics, "data_received")
    reader.iterations, reader.iteration_rate = _count(iterations, "count"), iterations.get("rate")
    reader.bytes_total, reader.bytes_per_s = data.get("count"), data.get("rate")
    if reader.requests is None and not reader.times:
        names = ", ".join(list(metrics)[:5]) or "none"
        raise ParseError("this JSON of k6 has no requests of HTTP", why=f"its metrics: {names}")
    return reader.result_of_summary(complete=True)


_RANK = re.compile(r"p\(?([0-9]{1,2}(?:\.[0-9]{1,5})?)\)?")


def _values(metrics: Mapping[str, Mapping[str, JsonValue]], name: str) -> dict[str, float]:
    metric = metrics.get(name, {})
    values = metric.get("values", metric)
    if not isinstance(values, Mapping):
        return {}
    return {key: float(value) for key, value in values.items() if isinstance(value, int | float) and value >= 0}


def _count(values: Mapping[str, float], name: str) -> int | None:
    return int(values[name]) if name in values else None


def parse(text: str) -> LoadResult:
    """Return the result that k6 printed or wrote. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) and not _has_row(text) else _K6Reader().read(text)


FORMAT = OutputFormat(
    "k6",
    has_any(_OWN, _JSON),
    parse,
    (
        line_with("execution: (?:local|cloud)"),
        line_with(r"(?:\S{1,3}\s+)?TOTAL RESULTS"),
        line_with(rf"{_MARK}data_received\.{{2,}}:"),
        line_with(r'\{\s*"(?:root_group|metrics|options|config|state|setup_data)"'),
    ),
)


_ERROR = re.compile(r"level=error msg=(.*)")
_DROPPED = re.compile(r"dropped_iterations[.:]*\s+([0-9]{1,12})\b")


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what k6 measured: `duration_s` is from the first request to the last answer. Raises ParseError."""
    from benchkit.loadtools import reducer_output  # noqa: PLC0415 - numpy is slow to import

    rows = reducer_output.read_file(output.reduction, "k6")
    failed = sum(rows.errors.values()) + rows.other_errors
    measured = reducer_output.measurement(rows, ROWS)
    notes = (*measured.notes, *_notes(output, failed))
    errors = errors_of(rows.errors, rows.other_errors)
    measured = replace(measured, counters=measured.counters.model_copy(update={"errors": errors}), notes=notes)
    span = rows.span
    duration_s = (span.last_end_ns - span.first_start_ns) / NS_PER_S if span else None
    result = measured.result(duration_s=duration_s, failed=failed)
    result = result.model_copy(update={"complete": result.complete and rows.rows > 0})
    return ParsedOutput(result, measured)


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
LONGEST = "168h"
TREND_STATS = ("min", "avg", "med", "max", "p(75)", "p(90)", "p(95)", "p(99)", "p(99.9)", "p(99.99)")
TAGS = ("status", "error", "error_code")
"""Columns of the rows."""


def _validate(load: Load) -> Iterable[UnsupportedField]:
    if load.rate is not None and load.request_count is not None:
        yield UnsupportedField("request_count", "at a rate k6 runs for a time")


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
            "body": body_file(load, "k6", request),
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
    return {SCRIPT.name: SCRIPT.read_bytes(), LOAD: json.dumps(document).encode(), **body_files(load, "k6")}


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
    grace = f"{GRACE_S}s"
    if load.duration_s is None:
        return {
            "executor": "shared-iterations",
            "vus": load.connections,
            "iterations": load.request_count,
            "maxDuration": LONGEST,
            "gracefulStop": grace,
        }
    duration = f"{load.duration_s * 1000:.0f}ms"
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
    argv = [PROGRAM.name, "run", "--quiet", "--no-color", "--no-usage-report", "--address="]
    if load.histogram:
        argv.append("--out=csv=fileName=-,timeFormat=unix_nano")
    return [*argv, *load.extra_args, SCRIPT.name]


TOOL = Tool(
    name="k6",
    binary="k6",
    argv=_argv,
    parse=parse,
    measure=measure,
    rows=ROWS,
    go_program=PROGRAM,
    rate=RateSupport(is_open=False, clocks="one"),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(
        differing=frozenset({"method", "path", "headers", "body"}), follows_order=True, own_headers=("content-length",)
    ),
    files=_files,
    validate=_validate,
    limits=LoadLimits(least_s=1, rate_step=0.001, count="one each", reserved=("--out", "-o")),
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
    validate_target=_validate_target,
    own_s=10.0,
)
