"""Parser of the output of `fortio load` (1.0 to 1.75): its text, and `-json`.

- Mean, deviation and extremes are exact. Percentiles are interpolated within the buckets of a histogram, whose least
  width is 1 ms (`-r`). Calls include failed ones, and so do times. With `-qps` times count from sending.
- The rate is calls ÷ elapsed time. "Code" counts answers by status, -1 a request without an answer. Failed are all but
  200 to 299 and 418 ("Error cases").
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from benchkit.errors import ParseError
from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, Reader, Times, within
from benchkit.loadtools.text import (
    Count,
    Figure,
    count_non_2xx,
    has_line,
    implied_duration,
    of_unit,
    parse_count,
    parse_duration,
    parse_number,
)
from benchkit.models.load_result import Errors, LoadResult, Note

_FULL = 0.98
"""Least share of the planned time of a run that was not interrupted."""
_BUCKETS = Note(
    code="buckets",
    message="fortio interpolates percentiles within buckets of 1 ms or more (-r): they are no finer than that",
)


class _FortioReader(Reader):
    tool = "fortio"
    figures: ClassVar[Figures] = {
        **dict.fromkeys(("duration_s", "planned_s"), parse_duration),
        **dict.fromkeys(("requests", "threads", "failed"), parse_count),
        **dict.fromkeys(("connect_mean_s", "asked"), parse_number),
    }

    asked: float | None = None
    planned_s: float | None = None
    aborted: str | None = None
    done: int | None = None
    section = ""

    def time(self, token: str) -> float | None:
        return parse_number(token)

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"Fortio (?P<tool_version>\S+) running at \S+ queries per second, .* for .*?: (?P<target>\S.*)": None,
            r"Starting at (?:max|(?P<asked>\S+)) qps with (?P<threads>\S+) thread\(s\) \[gomax [0-9]+\]"
            r"(?: for (?P<planned_s>[0-9]\S*).*|.*)": None,
            r"Ended after (?P<duration_s>\S+) : (?P<requests>\S+) calls\. qps=(?P<rps>\S+)": None,
            r"(Aggregated Function Time) : count (?P<requests>\S+) avg (?P<mean>\S+) \+/- (?P<stdev>\S+) "
            r"min (?P<min>\S+) max (?P<max>\S+) sum \S+": self.read_section,
            r"(Connection time histogram) \(s\) : count \S+ avg (?P<connect_mean_s>\S+) .*": self.read_section,
            r"(Response Body/Total Sizes) : count \S+ .* sum (?P<bytes_total>\S+)": self.read_section,
            r"(Error cases) : (?:no data|count (?P<failed>\S+) .*)": self.read_section,
            r"(.{1,60}?) : (?:count|no data)\b.*": self.read_section,
            r"# target (\S+)% (\S+)": self.read_target,
            r"Code +(-?[0-9]{1,3}) : ([0-9]{1,18})(?: \(.*)?": self.add_status,
            r"All done ([0-9]{1,18}) calls .* ms avg, (\S+) qps": self.read_done,
            r"Aborting because of (?P<aborted>.*)": None,
        }

    def read_section(self, match: re.Match[str]) -> None:
        self.section = match[1]
        self.set_figures(match)
        if self.section == "Error cases":
            self.failed = self.failed or 0

    def read_done(self, match: re.Match[str]) -> None:
        self.done = int(match[1])
        self.rps = parse_number(match[2]) if self.rps is None else self.rps

    def read_target(self, match: re.Match[str]) -> None:
        if self.section.startswith("Aggregated"):
            self.add(self.percentiles, match[1], None if self.is_last else parse_number(match[2]), match[0])

    def result(self) -> LoadResult:
        requests = self.done if self.requests is None else self.requests
        if requests is None:
            raise ParseError("fortio made no run", why=f"it says: Aborting because of {self.aborted}")
        self.times, self.step_s = self.times if requests else {}, None
        is_counted = bool(self.statuses) and sum(self.statuses.values()) == requests
        unanswered = self.statuses.pop("-1", 0)
        is_short = bool(self.duration_s and self.planned_s and self.duration_s < _FULL * self.planned_s)
        held = Note(code="target-rate", message=f"{self.asked or 0:g} calls/s were asked for; times count from sending")
        return self.load_result(
            requests=requests,
            duration_s=implied_duration(requests, self.rps) if self.duration_s is None else self.duration_s,
            connections=self.threads,
            errors=Errors(other=unanswered if is_counted else None),
            non_2xx=count_non_2xx(self.statuses) if is_counted else None,
            complete=bool(self.times and self.done) and not is_short and not self.unread,
            notes=(*([_BUCKETS] if self.percentiles else []), *([held] if self.asked else [])),
        )


class _Percentile(JsonOutput):
    Percentile: Figure
    Value: Figure


class _Document(JsonOutput):
    """Document of `-json`, by the names of the reader; durations are nanoseconds, times of histograms seconds."""

    tool_version: str | None = within("Version", default=None)
    target: str | None = within("URL", default=None)
    asked: str = within("RequestedQPS", default="")
    planned_s: str = within("RequestedDuration", default="")
    rps: Figure = within("ActualQPS")
    duration_s: Count = within("ActualDuration")
    threads: Count | None = within("NumThreads", default=None)
    requests: Count = within("DurationHistogram", "Count")
    times: Times = within("DurationHistogram")
    ranks: tuple[_Percentile, ...] | None = within("DurationHistogram", "Percentiles", default=None)
    failed: Count | None = within("ErrorsDurationHistogram", "Count", default=None)
    statuses: dict[str, Count] | None = within("RetCodes", default=None)
    bytes_total: Figure | None = within("Sizes", "Sum", default=None)
    connect_mean_s: Figure | None = within("ConnectionStats", "Avg", default=None)


def parse(text: str) -> LoadResult:
    """Return the result of a run. Raises ParseError for other text, for several runs, and where no run was made."""
    reader = _FortioReader()
    if '"DurationHistogram"' not in text:
        return reader.read(text)
    document = reader.set_document(text, _Document, 1)
    reader.asked, reader.planned_s = parse_number(document.asked), parse_duration(document.planned_s)
    reader.duration_s = of_unit(document.duration_s, 1e-9)
    reader.percentiles = {f"{each.Percentile:g}": each.Value for each in document.ranks or ()}
    reader.statuses, reader.bytes_total = dict(document.statuses or {}), document.bytes_total or None
    reader.done = None if "interrupted after" in document.planned_s else document.requests
    return reader.result()


_has_mark = has_line(
    r'.*"DurationHistogram"',
    r"Fortio \S+ running at ",
    r"Aggregated Function Time : ",
    r"Ended after \S+ : [0-9]+ calls\. qps=",
    "All done [0-9]+ calls",
)
FORMAT = OutputFormat("fortio", _has_mark, parse)
