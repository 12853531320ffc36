"""Parser of the output of k6 (0.30 to 2.x): its summary as text and as JSON, and its points.

Meaning of the figures, read from its source (internal/js/summary.js, summary.go, lib/netext/httpext):

- The rate is requests ÷ time of the whole run, with setup, pauses and the time in which the last iterations may end.
  Requests include failed ones. An iteration that the end of the run interrupts may have requests that count, and one in
  flight that does not. The text states only the number of these iterations.
- `http_req_failed` is a rate of failures: `passes` (✓, or the number before "out of") failed, and `fails` did not.
- `http_req_duration` runs from sending a request to the end of its answer, without connecting. Requests without an
  answer have a time too, often 0. `{ expected_response:true }` has those that did not fail.
- `http_req_waiting` is the time to the first byte. `iteration_duration` is the time of a whole script, with its pauses.
- Virtual users are no connections: each may wait, and open several. With an executor of an arrival rate iterations are
  due at a rate (open model). An iteration without a free user is dropped, and no time includes its wait.
- The time of the run is requests ÷ rate in the text, whose own time ("running (2m00.1s)") has steps of 0.1 s.
- kB and MB are 1000 and 1000². Data received includes headers.
- Text and JSON state the median as `med`, and the percentiles that the script asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pydantic import Field, JsonValue

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput, read_document, within
from benchkit.loadtools.k6.points import is_points, read_points
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    DECIMAL_SIZES,
    SECONDS,
    Figure,
    has_any,
    has_line,
    implied_duration,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_duration,
    parse_number,
    parse_quantity,
    several_runs,
    without_times,
)
from benchkit.loadtools.tool import RequestRows
from benchkit.models.load_result import Latency, LoadResult, Note

ROWS = RequestRows("k6", covers="request")
"""Every request that got an answer, in nanoseconds from sending it; the others are errors."""

_METRICS = (
    "http_req_duration|http_req_failed|http_req_waiting|http_reqs|iterations|dropped_iterations|vus|data_received"
)
_ROW = re.compile(rf"(?:\S{{1,6}}\s+)?({_METRICS})\.{{2,}}:\s*(\S.*)")
_OTHER_ROW = re.compile(r"(?:\S{1,6}\s+)?([a-z][\w ]*)\.{2,}:.*")
_SUBMETRIC = re.compile(r"(?:\S{1,6}\s+)?\{\s*(\S.*?)\s*\}\.{2,}:\s*(\S.*)")
_CELL = re.compile(r"(avg|min|med|max|p\(([0-9]{1,2}(?:\.[0-9]{1,5})?)\))=(\S+)")
_COUNTER = re.compile(r"([0-9]{1,18})\s+\(?([0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)/s")
_FAILED_SHARE = re.compile(r"[0-9.]+%(?:\s+[^\s0-9]{1,3}(?:\s+[<>]=?\s?[0-9.]+%)?)?")
"""A row without its counts, as in excerpts, with a remark of their author."""
_FAILED = re.compile(r"([0-9.]{1,12})%\s+\D{0,8}?([0-9]{1,18})\s+(out of\s+|\D{0,8}?\s*)([0-9]{1,18})")
SHARE_STEP = 0.01
"""Percent by which a share may differ from its counts: k6 cuts off behind two decimals."""
_GAUGE = re.compile(r"[0-9]+\s+min=[0-9]+\s+max=([0-9]+)")
_DATA = re.compile(r"([0-9.]+) ?([kMGTP]?B)\s+([0-9.]+) ?([kMGTP]?B)/s")
_SECTION = re.compile(r"(?:\S{1,3}\s+)?(GROUP|SCENARIO): .*")
_TOTAL = re.compile(r"(?:\S{1,3}\s+)?TOTAL RESULTS")
_RUNNING = re.compile(
    r"running \([0-9hm.]+s\), ([0-9]+)/([0-9]+) VUs, [0-9]+ complete and ([0-9]+) interrupted iterations"
)
_BEGINNING = re.compile(r"execution: (?:local|cloud).*")
_ARRIVALS = re.compile(r"\* .*?: (?:Up to )?[0-9.]+ iterations/\S+ for .*")
_ABORTED = re.compile(r".*(?:test run was aborted|stopping test prematurely).*")
_OWN = line_with(
    r"(?:\S{1,6}\s+)?(?:http_req_\w+|http_reqs|iteration_duration|vus_max)\.{2,}:",
    r"running \([0-9hm.]+s\), [0-9]+/[0-9]+ VUs, ",
    r"scenarios: \([0-9.]+%\) [0-9]+ scenarios?, [0-9]+ max VUs",
)
_has_row = has_line(r"(?:\S{1,6}\s+)?http_reqs\.{2,}:")
"""True for a text with the summary in rows, which a document of JSON may follow."""
_JSON = re.compile(r'"http_req(?:s|_\w+)(?:\{[^"\n]{0,200}\})?"\s*[:,]|"k6_version"\s*:')


class _K6Reader(Reader):
    """Figures of a summary, whatever its form."""

    tool = "k6"
    _own = _OWN

    latency: Latency | None = None
    """Times of all requests."""
    expected: Latency | None = None
    """Times of the requests that did not fail."""
    failed: int | None = None
    waiting_mean_s: float | None = None
    users: int | None = None
    dropped: int | None = None
    interrupted: int | None = None
    is_open: bool = False
    """True where iterations are due at a rate."""
    is_aborted: bool = False
    has_beginning: bool = False
    has_end: bool = False
    """True after the line of progress with no user at work, or the last row of a summary."""

    def __init__(self) -> None:
        super().__init__()
        self.metric = ""
        """Metric of the row before, to which a row in braces belongs."""
        self._rules = (
            (_RUNNING, self.read_running),
            (_ROW, self.read_row),
            (_SUBMETRIC, self.read_submetric),
            (_OTHER_ROW, self.read_other),
            (_SECTION, self.read_section),
            (_TOTAL, self.mark(total=True)),
            (_BEGINNING, self.mark(has_beginning=True)),
            (_ARRIVALS, self.put(is_open=True)),
            (_ABORTED, self.put(is_aborted=True)),
        )

    def has_figures(self) -> bool:
        return bool(self.stated) or self.has_beginning

    def result(self) -> LoadResult:
        has_figures = self.requests is not None and (self.latency or self.expected) is not None
        return self.result_of_summary(
            complete=has_figures and not self.unread and (self.has_end or not self.has_beginning)
        )

    def result_of_summary(self, *, complete: bool) -> LoadResult:
        latency = self.latency or self.expected or Latency(covers="request", corrected=False)
        return self.load_result(
            duration_s=implied_duration(self.requests, self.rps) if self.duration_s is None else self.duration_s,
            users=self.users,
            latency=without_times(latency) if latency.max_s == 0 else latency,  # no request was answered
            first_byte_mean_s=self.waiting_mean_s,
            failed=self.failed,
            dropped=self.dropped,
            complete=complete and not self.is_aborted,
            notes=self._notes(),
        )

    def _notes(self) -> Iterator[Note]:
        if self.users is not None:
            yield Note(
                code="k6-users",
                message=f"{self.users} virtual users are no connections: each may wait between its requests",
            )
        if self.dropped or self.is_open:
            dropped = f"; {self.dropped} were dropped for want of a free user" if self.dropped else ""
            yield Note(code="open-model", message=f"iterations were due at a rate (open model){dropped}")
        if self.interrupted:
            yield Note(
                code="k6-interrupted",
                message=f"the end of the run interrupted {self.interrupted} iterations; requests that it aborted may be counted",
            )
        if self.latency is None and self.expected is not None:
            yield Note(
                code="k6-expected-only", message="the times are of requests that did not fail: others are not stated"
            )
        if self.is_aborted:
            yield Note(code="aborted", message="the run was aborted before its end")

    def read_row(self, match: re.Match[str]) -> None:
        self.metric, cells = match[1], match[2].strip()
        if self.metric in self.stated:
            raise several_runs("k6", match[0])
        self.stated.add(self.metric)
        is_cut = self.unterminated and not cells.endswith("/s")
        if is_cut or not self.read_cells(self.metric, cells):
            self.unread.append(match[0])

    def read_cells(self, metric: str, cells: str) -> bool:
        """Read the figures of one metric; False where they are damaged."""
        if metric in {"http_req_duration", "http_req_waiting"}:
            row = _trend(cells)
            if metric == "http_req_duration":
                self.latency = row
            elif row is not None:
                self.waiting_mean_s = row.mean_s
            return row is not None
        if metric == "http_req_failed":
            failed = _FAILED.match(cells)
            self.failed = _failed(failed) if failed else None
            return failed is not None or _FAILED_SHARE.fullmatch(cells) is not None
        if metric == "data_received":
            data = _DATA.match(cells)
            self.bytes_total = parse_quantity(data[1] + data[2], DECIMAL_SIZES) if data else None
            self.bytes_per_s = parse_quantity(data[3] + data[4], DECIMAL_SIZES) if data else None
            return data is not None
        if metric == "vus":
            gauge = _GAUGE.match(cells)
            self.users = parse_count(gauge[1]) if gauge else self.users
            return gauge is not None
        counter = _COUNTER.match(cells)
        if counter and metric == "http_reqs":
            self.requests, self.rps = int(counter[1]), float(counter[2])
        elif counter and metric == "dropped_iterations":
            self.dropped = int(counter[1])
        return counter is not None

    def read_submetric(self, match: re.Match[str]) -> None:
        if self.metric == "http_req_duration" and match[1].replace(" ", "") == "expected_response:true":
            self.expected = None if self.unterminated else _trend(match[2])

    def read_other(self, match: re.Match[str]) -> None:
        self.metric = ""
        self.has_end = self.has_end or match[1] == ("data_sent" if "total" in self.stated else "vus_max")

    def read_section(self, _match: re.Match[str]) -> None:
        """Skip the rows of a group or scenario: the totals have them too."""
        self._rules = tuple(rule for rule in self._rules if rule[0] not in {_ROW, _SUBMETRIC})

    def read_running(self, match: re.Match[str]) -> None:
        """Read a line of progress: the last one has no user at work."""
        self.has_beginning = True
        at_work, users, interrupted = match.groups()
        if int(at_work) == 0 and not self.ends_mid_number(match[0]):  # padded: `000/200 VUs`
            self.has_end = True
            self.interrupted = int(interrupted)
            self.users = int(users) if self.users is None else self.users


def _failed(match: re.Match[str]) -> int | None:
    """Return the failures: the first count, or the second where the share says so, as authors mix up ✓ and ✗."""
    share, first, second = parse_number(match[1]), int(match[2]), int(match[4])
    total = second if match[3].startswith("out of") else first + second
    named = (first, second) if total != second else (first,)
    return next((n for n in named if share is not None and abs(100 * n - share * total) <= SHARE_STEP * total), None)


def _trend(cells: str) -> Latency | None:
    """Return the times of a row, `avg=26.54ms  min=2.67ms …`; None where one of them is damaged."""
    times: dict[str, float] = {}
    for name, percentile, token in _CELL.findall(cells):
        time = _time(token)
        if time is None:
            return None
        times[percentile or name] = time
    return _latency(times) if times else None


def _latency(times: Mapping[str, float]) -> Latency:
    """Return times by the names of k6: avg, min, med, max, and percentiles as "90"."""
    percentiles = {f"{float(name):g}": time for name, time in times.items() if name[0].isdigit()}
    named = {"min": times.get("min"), "mean": times.get("avg"), "50": times.get("med"), "max": times.get("max")}
    return latency_by_name(named | percentiles, "request")


def _time(token: str) -> float | None:
    time = parse_duration(token)
    return parse_quantity(token, SECONDS) if time is None and not token.endswith(("m", "h")) else time


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
    reader.tool_version, reader.duration_s = document.version, document.duration_s
    if document.run_ms is not None:
        reader.duration_s = of_unit(document.run_ms, 1e-3)
    reader.latency = _json_latency(_values(metrics, "http_req_duration"))
    reader.expected = _json_latency(_values(metrics, "http_req_duration{expected_response:true}"))
    requests = _values(metrics, "http_reqs")
    reader.requests, reader.rps = _count(requests, "count"), requests.get("rate")
    if reader.rps is None and reader.requests is not None and reader.duration_s:
        reader.rps = reader.requests / reader.duration_s
    failed = _values(metrics, "http_req_failed")
    reader.failed = _count(failed, "passes" if "passes" in failed else "matches")
    reader.waiting_mean_s = of_unit(_values(metrics, "http_req_waiting").get("avg"), 1e-3)
    reader.users = _count(_values(metrics, "vus"), "max")
    reader.dropped = _count(_values(metrics, "dropped_iterations"), "count")
    data = _values(metrics, "data_received")
    reader.bytes_total, reader.bytes_per_s = data.get("count"), data.get("rate")
    if reader.requests is None and reader.latency is None and reader.expected is None:
        raise ParseError(
            "this JSON of k6 has no requests of HTTP", why=f"its metrics: {', '.join(list(metrics)[:5]) or 'none'}"
        )
    return reader.result_of_summary(complete=True)


def _values(metrics: Mapping[str, Mapping[str, JsonValue]], name: str) -> dict[str, float]:
    """Return the figures of a metric, flat or below `values`; empty without it."""
    metric = metrics.get(name, {})
    values = metric.get("values", metric)
    if not isinstance(values, Mapping):
        return {}
    return {key: float(value) for key, value in values.items() if isinstance(value, int | float) and value >= 0}


def _count(values: Mapping[str, float], name: str) -> int | None:
    return int(values[name]) if name in values else None


_PERCENTILE = re.compile(r"p\(?([0-9]{1,2}(?:\.[0-9]{1,5})?)\)?")


def _json_latency(values: Mapping[str, float]) -> Latency | None:
    names = {name: (match[1] if (match := _PERCENTILE.fullmatch(name)) else name) for name in values}
    times = {names[name]: of_unit(value, 1e-3) for name, value in values.items()}
    return _latency(times).model_copy(update={"resolution_s": 1e-9}) if times else None


def parse(text: str) -> LoadResult:
    """Return the result that k6 printed or wrote. Raises ParseError for other text, and for several runs."""
    if is_points(text):
        return read_points(text)
    return _read_json(text) if _JSON.search(text) and not _has_row(text) else _K6Reader().read(text)


_has_mark = has_any(_OWN, _JSON)
FORMAT = OutputFormat(
    "k6",
    lambda text: _has_mark(text) or is_points(text),
    parse,
    (
        line_with("execution: (?:local|cloud)"),
        line_with(r"(?:\S{1,3}\s+)?TOTAL RESULTS"),
        line_with(r"(?:\S{1,6}\s+)?data_received\.{2,}:"),
        line_with(r'\{\s*"(?:root_group|metrics|options|config|state|setup_data)"'),
    ),
)
