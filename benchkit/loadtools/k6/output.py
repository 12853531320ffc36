"""Parser of the output of k6 (0.30 to 2.x): its summary as text and as JSON, and its points.

Meaning of the figures, read from its source (internal/js/summary.js, summary.go, lib/netext/httpext):

- The rate is requests ÷ time of the whole run, with setup, pauses and the time in which the last iterations may end.
  Requests include failed ones. An iteration that the end of the run interrupts may have requests that count, and one in
  flight that does not: the text states the number of such iterations alone.
- `http_req_failed` is a rate of failures: `passes` (✓, or the number before "out of") failed, and `fails` did not.
- `http_req_duration` runs from sending a request to the end of its answer, without connecting. Requests without an
  answer have a time too, often 0. `{ expected_response:true }` has those that did not fail.
- `http_req_waiting` is the time to the first byte. `iteration_duration` is the time of a whole script, with its pauses.
- Virtual users are no connections: each may wait, and open several. With an executor of an arrival rate iterations are
  due at a rate (open model); those without a free user are dropped, and their waiting is in no time.
- The time of the run is requests ÷ rate in the text, whose own time ("running (2m00.1s)") has steps of 0.1 s.
- kB and MB are 1000 and 1000². Data received includes headers.
- Text and JSON state the median as `med`, and the percentiles that the script asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from pydantic import Field, JsonValue

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput, read_document
from benchkit.loadtools.k6.points import is_points, read_points
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import (
    SECONDS,
    Figure,
    Reader,
    has_line,
    line_with,
    not_output_of,
    of_unit,
    parse_count,
    parse_duration,
    parse_number,
    parse_scaled,
    several_runs,
    unread_notes,
    without_times,
)
from benchkit.loadtools.tool import RequestRows
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

ROWS = RequestRows("k6", covers="request")
"""Every request that got an answer, in nanoseconds from sending it; the others are errors."""

_SIZES: Mapping[str, float] = {
    "B": 1,
    **{f"{p}B": 1000.0**power for power, p in enumerate(("k", "M", "G", "T", "P"), 1)},
}
_METRICS = (
    "http_req_duration|http_req_failed|http_req_waiting|http_reqs|iterations|dropped_iterations|vus|data_received"
)
_ROW = re.compile(rf"(?:\S{{1,6}}\s+)?({_METRICS})\.{{2,}}:\s*(\S.*)")
_OTHER_ROW = re.compile(r"(?:\S{1,6}\s+)?([a-z][\w ]*)\.{2,}:.*")
_SUBMETRIC = re.compile(r"(?:\S{1,6}\s+)?\{\s*(\S.*?)\s*\}\.{2,}:\s*(\S.*)")
_CELL = re.compile(r"(avg|min|med|max|p\(([0-9]{1,2}(?:\.[0-9]{1,5})?)\))=(\S+)")
_COUNTER = re.compile(r"([0-9]{1,18})\s+\(?([0-9]+(?:\.[0-9]+)?(?:e[+-][0-9]+)?)/s")
_FAILED_SHARE = re.compile(r"[0-9.]+%(?:\s+[^\s0-9]{1,3}(?:\s+[<>]=?\s?[0-9.]+%)?)?")
"""A row without its counts, as excerpts have it, with what their author thinks of it."""
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
_OWN = has_line(
    r"(?:\S{1,6}\s+)?(?:http_req_\w+|http_reqs|iteration_duration|vus_max)\.{2,}:",
    r"running \([0-9hm.]+s\), [0-9]+/[0-9]+ VUs, ",
    r"scenarios: \([0-9.]+%\) [0-9]+ scenarios?, [0-9]+ max VUs",
)
_has_row = has_line(r"(?:\S{1,6}\s+)?http_reqs\.{2,}:")
"""True for a text with the summary in rows, which a document of JSON may follow."""
_JSON = re.compile(r'"http_req(?:s|_\w+)(?:\{[^"\n]{0,200}\})?"\s*[:,]|"k6_version"\s*:')


@dataclass
class _Figures:
    """Figures of a summary, whatever its form; times in seconds, sizes in bytes."""

    latency: Latency | None = None
    """Times of all requests."""
    expected: Latency | None = None
    """Times of the requests that did not fail."""
    requests: int | None = None
    rate: float | None = None
    failed: int | None = None
    waiting_mean_s: float | None = None
    duration_s: float | None = None
    users: int | None = None
    dropped: int | None = None
    interrupted: int | None = None
    bytes_total: float | None = None
    bytes_per_s: float | None = None
    version: str | None = None
    is_open: bool = False
    """True where iterations are due at a rate."""
    is_aborted: bool = False
    notes: list[Note] = field(default_factory=list)

    def result(self, *, complete: bool) -> LoadResult:
        if self.duration_s is None and self.requests and self.rate:
            self.duration_s = float(f"{self.requests / self.rate:.9g}")
        latency = self.latency or self.expected or Latency()
        if latency.max_s == 0:  # no request was answered
            latency = without_times(latency)
        return LoadResult(
            tool="k6",
            tool_version=self.version,
            duration_s=self.duration_s,
            requests=self.requests,
            rps=self.rate,
            users=self.users,
            bytes_total=self.bytes_total,
            bytes_per_s=self.bytes_per_s,
            latency=latency.model_copy(update={"covers": "request", "corrected": False}),
            first_byte_mean_s=self.waiting_mean_s,
            errors=Errors(),
            failed=self.failed,
            dropped=self.dropped,
            complete=complete and not self.is_aborted,
            notes=(*self._notes(), *self.notes),
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
                message=f"the end of the run interrupted {self.interrupted} iterations; requests that it aborted may count",
            )
        if self.latency is None and self.expected is not None:
            yield Note(
                code="k6-expected-only", message="the times are of requests that did not fail: others are not stated"
            )
        if self.is_aborted:
            yield Note(code="aborted", message="the run was aborted before its end")


class _K6Reader(Reader):
    """Figures of k6's text by its own labels."""

    tool = "k6"

    def __init__(self) -> None:
        super().__init__()
        self.figures = _Figures()
        self.metric = ""
        """Metric of the row before, to which a row in braces belongs."""
        self.has_beginning = False
        self.has_end = False
        """True after the line of progress with no user at work, or the last row of a summary."""
        self._rules = (
            (_RUNNING, self.read_running),
            (_ROW, self.read_row),
            (_SUBMETRIC, self.read_submetric),
            (_OTHER_ROW, self.read_other),
            (_SECTION, self.read_section),
            (_TOTAL, self.mark(total=True)),
            (_BEGINNING, self.read_beginning),
            (_ARRIVALS, self.read_arrivals),
            (_ABORTED, self.read_aborted),
        )

    def read(self, text: str) -> LoadResult:
        lines = self.read_lines(text)
        if not _OWN(text) or not (self.stated or self.has_beginning):
            raise not_output_of("k6", lines)
        figures = self.figures
        has_figures = figures.requests is not None and (figures.latency or figures.expected) is not None
        complete = has_figures and not self.unread and (self.has_end or not self.has_beginning)
        figures.notes.extend(unread_notes(self.unread))
        return figures.result(complete=complete)

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
        figures = self.figures
        if metric in {"http_req_duration", "http_req_waiting"}:
            row = _trend(cells)
            if metric == "http_req_duration":
                figures.latency = row
            elif row is not None:
                figures.waiting_mean_s = row.mean_s
            return row is not None
        if metric == "http_req_failed":
            failed = _FAILED.match(cells)
            figures.failed = _failed(failed) if failed else None
            return failed is not None or _FAILED_SHARE.fullmatch(cells) is not None
        if metric == "data_received":
            data = _DATA.match(cells)
            figures.bytes_total = _size(data[1], data[2]) if data else None
            figures.bytes_per_s = _size(data[3], data[4]) if data else None
            return data is not None
        if metric == "vus":
            gauge = _GAUGE.match(cells)
            figures.users = parse_count(gauge[1]) if gauge else figures.users
            return gauge is not None
        counter = _COUNTER.match(cells)
        if counter and metric == "http_reqs":
            figures.requests, figures.rate = int(counter[1]), float(counter[2])
        elif counter and metric == "dropped_iterations":
            figures.dropped = int(counter[1])
        return counter is not None

    def read_submetric(self, match: re.Match[str]) -> None:
        if self.metric == "http_req_duration" and match[1].replace(" ", "") == "expected_response:true":
            self.figures.expected = None if self.unterminated else _trend(match[2])

    def read_other(self, match: re.Match[str]) -> None:
        self.metric = ""
        self.has_end = self.has_end or match[1] == ("data_sent" if "total" in self.stated else "vus_max")

    def read_section(self, _match: re.Match[str]) -> None:
        """Skip the rows of a group or scenario: the totals have them too."""
        self._rules = tuple(rule for rule in self._rules if rule[0] not in {_ROW, _SUBMETRIC})

    def read_beginning(self, match: re.Match[str]) -> None:
        self.set_once(match[0], execution=True)
        self.has_beginning = True

    def read_running(self, match: re.Match[str]) -> None:
        """Read a line of progress: that of the end has no user at work."""
        self.has_beginning = True
        at_work, users, interrupted = match.groups()
        if int(at_work) == 0 and not self.ends_mid_number(match[0]):  # padded: `000/200 VUs`
            self.has_end = True
            self.figures.interrupted = int(interrupted)
            self.figures.users = int(users) if self.figures.users is None else self.figures.users

    def read_arrivals(self, _match: re.Match[str]) -> None:
        self.figures.is_open = True

    def read_aborted(self, _match: re.Match[str]) -> None:
        self.figures.is_aborted = True


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
    if "med" in times:
        percentiles = {"50": times["med"], **percentiles}
    return Latency(min_s=times.get("min"), mean_s=times.get("avg"), max_s=times.get("max"), percentiles=percentiles)


def _time(token: str) -> float | None:
    time = parse_duration(token)
    scaled = parse_scaled(token, SECONDS) if time is None and not token.endswith(("m", "h")) else None
    return scaled[0] if scaled else time


def _size(number: str, unit: str) -> float | None:
    return of_unit(parse_number(number), _SIZES[unit])


class _State(JsonOutput):
    duration_ms: Figure = Field(alias="testRunDurationMs")


class _Config(JsonOutput):
    duration: Figure


class _Metadata(JsonOutput):
    k6_version: str | None = None


class _Named(JsonOutput):
    name: str
    values: dict[str, JsonValue]


class _Results(JsonOutput):
    metrics: tuple[_Named, ...]


class _Document(JsonOutput):
    """JSON of --summary-export, of handleSummary, or of --new-machine-readable-summary; times are milliseconds."""

    metrics: dict[str, dict[str, JsonValue]] = Field(default={})
    state: _State | None = None
    config: _Config | None = None
    metadata: _Metadata = _Metadata()
    results: _Results | None = None


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "k6")
    metrics: Mapping[str, Mapping[str, JsonValue]] = document.metrics
    figures = _Figures(version=document.metadata.k6_version)
    if document.results is not None:
        metrics = {each.name: each.values for each in document.results.metrics}
    if document.state is not None:
        figures.duration_s = of_unit(document.state.duration_ms, 1e-3)
    elif document.config is not None:
        figures.duration_s = document.config.duration
    figures.latency = _json_latency(_values(metrics, "http_req_duration"))
    figures.expected = _json_latency(_values(metrics, "http_req_duration{expected_response:true}"))
    requests = _values(metrics, "http_reqs")
    figures.requests, figures.rate = _count(requests, "count"), requests.get("rate")
    if figures.rate is None and figures.requests is not None and figures.duration_s:
        figures.rate = figures.requests / figures.duration_s
    failed = _values(metrics, "http_req_failed")
    figures.failed = _count(failed, "passes" if "passes" in failed else "matches")
    figures.waiting_mean_s = of_unit(_values(metrics, "http_req_waiting").get("avg"), 1e-3)
    figures.users = _count(_values(metrics, "vus"), "max")
    figures.dropped = _count(_values(metrics, "dropped_iterations"), "count")
    data = _values(metrics, "data_received")
    figures.bytes_total, figures.bytes_per_s = data.get("count"), data.get("rate")
    if figures.requests is None and figures.latency is None and figures.expected is None:
        raise ParseError(
            "this JSON of k6 has no requests of HTTP", why=f"its metrics: {', '.join(list(metrics)[:5]) or 'none'}"
        )
    return figures.result(complete=True)


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
    times = {names[name]: float(f"{value / 1000:.15g}") for name, value in values.items()}
    return _latency(times).model_copy(update={"resolution_s": 1e-9}) if times else None


def parse(text: str) -> LoadResult:
    """Return the result that k6 printed or wrote. Raises ParseError for other text, and for several runs."""
    if is_points(text):
        return read_points(text)
    return _read_json(text) if _JSON.search(text) and not _has_row(text) else _K6Reader().read(text)


def _is_output(text: str) -> bool:
    return _OWN(text) or _JSON.search(text) is not None or is_points(text)


FORMAT = OutputFormat(
    "k6",
    _is_output,
    parse,
    (
        line_with("execution: (?:local|cloud)"),
        line_with(r"(?:\S{1,3}\s+)?TOTAL RESULTS"),
        line_with(r"(?:\S{1,6}\s+)?data_received\.{2,}:"),
        line_with(r'\{\s*"(?:root_group|metrics|options|config|state|setup_data)"'),
    ),
)
