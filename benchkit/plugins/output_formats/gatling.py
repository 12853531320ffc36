"""Parser of Gatling's figures (2 to 3.15): what it prints, `js/stats.json`, `js/stats.js` and `js/global_stats.json`.

Meaning of the figures, read from its source (charts/template/ConsoleTemplate.scala, GlobalStatsJsonTemplate.scala):

- Figures are of all requests, failed ones (KO) included; OK and KO alone stand beside them. A request also fails by a
  check of the script. Times are whole milliseconds, and include DNS, connecting and TLS where a connection is opened.
- The rate is requests ÷ time, which is rounded up to whole seconds: it is too low for a run of a few seconds. "3s
  elapsed" is rounded down. Old versions print plain figures, new ones have thousands separated by commas.
- JSON names its percentiles 1 to 4. They are 50, 75, 95 and 99 unless `gatling.conf` says otherwise. The two of early
  versions were 95 and 99, or 50 and 75, and are not stated. JSON has 0 where a kind of request has no times, text and
  `stats.js` have "-". Since 3.10 Gatling writes no JSON.
- Users arrive at rates (open) or are kept at a number (closed): the figures do not say which.
- `simulation.log` is binary since 3.10, and text of its own kind before: neither is read.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from json import JSONDecodeError, JSONDecoder
from typing import Annotated

from pydantic import BeforeValidator

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput, LaxJsonOutput, find_document, read_document, within
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    Figure,
    all_of_unit,
    errors_of,
    has_any,
    implied_duration,
    latency_by_name,
    line_with,
    several_runs,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

_JSON = re.compile(r'"numberOfRequests"\s*:\s*\{\s*"total"')
_TREE = re.compile(r'\{\s*"type"\s*:\s*"GROUP"')
_SCRIPT = re.compile(r"^\s*(?:var stats = \{|stats: (?=\{))", re.MULTILINE)
"""Beginning of `stats.js`, or of the figures of all requests in it."""
_BINARY_LOG = re.compile(r"\A\x00*[\x05-\x0c][0-9]{1,2}\.[0-9]{1,2}\.[0-9]")
_TEXT_LOG = re.compile(r"\A(?:RUN|ASSERTION|[\w.$]+\t[\w.$]*\tRUN)\t")
_GLOBAL = re.compile(r"-{4} Global Information -.*")
_SECTION = re.compile(r"-{4} (.+?) -+(?:\|.*)?")
_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,2})?|[0-9]{1,15}(?:\.[0-9]{1,3})?|-"
_PLAIN = r"[0-9]{1,15}(?:\.[0-9]{1,3})?|-"
_OLD_ROW = re.compile(rf"> (\S.*?)\s+({_PLAIN})\s+\(OK=({_PLAIN})\s*KO=({_PLAIN})\s*\)")
_NEW_ROW = re.compile(rf"> (\S.*?)\s*\|\s*({_NUMBER})\s*\|\s*({_NUMBER})\s*\|\s*({_NUMBER})")
_OLD_PROGRESS = re.compile(rf"> Global\s+\(OK=({_PLAIN})\s*KO=({_PLAIN})\s*\)")
_ERROR = re.compile(r"> (\S.*?)\s+([0-9][0-9,]*)\s+\(\s*[0-9.,]+ ?%\)")
_ELAPSED = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}.*?\s(?:([0-9]{1,6})h )?(?:([0-9]{1,9})m )?([0-9]{1,9})s elapsed"
)
_USERS = re.compile(r"(?:waiting: *([0-9,]+) */ )?active: *([0-9,]+) */ done: *([0-9,]+)")
_END = re.compile(r"={20,}")
_PERCENTILE = re.compile(r"response time ([0-9]{1,3}(?:\.[0-9]{1,4})?)(?:st|nd|rd|th) percentile")
_NAMES = {
    "request count": "requests",
    "min response time": "min",
    "max response time": "max",
    "mean response time": "mean",
    "std deviation": "stdev",
    "response time std deviation": "stdev",
    "mean requests/sec": "rate",
    "mean throughput": "rate",
}
_UNIT = re.compile(r" \((?:ms|rps)\)$")
_DAMAGED = re.compile(r"> (?:request count|m\w+ response time|std deviation|response time .* percentile|mean req).*")
_DEFAULT_RANKS = ("50", "75", "95", "99")
RANKS_ASSUMED = Note(
    code="ranks-assumed",
    message="Gatling's JSON does not say which percentiles it has: 50, 75, 95 and 99 are its defaults",
)
RANKS_UNKNOWN = Note(
    code="ranks-unknown", message="this JSON of an early Gatling does not say which percentiles it has"
)
_WRITES = "what Gatling prints at the end (Global Information), or js/global_stats.json of Gatling before 3.10"
_CHECK = re.compile(r"status\.|regex|jsonPath|css|xpath|substring|bodyString|header|Time\.", re.IGNORECASE)


def _number(token: str) -> float | None:
    """Return a figure of a row; None for "-". Thousands may be separated by commas."""
    return float(token.replace(",", "")) if token[0].isdigit() else None


class _GatlingReader(Reader):
    """Figures that Gatling prints, by its own labels; times in milliseconds."""

    tool = "gatling"

    def __init__(self) -> None:
        super().__init__()
        self.section = ""
        self.figures: dict[str, float | None] = {}
        """Figures of all requests under "Global Information"."""
        self.failed: float | None = None
        self.percentiles: dict[str, float] = {}
        self.errors: Counter[str] = Counter()
        self.progress: tuple[float, float] | None = None
        """Requests and failures so far."""
        self.elapsed: int | None = None
        self.users = 0
        self.has_global = False
        self.ended = False
        self._rules = (
            (_ELAPSED, self.read_elapsed),
            (_GLOBAL, self.read_global),
            (_SECTION, self.read_section),
            (_END, self.read_end),
            (_USERS, self.read_users),
            (_OLD_PROGRESS, self.read_old_progress),
            (_NEW_ROW, self.read_row),
            (_OLD_ROW, self.read_row),
            (_ERROR, self.read_error),
            (_DAMAGED, self.add_unread),
        )

    def has_figures(self) -> bool:
        return bool(self.figures) or self.progress is not None

    def read_line(self, line: str) -> None:
        """Match rows with and without their mark `>`, which may be removed like a mark of quoted text."""
        for pattern, action in self._rules:
            if match := pattern.fullmatch(line) or pattern.fullmatch(f"> {line}"):
                action(match)
                return

    def read_elapsed(self, match: re.Match[str]) -> None:
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        seconds += 60 * minutes + 3600 * hours
        if self.has_global or (self.elapsed is not None and seconds < self.elapsed):
            raise several_runs("gatling", match[0])
        self.elapsed = seconds

    def read_global(self, match: re.Match[str]) -> None:
        if self.has_global:
            raise several_runs("gatling", match[0])
        self.has_global, self.section, self.errors = True, "Global", Counter()

    def read_section(self, match: re.Match[str]) -> None:
        self.section = match[1]
        if match[1] == "Requests":
            self.errors = Counter()

    def read_end(self, _match: re.Match[str]) -> None:
        self.ended = self.has_global and bool(self.figures)
        self.section = ""

    def read_users(self, match: re.Match[str]) -> None:
        self.users = max(self.users, int(match[2].replace(",", "")))

    def read_old_progress(self, match: re.Match[str]) -> None:
        ok, ko = (_number(token) or 0 for token in match.groups())
        self.progress = ok + ko, ko

    def read_row(self, match: re.Match[str]) -> None:
        total, _, ko = (_number(token) for token in match.groups()[1:])
        label = _UNIT.sub("", match[1])
        if self.ends_mid_number(match[0]) and label in ("Global", "request count"):
            self.add_unread(match)  # digits of the failures may be missing
            return
        if self.section == "Requests" and label == "Global":
            self.progress = total or 0, ko or 0
        if self.section != "Global":
            return
        if percentile := _PERCENTILE.fullmatch(label):
            if total is not None:
                self.percentiles[percentile[1]] = total
        elif name := _NAMES.get(label):
            if name in self.figures:
                raise several_runs("gatling", match[0])
            self.figures[name] = total
            if name == "requests":
                self.failed = ko or 0

    def read_error(self, match: re.Match[str]) -> None:
        if self.section == "Errors":
            self.errors[match[1]] += int(match[2].replace(",", ""))

    def result(self) -> LoadResult:
        figures = self.figures
        requests, failed = figures.get("requests"), self.failed
        if not figures and self.progress is not None:
            requests, failed = self.progress
        count, rate = None if requests is None else int(requests), figures.get("rate")
        complete = (self.ended or (self.has_global and "rate" in figures and self.elapsed is None)) and not self.unread
        return self.load_result(
            duration_s=self.elapsed if self.has_global else None,
            requests=count,
            rps=rate,
            latency=_latency(figures | self.percentiles),
            errors=_errors(self.errors, failed),
            failed=None if failed is None else int(failed),
            complete=complete,
            notes=self._notes(requests, failed),
        )

    def _notes(self, requests: float | None, failed: float | None) -> Iterator[Note]:
        if failed and requests:
            yield FAILURES_INCLUDED
        if self.has_global and self.elapsed is not None:
            yield Note(code="whole-seconds", message="the duration is rounded down to whole seconds")
        if not self.has_global:
            yield Note(code="progress", message="the text has only what Gatling prints during a run")


FAILURES_INCLUDED = Note(code="failures-counted", message="failed requests (KO) are in Gatling's rate and latencies")


def _latency(times: Mapping[str, float | None]) -> Latency:
    """Return the latency of times in milliseconds, by the names of `latency_by_name`."""
    latency = latency_by_name(all_of_unit(times, 1e-3), "connect+request")
    has_times = any(times.get(name) is not None for name in ("min", "mean", "stdev", "max"))
    return latency.model_copy(update={"resolution_s": 1e-3 if has_times else None})


def _errors(messages: Mapping[str, int], failed: float | None) -> Errors:
    """Return errors by kind where the messages account for all failures; failed checks and statuses are others."""
    if failed is None or sum(messages.values()) != failed:
        return Errors()
    checks = sum(number for text, number in messages.items() if _CHECK.match(text))
    return errors_of({text: number for text, number in messages.items() if not _CHECK.match(text)}, checks)


_Number = Annotated[Figure | None, BeforeValidator(lambda value: None if value == "-" else value)]
"""A figure, which `stats.js` has as text; `-` where a kind of request has none."""


class _GatlingStats(LaxJsonOutput):
    """Figures of all requests; times are milliseconds."""

    requests: _Number = within("numberOfRequests", "total")
    failed: _Number = within("numberOfRequests", "ko", default=0)
    min: _Number = within("minResponseTime", "total")
    max: _Number = within("maxResponseTime", "total")
    mean: _Number = within("meanResponseTime", "total")
    stdev: _Number = within("standardDeviation", "total")
    percentile1: _Number = within("percentiles1", "total", default=None)
    percentile2: _Number = within("percentiles2", "total", default=None)
    percentile3: _Number = within("percentiles3", "total", default=None)
    percentile4: _Number = within("percentiles4", "total", default=None)
    rate: _Number = within("meanNumberOfRequestsPerSecond", "total", default=None)


class _GatlingTree(JsonOutput):
    stats: _GatlingStats


def _of_document(stats: _GatlingStats) -> LoadResult:
    requests, failed = int(stats.requests or 0), int(stats.failed or 0)
    times = {"min": stats.min, "mean": stats.mean, "max": stats.max, "stdev": stats.stdev}
    percentiles = (stats.percentile1, stats.percentile2, stats.percentile3, stats.percentile4)
    is_known = None not in percentiles
    if is_known:
        times |= dict(zip(_DEFAULT_RANKS, percentiles, strict=True))
    notes = [RANKS_ASSUMED if is_known else RANKS_UNKNOWN]
    if failed:
        notes.append(FAILURES_INCLUDED)
    return LoadResult(
        tool="gatling",
        duration_s=implied_duration(requests, stats.rate),
        requests=requests,
        rps=stats.rate,
        latency=_latency(times if requests else {}),
        errors=_errors({}, failed),
        failed=failed,
        notes=tuple(notes),
    )


def parse(text: str) -> LoadResult:
    """Return the result of a run. Raises ParseError for other text, for several runs, and for simulation.log."""
    if _BINARY_LOG.match(text) or _TEXT_LOG.match(text):
        raise ParseError("this is simulation.log of gatling, which benchkit does not read", hint=f"give {_WRITES}")
    if (script := [match for match in _SCRIPT.finditer(text) if match[0].endswith("stats: ")]) and _JSON.search(text):
        return _of_document(read_document(_first_object(text[script[0].end() :]), _GatlingStats, "gatling"))
    document = find_document(text, _JSON, "gatling")
    if document is None:
        return _GatlingReader().read(text)
    if _TREE.match(document):
        return _of_document(read_document(document, _GatlingTree, "gatling").stats)
    return _of_document(read_document(document, _GatlingStats, "gatling"))


def _first_object(text: str) -> str:
    """Return the object at the beginning of a text; the whole text where it is truncated."""
    try:
        return text[: JSONDecoder().raw_decode(text)[1]]
    except JSONDecodeError:
        return text


_MARK = line_with(
    r"-{4} Global Information -",
    r"request count {1,120}(?:\| {0,20})?[0-9,]{1,20} {1,20}(?:\||\(OK=)",
    r"Global {1,120}(?:\| {0,20}[0-9,]{1,20} \||\(OK=)",
    r"---- Response Time Distribution -",
)
FORMAT = OutputFormat(
    "gatling",
    has_any(_MARK, _JSON, _BINARY_LOG, _TEXT_LOG),
    parse,
    (
        line_with(r"Simulation \S+ started\.\.\."),
        line_with(r"-{4} Global Information -"),
    ),
)
