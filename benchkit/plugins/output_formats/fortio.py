"""Parser of the output of `fortio load` (1.0 to 1.75): its text, with its log in either form, and `-json`.

Meaning of the figures, read from its source (periodic/periodic.go, stats/stats.go, fhttp/httprunner.go):

- Mean, deviation and extremes are exact. Percentiles are interpolated within the buckets of a histogram, whose least
  width is 1 ms (`-r`). Below that they show where a bucket lies, not how fast a server is.
- Calls include failed ones, and so do times. A time runs from before the request, or before connecting where its
  connection was closed, to the end of the answer. The first connections are opened by a warm-up, which is not counted.
- With `-qps` each thread sends at its own times; a late one catches up. Times count from sending.
- The rate is calls ÷ elapsed time. "Code" counts answers by status, -1 a request without an answer. Failed are all but
  200 to 299 and 418 ("Error cases").
- "Body/Total Sizes" are headers and bodies together where the fast client was used.
- Figures are printed with up to nine significant digits, as "4.9e-05" where they are small.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import LaxJsonOutput, find_document, read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    Count,
    Figure,
    count_non_2xx,
    has_line,
    implied_duration,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_duration,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

_JSON = re.compile(r'"DurationHistogram"\s*:')
_NIGHTHAWKS = re.compile(
    r'"RequestedQPS"\s*:\s*[0-9]|"Count"\s*:\s*"[0-9]|"Percent"\s*:\s*0\s*[,}]|"Version"\s*:\s*"[^"]*/(?:Clean|Modified)/'
)
"""Marks of Nighthawk in fortio's form: counts as text, a rate that is none, a first bucket without requests."""
_OWN = re.compile(r'"(?:ErrorsDurationHistogram|Exactly|SocketCount|RunID)"\s*:')
_RUNNING = re.compile(r"Fortio (\S+) running at (\S+) queries per second, .* for .*?: (\S.*)")
_STARTING = re.compile(
    r"Starting at (\S+) qps with (\S+) thread\(s\) \[gomax [0-9]+\] (?:for ([0-9]\S*)(?: : .*\(total ([0-9]{1,18})\))?.*|.*)"
)
_ENDED = re.compile(r"Ended after (\S+) : (\S+) calls\. qps=(\S+)")
_LOGGED = re.compile(r'\{"ts":.*"msg":"Run ended".*\}')
_COUNTER = re.compile(r"(.{1,60}?) : (?:no data|count (\S+) avg (\S+) \+/- (\S+) min (\S+) max (\S+) sum (\S+))")
_TARGET = re.compile(r"(?:# )?target (\S+)% (\S+)")
_CODE = re.compile(r"Code +(-?[0-9]{1,3}) : ([0-9]{1,18})(?: \(.*)?")
_DONE = re.compile(r"All done ([0-9]{1,18}) calls (?:\(plus [0-9]+ warmup\) )?(\S+) ms avg, (\S+) qps")
_ABORTED = re.compile(r"Aborting because of (.*)")
_BEHIND = re.compile(r"WARNING (\S+)% of sleep were falling behind")
_DAMAGED = re.compile(r"(?:Ended after|All done|target|Code +-?[0-9]|Aggregated Function Time) .*")
_NUMBER = re.compile(r"[0-9]{1,18}(?:\.[0-9]{1,18})?(?:e[+-][0-9]{2})?")
_CALLS, _ERRORS = "Aggregated Function Time", "Error cases"
_CONNECTIONS, _SIZES = "Connection time histogram (s)", "Response Body/Total Sizes"
_READ = frozenset({_CALLS, _ERRORS, _CONNECTIONS, _SIZES})
"""Headings whose figures are read; others are of pauses, which may be negative."""
_TEAPOT = "418"


def _number(token: str) -> float | None:
    """Return a figure as Go's %g prints it."""
    return float(token) if _NUMBER.fullmatch(token) else None


_Ended = tuple[float | None, int | None, float | None]
"""Elapsed seconds, calls and rate."""


class _FortioReader(Reader):
    tool = "fortio"

    target_rate: float | None = None
    ended: _Ended | None = None
    """Elapsed seconds, calls and rate, as printed."""
    logged: _Ended | None = None
    """The same, as logged: with more digits."""
    done: tuple[int | None, float | None] | None = None
    """Calls and rate of the last line."""
    mean_s: float | None = None
    """Mean of the last line, in steps of a microsecond."""
    aborted: str | None = None
    planned_s: float | None = None
    planned_calls: int | None = None
    behind: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.counters: dict[str, tuple[float, ...]] = {}
        """Count, mean, deviation, minimum, maximum and sum by heading; empty for no data."""
        self.percentiles: dict[str, dict[str, float]] = {}
        """Percentiles by heading."""
        self.codes: dict[str, int] = {}
        self.heading = ""
        self._rules = (
            (_RUNNING, self.read_running),
            (_STARTING, self.read_starting),
            (_ENDED, self.read_ended),
            (_LOGGED, self.read_logged),
            (_TARGET, self.read_target),
            (_CODE, self.read_code),
            (_DONE, self.read_done),
            (_ABORTED, self.latest(aborted=str)),
            (_BEHIND, self.latest(behind=_number)),
            (_COUNTER, self.read_counter),
            (_DAMAGED, self.add_unread),
        )

    def has_figures(self) -> bool:
        return self.has_run() or self.aborted is not None

    def has_run(self) -> bool:
        return bool(self.stated & {"ended", "logged", "done"}) or _CALLS in self.counters

    def read_running(self, match: re.Match[str]) -> None:
        url = None if self.unterminated else match[3].strip()
        rate = 0.0 if match[2].startswith("-") else _number(match[2])  # -1: as fast as possible
        self.set_once(match[0], tool_version=match[1], target_rate=rate, target=url)

    def read_starting(self, match: re.Match[str]) -> None:
        self.set_once(match[0], threads=parse_count(match[2]))
        self.target_rate = self.target_rate or _number(match[1])
        self.planned_s = parse_duration(match[3]) if match[3] else None
        self.planned_calls = int(match[4]) if match[4] else None

    def read_ended(self, match: re.Match[str]) -> None:
        rate = None if self.unterminated else _number(match[3])
        self.set_once(match[0], ended=(parse_duration(match[1]), parse_count(match[2]), rate))

    def read_logged(self, match: re.Match[str]) -> None:
        try:
            line = _FortioLogged.model_validate_json(match[0])
        except ValueError:
            self.unread.append(match[0])
            return
        elapsed = of_unit(line.elapsed, 1e-9) if isinstance(line.elapsed, int) else parse_duration(line.elapsed)
        self.set_once(match[0], logged=(elapsed, line.calls, line.qps))

    def read_counter(self, match: re.Match[str]) -> None:
        self.heading = match[1]
        if match[1] not in _READ:
            return
        tokens = [token for token in match.groups()[1:] if token is not None]
        figures = tuple(figure for token in tokens if (figure := _number(token)) is not None)
        is_whole = len(figures) == len(tokens) and not (self.unterminated and tokens)
        self.add_once(self.counters, match[1], figures if is_whole else None, match[0])

    def read_target(self, match: re.Match[str]) -> None:
        share, time = _number(match[1]), _number(match[2])
        if self.heading not in _READ:
            return
        if share is None or time is None or self.unterminated:
            self.unread.append(match[0])
        else:
            self.percentiles.setdefault(self.heading, {})[f"{share:g}"] = time

    def read_code(self, match: re.Match[str]) -> None:
        if self.ends_mid_number(match[0]):
            self.add_unread(match)
            return
        self.codes[match[1]] = int(match[2])

    def read_done(self, match: re.Match[str]) -> None:
        self.set_once(match[0], done=(parse_count(match[1]), _number(match[3])))
        self.mean_s = of_unit(_number(match[2]), 1e-3)

    def result(self) -> LoadResult:
        if not self.has_run():
            raise ParseError("fortio made no run", why=f"it says: Aborting because of {self.aborted}")
        calls = self.counters.get(_CALLS)
        duration, requests, rate = self.logged or _without_rounding(self.ended) or (None, *(self.done or (None, None)))
        if requests is None and calls:
            requests = int(calls[0])
        errors, sizes, opened = (self.counters.get(heading) for heading in (_ERRORS, _SIZES, _CONNECTIONS))
        has_begun = bool(self.stated & {"target", "threads", "ended", "logged"})
        has_codes = sum(self.codes.values()) == requests
        failed = _failed(self.codes) if has_codes else None
        if errors is not None:
            failed = int(errors[0]) if errors else 0
        return self.load_result(
            duration_s=implied_duration(requests, rate) if duration is None else duration,
            requests=requests,
            rps=rate,
            connections=self.threads,
            bytes_total=sizes[5] if sizes else None,
            latency=_latency(calls[1:5] if calls else (self.mean_s,), self.percentiles.get(_CALLS, {})),
            connect_mean_s=opened[1] if opened else None,
            failed=failed,
            complete=not self.unread
            and _CALLS in self.counters
            and ("done" in self.stated or not has_begun)
            and not _is_cut_short(duration, self.planned_s, requests, self.planned_calls),
            notes=self._notes(),
            **_by_code(self.codes, is_whole=has_codes),
        )

    def _notes(self) -> Iterator[Note]:
        if self.percentiles.get(_CALLS):
            yield BUCKETS
        if self.target_rate:
            yield Note(
                code="target-rate", message=f"{self.target_rate:g} calls/s were asked for; times count from sending"
            )
        if self.done and not self.ended and not self.logged:
            yield Note(code="rate-rounded", message="the last line of fortio rounds the rate to 0.1/s")
        if self.behind is not None:
            yield Note(
                code="rate-not-held", message=f"fortio was late for {self.behind:g} % of its calls, and caught up"
            )


def _without_rounding(ended: _Ended | None) -> _Ended | None:
    """Return elapsed seconds, calls and rate with all digits of the rate, where the printed one is its rounding."""
    elapsed, calls, rate = ended or (None, None, None)
    if not elapsed or calls is None or rate is None:
        return ended
    exact = calls / elapsed
    return elapsed, calls, exact if float(f"{exact:.5g}") == rate else rate


BUCKETS = Note(
    code="buckets",
    message="fortio interpolates percentiles within buckets of 1 ms or more (-r): they are no finer than that",
)


def _latency(figures: tuple[float | None, ...], percentiles: Mapping[str, float]) -> Latency:
    """Return the latency of (mean, deviation, minimum, maximum), or of the first of them."""
    named = dict(zip(("mean", "stdev", "min", "max"), figures, strict=False))
    return latency_by_name({**named, **percentiles}, "connect+request")


_FULL = 0.98
"""Least share of the planned time, or of the calls, of a run that was not interrupted."""


def _is_cut_short(
    duration: float | None, planned_s: float | None, calls: int | None, planned_calls: float | None
) -> bool:
    """Return whether a run had less time than planned, and fewer calls where their number was planned too."""
    is_short = duration is not None and planned_s is not None and duration < _FULL * planned_s
    return is_short and (calls is None or planned_calls is None or calls < _FULL * planned_calls)


def _failed(codes: Mapping[str, int]) -> int:
    return sum(number for code, number in codes.items() if not code.startswith("2") and code != _TEAPOT)


def _by_code(codes: Mapping[str, int], *, is_whole: bool) -> dict[str, object]:
    """Return statuses and errors by fortio's codes; -1 is a request without an answer."""
    statuses = {code: number for code, number in codes.items() if not code.startswith("-")}
    return {
        "status": statuses,
        "errors": Errors(other=codes.get("-1", 0) if is_whole else None),
        "non_2xx": count_non_2xx(statuses) if is_whole else None,
    }


class _FortioLogged(LaxJsonOutput):
    """Line of the log at the end of a run; `elapsed` in nanoseconds, in early versions as Go prints it."""

    elapsed: Count | str
    calls: Count
    qps: Figure


class _FortioPercentile(LaxJsonOutput):
    Percentile: Figure
    Value: Figure


class _FortioHistogram(LaxJsonOutput):
    Count: Count
    Min: Figure = 0
    Max: Figure = 0
    Sum: Figure = 0
    Avg: Figure = 0
    StdDev: Figure = 0
    Percentiles: list[_FortioPercentile] | None = None


class FortioDocument(LaxJsonOutput):
    """Document of `-json`; durations are nanoseconds, times of histograms seconds."""

    Version: str | None = None
    URL: str | None = None
    Destination: str | None = None
    RequestedQPS: str | float | None = None
    RequestedDuration: str | None = None
    ActualQPS: Figure
    ActualDuration: Count
    NumThreads: Count | None = None
    DurationHistogram: _FortioHistogram
    ErrorsDurationHistogram: _FortioHistogram | None = None
    RetCodes: dict[str, Count] | None = None
    BytesReceived: Count | None = None
    Sizes: _FortioHistogram | None = None
    ConnectionStats: _FortioHistogram | None = None


def _planned_calls(rate: str, duration: float | None) -> float | None:
    per_second = _number(rate)
    return None if per_second is None or duration is None else per_second * duration


def read_fortio(text: str) -> FortioDocument | None:
    """Return the document in fortio's form; None for a text without one. Raises ParseError for several, or a part."""
    document = find_document(text, _JSON, "fortio")
    return None if document is None else read_document(document, FortioDocument, "fortio")


def _of_document(document: FortioDocument) -> LoadResult:
    times, codes = document.DurationHistogram, document.RetCodes or {}
    is_http = all(re.fullmatch(r"-?[0-9]{1,3}", code) for code in codes)
    is_whole = bool(codes) and is_http and sum(codes.values()) == times.Count
    failures = document.ErrorsDurationHistogram
    percentiles = {f"{each.Percentile:g}": each.Value for each in times.Percentiles or ()}
    asked = str(document.RequestedQPS or "max")
    planned = document.RequestedDuration or ""
    duration, planned_s = of_unit(document.ActualDuration, 1e-9), parse_duration(planned)
    notes = [BUCKETS] if percentiles else []
    if asked != "max":
        notes.append(Note(code="target-rate", message=f"{asked} calls/s were asked for; times count from sending"))
    return LoadResult(
        tool="fortio",
        tool_version=document.Version,
        target=document.URL or document.Destination,
        duration_s=duration,
        requests=times.Count,
        rps=document.ActualQPS,
        connections=document.NumThreads,
        threads=document.NumThreads,
        bytes_total=document.Sizes.Sum if document.Sizes and document.Sizes.Count else None,
        latency=_latency((times.Avg, times.StdDev, times.Min, times.Max) if times.Count else (), percentiles),
        connect_mean_s=document.ConnectionStats.Avg if document.ConnectionStats else None,
        failed=failures.Count if failures else _failed(codes) if is_whole else None,
        complete="interrupted after" not in planned
        and not _is_cut_short(duration, planned_s, times.Count, _planned_calls(asked, planned_s)),
        notes=tuple(notes),
        **_by_code(codes if is_http else {}, is_whole=is_whole),
    )


def parse(text: str) -> LoadResult:
    """Return the result of a run. Raises ParseError for other text, for several runs, and where no run was made."""
    document = None if is_of_nighthawk(text) else read_fortio(text)
    return _FortioReader().read(text) if document is None else _of_document(document)


def is_of_nighthawk(text: str) -> bool:
    """Return whether a text has a document in fortio's form that Nighthawk wrote."""
    return _is_document(text) and _NIGHTHAWKS.search(text) is not None and _OWN.search(text) is None


def _is_document(text: str) -> bool:
    return _JSON.search(text) is not None and '"ActualQPS"' in text


_has_mark = has_line(
    r"Fortio \S+ running at ",
    r"Aggregated Function Time : ",
    r"Ended after \S+ : [0-9]+ calls\. qps=",
    r"All done [0-9]+ calls (?:\(plus [0-9]+ warmup\) )?\S+ ms avg, ",
    r'\{"ts":.*"file":"periodic\.go"',
)
FORMAT = OutputFormat(
    "fortio",
    lambda text: _has_mark(text) or (_is_document(text) and not is_of_nighthawk(text)),
    parse,
    (
        line_with(r"Fortio \S+ running at "),
        line_with(r"Starting at \S+ qps with "),
        line_with(r"Ended after \S+ : "),
        line_with(r"Aggregated Function Time : "),
    ),
)
