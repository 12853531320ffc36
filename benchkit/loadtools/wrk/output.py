"""Parser of the output of wrk (2 to 4.2) and wrk2.

Meaning of the figures, read from the sources of both (src/wrk.c, src/stats.c, src/units.c):

- Two decimals in a unit that changes at 85 % of the next one: 0.85 ms, 0.90m, 0.90GB. K, M and G are 1024 for bytes and
  1000 for requests. A mean from 999.995 ms up to 1 s is truncated to the column's width and reads `1000.00m`.
- Since version 4 wrk adds samples for coordinated omission before it prints or passes them to Lua; versions 2 and 3 do
  not. The expected interval is runtime ÷ (requests ÷ connections) (`stats_correct`). In wrk2 times count from when a
  request should have been sent. The text has the version only where `-v` was given.
- Answers later than the timeout (2 s by default) are counted as `timeout` and have no latency since version 4. Answers
  that never came are not counted at all. Before version 4, and in wrk2, a waiting connection is counted again
  at every check.
- The connections of each thread are connections ÷ threads, rounded down.
- "Non-2xx or 3xx responses" counts status above 399. That line, and "Socket errors", are printed unless all are zero.
- A server that closes without "Connection: close" causes a read error for each answer; the answer is counted as well.
- Latency runs from writing the request to the end of the answer, without connecting.
- wrk2 prints lines "Thread calibration", and "HdrHistogram" in the heading of its distribution. Without them a text
  looks like wrk's, and only who ran it knows. Its target rate (`-R`) is not printed, and an overloaded server raises
  its times for as long as the run lasts. "Uncorrected" counts from sending, and is stated only where it stands alone.
  The calibration of the first ten seconds is not in its latencies, but in requests, bytes and duration.
- DeathStarBench's wrk2 has the 99th percentile where the others have the maximum; the column's name shows which.
- Where no answer was recorded the row reads `0.00us 0.00us 0.00us -nan%`: zeros that are no measured times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader, Rules
from benchkit.loadtools.text import (
    BINARY_SIZES,
    NOT_A_NUMBER,
    SECONDS,
    TEXT_AFTER_LINE,
    has_line,
    line_with,
    parse_count,
    parse_number,
    parse_quantity,
    parse_scaled,
    several_runs,
    without_times,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

_RATES: Mapping[str, float] = {"": 1, **{prefix: 1000.0**power for power, prefix in enumerate("kMGTP", 1)}}

_FIGURE = r"(-?(?:nan|inf)(?:us|ms|s)?|[0-9.]{1,24}[^\s0-9.%]{0,2})"
_SHARE = r"(-?nan|[0-9.]{1,24})%?"
_VERSION = re.compile(r"wrk\s+(\S+) \[\w+\] Copyright.*")
_RUNNING = re.compile(r"(?:Running \S+ test @|Making \S+ requests to) (\S+).*")
_CONNECTIONS = re.compile(r"(\S+) threads? and (\S+) connections?")
_COLUMNS = re.compile(r"(?:\^C\s*)?Thread Stats\s+Avg\s+Stdev\s+(\S+)\s+\+/- Stdev")
_TABLE_COLUMNS = re.compile(r"Stats?\s+Avg\s+Stdev\s+(Max)\s+\+/- Stdev")
"""Heading of a table in which an author repeats the rows of wrk."""
_ROW = re.compile(  # 999.995 ms and more fills the third column, without a blank before it
    rf"(Latency|Req/Sec)\s+{_FIGURE}\s+{_FIGURE}(?:\s+|(?=1000\.00ms)){_FIGURE}\s+{_SHARE}"
)
_DAMAGED_PERCENTILE = re.compile(r"[0-9.]{1,9}\s?%\s.*")
_DAMAGED = re.compile(
    r"(?:Latency\s(?!\s*Distribution)|Req/Sec\s|Socket errors:|Non-2xx or 3xx|(?:Requests|Transfer)/sec).*"
)

HISTOGRAM = Path(__file__).with_name("histogram.lua")
"""Lua script that prints wrk's whole latency histogram and its exact counters after wrk's own text."""
_CALIBRATION = re.compile(r"Thread calibration: mean lat.*")
_DISTRIBUTION = re.compile(r"Latency Distribution(?:\s+\(HdrHistogram - (.*)|\s+\(.*)?")
_PERCENTILE = re.compile(rf"([0-9]{{1,3}}(?:\.[0-9]{{1,6}})?)%\s+{_FIGURE}")
_REQUESTS = re.compile(r"(\S+) requests in (\S+),\s+(\S+) read")
_SOCKET_ERRORS = re.compile(r"Socket errors: connect (\S+), read (\S+), write (\S+), timeout (\S+)")
_NON_2XX = re.compile(r"Non-2xx or 3xx responses:\s*(\S+)")
_PER_SECOND = re.compile(r"(Requests|Transfer)/sec:\s*(\S+)")


_IDENTIFYING_FIELDS = frozenset({"threads", "latency", "requests", "socket_errors", "bytes_per_s", "histogram"})
"""Fields that no other tool prints; hey prints "Requests/sec:" too, and autocannon "Running 10s test @"."""


class _WrkReader(Reader):
    tool = "wrk"
    _behind_lines = TEXT_AFTER_LINE
    _prints_no_bar = True

    is_wrk2: bool = False
    """True where the text has lines "Thread calibration", or names its distribution ("Recorded Latency")."""
    latency: Latency | None = None
    """Row of "Thread Stats". Its third column is the maximum, but in DeathStarBench's wrk2 the 99th percentile."""
    within_stdev_pct: float | None = None
    rate_sampled: bool = True
    """False where the row of rates has no mean."""
    distribution: Mapping[str, float] | None = None
    uncorrected: Mapping[str, float] | None = None
    """wrk2's distribution of times from sending, which is used where the text has no other latency."""
    socket_errors: Errors | None = None
    non_2xx_or_3xx: int | None = None
    ended: bool = False
    """True where the text has "Transfer/sec", wrk's last line."""

    def __init__(self) -> None:
        super().__init__()
        self.section: dict[str, float] | None = None
        self.step: float | None = None
        self.third: str | None = None
        self._headings: Rules = (
            (_RUNNING, self.read_running),
            (_CONNECTIONS, self.once(threads=parse_count, connections=parse_count)),
            (_COLUMNS, self.once(third=str)),
            (_TABLE_COLUMNS, self.latest(third=str)),
        )
        self._rules = (
            *self._headings,
            (_PERCENTILE, self.read_percentile),
            (_ROW, self.read_row),
            (_REQUESTS, self.read_requests),
            (_SOCKET_ERRORS, self.read_socket_errors),
            (_NON_2XX, self.once(non_2xx_or_3xx=parse_count, whole=True)),
            (_PER_SECOND, self.read_per_second),
            (_DISTRIBUTION, self.read_distribution),
            (_CALIBRATION, self.put(is_wrk2=True)),
            (_VERSION, self.read_version),
            (_DAMAGED, self.add_unread),
            (_DAMAGED_PERCENTILE, self.read_damaged_percentile),
        )

    def has_figures(self) -> bool:
        return bool(self.stated & _IDENTIFYING_FIELDS)

    def read_running(self, match: re.Match[str]) -> None:
        self.set_once(match[0], target=None if self.unterminated else match[1])

    def read_row(self, match: re.Match[str]) -> None:
        name, *tokens, within = match.groups()
        cells = [parse_scaled(token, SECONDS if name == "Latency" else _RATES) for token in tokens]
        if tokens[0] == "1000.00m" and cells[2] and cells[2][0] < 60_000:  # noqa: PLR2004 - 1000 minutes in seconds
            cells[0] = (1.0, 1e-5)
        if any(cell is None and not _is_not_a_number(token) for cell, token in zip(cells, tokens, strict=True)):
            self.unread.append(match[0])
        avg, stdev, third = (cell and cell[0] for cell in cells)
        if self.third not in {"Max", "99%"}:
            self.unread.append(match[0])
        if name == "Req/Sec":
            self.set_once(match[0], rate_sampled=avg is not None)
            return
        self.within_stdev_pct = parse_number(within)
        row = Latency(
            mean_s=avg,
            stdev_s=stdev,
            max_s=third if self.third == "Max" else None,
            percentiles={"99": third} if self.third == "99%" and third is not None else {},
            resolution_s=max((cell[1] for cell in cells if cell), default=None),
            covers="request",
        )
        self.set_once(match[0], latency=row)

    def read_distribution(self, match: re.Match[str]) -> None:
        uncorrected = (match[1] or "").startswith("Uncorrected")
        self.section = {}
        self.set_once(match[0], **{"uncorrected" if uncorrected else "distribution": self.section})
        if match[1]:
            self.is_wrk2 = True
            self.stated.add("histogram")

    def read_percentile(self, match: re.Match[str]) -> None:
        figure = parse_scaled(match[2], SECONDS)
        key = f"{float(match[1]):g}"
        if self.section is None or _is_not_a_number(match[2]):
            return
        if key in self.section:
            raise several_runs("wrk", match[0])
        if figure is None or (self.unterminated and match[2].endswith("m")):  # "22.67m" may have been "22.67ms"
            self.unread.append(match[0])
            return
        self.section[key] = figure[0]
        self.step = max(self.step or 0.0, figure[1])

    def read_damaged_percentile(self, match: re.Match[str]) -> None:
        if self.section is not None:
            self.add_unread(match)

    def read_requests(self, match: re.Match[str]) -> None:
        requests = None if self.starts_mid_number else parse_count(match[1])
        duration_s, bytes_total = parse_quantity(match[2], SECONDS), parse_quantity(match[3], BINARY_SIZES)
        self.set_once(match[0], requests=requests, duration_s=duration_s, bytes_total=bytes_total)

    def read_socket_errors(self, match: re.Match[str]) -> None:
        values = [parse_count(token) for token in match.groups()]
        whole = not self.ends_mid_number(match[0]) and None not in values
        connect, read, write, timeout = values
        errors = Errors(connect=connect, read=read, write=write, timeout=timeout)
        self.set_once(match[0], socket_errors=errors if whole else None)

    def read_per_second(self, match: re.Match[str]) -> None:
        token = match[2]
        if match[1] == "Transfer":
            self.ended = True
            if self.stated & {"threads", "latency"}:  # else an excerpt
                self._rules = self._headings  # the output of a Lua script's done() follows, or another run
            self.set_once(match[0], bytes_per_s=parse_quantity(token, BINARY_SIZES))
        else:
            whole = not self.unterminated or re.search(r"\.[0-9]{2}$", token)  # always two decimals
            self.set_once(match[0], rps=parse_number(token) if whole else None)

    def read_version(self, match: re.Match[str]) -> None:
        self.tool_version = self.tool_version or match[1]

    def result(self) -> LoadResult:
        corrected = True if self.is_wrk2 else _corrects(self.tool_version)
        is_whole = self.ended and self.duration_s is not None and not self.unread
        zero = 0 if is_whole else None  # wrk prints no line where all its counts are zero
        return self.load_result(
            tool="wrk2" if self.is_wrk2 else "wrk",
            latency=self._latency(corrected=corrected),
            errors=self.socket_errors or Errors(connect=zero, read=zero, write=zero, timeout=zero),
            non_2xx=zero if self.non_2xx_or_3xx is None else self.non_2xx_or_3xx,
            complete=self._complete(),
            notes=self._notes(corrected=corrected),
        )

    def _unmeasured(self) -> bool:
        """Return whether no answer was recorded: the mean, or the share within one deviation, is then not a number."""
        row = self.latency
        is_empty = bool(self.distribution) and not any((self.distribution or {}).values())
        return self.requests == 0 or is_empty or (row is not None and None in (self.within_stdev_pct, row.mean_s))

    def _latency(self, *, corrected: bool | None) -> Latency:
        row = self.latency
        percentiles = dict(self.distribution or {})
        if row is None:
            row = Latency(covers="request")
            if not percentiles and self.uncorrected and self.requests is None:  # it stands alone
                percentiles, corrected = dict(self.uncorrected), False
        for name, time in row.percentiles.items():
            percentiles.setdefault(name, time)
        latency = row.model_copy(
            update={
                "percentiles": percentiles,
                "resolution_s": max((step for step in (row.resolution_s, self.step) if step), default=None),
                "corrected": corrected,
            }
        )
        return without_times(latency) if self._unmeasured() else latency

    def _complete(self) -> bool:
        """Return whether the text has all that wrk prints below its first two lines, which excerpts leave out."""
        required = (self.latency, self.requests, self.rps)
        return self.ended and not self.unread and None not in required

    def _notes(self, *, corrected: bool | None) -> Iterator[Note]:
        if not self.rate_sampled:
            yield Note(
                code="short-run",
                message="no rate was sampled: the run was shorter than the tool's calibration (10 s in wrk2)",
            )
        if corrected and not self.is_wrk2:
            yield Note(
                code="wrk-corrected",
                message="wrk 4 adds samples for coordinated omission: mean and percentiles include them",
            )
        elif corrected is None:
            yield Note(
                code="wrk-version-unknown",
                message="the version is unknown (wrk -v prints it); since version 4 wrk adds samples for coordinated omission",
            )
        if self.threads and self.connections and self.connections % self.threads:
            opened = self.connections // self.threads * self.threads
            yield Note(
                code="connections-not-divided",
                message=f"{self.connections} connections cannot be divided by {self.threads} threads: wrk opened {opened}",
            )
        if self.socket_errors and self.socket_errors.timeout:
            yield Note(code="timeouts", message=_timeouts(wrk2=self.is_wrk2, corrected=corrected))
        if self.non_2xx_or_3xx:
            yield Note(code="status-above-399", message='"Non-2xx or 3xx" counts answers with a status above 399')
        if self._unmeasured():
            yield Note(code="no-samples", message="no answer was recorded: wrk's latencies of 0.00us are not measured")


def _is_not_a_number(token: str) -> bool:
    """Return whether a token is what C prints for a value that is not a number; wrk2 adds a unit."""
    return token.rstrip("ums") in NOT_A_NUMBER


def parse(text: str) -> LoadResult:
    """Return the result that wrk or wrk2 printed. Raises ParseError for other text, and for several runs."""
    return _WrkReader().read(text)


def parse_wrk2(text: str) -> LoadResult:
    """Return the result that wrk2 printed, with or without its marks. Raises ParseError as `parse` does."""
    reader = _WrkReader()
    reader.is_wrk2 = True
    result = reader.read(text)
    return result.model_copy(update={"notes": (*result.notes, _OPEN_LOOP)}) if result.latency.corrected else result


_OPEN_LOOP = Note(
    code="open-loop",
    message="latencies count from when a request was due at wrk2's target rate, which it does not print",
)


def _corrects(version: str | None) -> bool | None:
    """Return whether this version of wrk adds samples for coordinated omission; None where the version is unknown."""
    match = re.search(r"([0-9]{1,3})\.[0-9]", version or "")
    return None if match is None else int(match[1]) >= 4  # noqa: PLR2004 - the first version that does


def _timeouts(*, wrk2: bool, corrected: bool | None) -> str:
    if wrk2 or corrected is False:
        return "a connection that waits longer than the timeout is counted again at every check"
    if corrected:
        return "timeouts are late answers, which have no latency; answers that never came are not counted"
    return "wrk 4 counts late answers, and not those that never came; wrk 3 counts waiting connections at every check"


_is_wrk2 = has_line("Thread calibration: mean lat", r"Latency Distribution \(HdrHistogram")
"""True for a text with lines that wrk2 prints and wrk does not."""
_has_mark = has_line(
    r"[0-9]+ threads? and [0-9]+ connections?$",
    r"Thread Stats\s+Avg\s+Stdev",
    r"[0-9]+ requests in [0-9.]+[a-z]+,\s+[0-9.]+[KMGTP]?B read",
    r"Socket errors: connect [0-9]+, read [0-9]+",
    "Non-2xx or 3xx responses: ",
    r"Transfer/sec:\s",
)
FORMAT = OutputFormat(
    "wrk",
    lambda text: _has_mark(text) and not _is_wrk2(text),
    parse,
    (
        line_with(r"(?:Running \S+ test @|Making \S+ requests to) \S"),
        line_with(r"[0-9]+ threads? and [0-9]+ connections?$"),
        line_with(r"Thread Stats\s+Avg\s+Stdev"),
    ),
)
WRK2_FORMAT = OutputFormat("wrk2", _is_wrk2, parse_wrk2, FORMAT.starts, dialect_of="wrk")
