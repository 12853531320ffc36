"""Parser of the output of wrk (2 to 4.2) and wrk2.

Meaning of the figures, read from the sources of both (src/wrk.c, src/stats.c, src/units.c):

- Two decimals in a unit that changes at 85 % of the next one: 0.85 ms, 0.90m, 0.90GB. K, M and G are 1024 for bytes and
  1000 for requests. A mean from 999.995 ms up to 1 s is truncated to the column's width and reads `1000.00m`.
- Since version 4 wrk adds samples for coordinated omission before it prints or passes them to Lua (`stats_correct`:
  expected interval = runtime ÷ (requests ÷ connections)); versions 2 and 3 do not. wrk2 measures from when a request
  should have been sent. The text has the version only where `-v` was given.
- Answers later than the timeout (2 s by default) are counted as `timeout` and have no latency since version 4, and
  answers that never came are not counted at all. Before version 4, and in wrk2, a waiting connection is counted again
  at every check.
- The connections of each thread are connections ÷ threads, rounded down.
- "Non-2xx or 3xx responses" counts status above 399. That line, and "Socket errors", are printed unless all are zero.
- A server that closes without "Connection: close" causes a read error for each answer; the answer is counted as well.
- Latency runs from writing the request to the end of the answer, without connecting.
- DeathStarBench's wrk2 has the 99th percentile where the others have the maximum; the column's name shows which.
- Where no answer was recorded the row reads `0.00us 0.00us 0.00us -nan%`: zeros that are no measured times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchkit.loadtools.text import (
    NOT_A_NUMBER,
    SECONDS,
    Reader,
    Rules,
    not_output_of,
    parse_count,
    parse_number,
    parse_scaled,
    several_runs,
    unread_notes,
    without_times,
)
from benchkit.models.base import Frozen
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

BYTES: Mapping[str, float] = {
    "B": 1,
    **{f"{prefix}B": 1024.0**power for power, prefix in enumerate("KMGTP", 1)},
    "kB": 1024,  # Hyperfoil's clone of wrk
}
_RATES: Mapping[str, float] = {"": 1, **{prefix: 1000.0**power for power, prefix in enumerate("kMGTP", 1)}}

_FIGURE = r"(-?(?:nan|inf)(?:us|ms|s)?|[0-9.]{1,24}[^\s0-9.%]{0,2})"
_SHARE = r"(-?nan|[0-9.]{1,24})%?"
_VERSION = re.compile(r"wrk\s+(\S+) \[\w+\] Copyright.*")
_RUNNING = re.compile(r"(?:Running \S+ test @|Making \S+ requests to) (\S.*)")
_CONNECTIONS = re.compile(r"(\S+) threads? and (\S+) connections?")
_COLUMNS = re.compile(r"Thread Stats\s+Avg\s+Stdev\s+(\S+)\s+\+/- Stdev")
_ROW = re.compile(  # 999.995 ms and more fills the third column, without a blank before it
    rf"(Latency|Req/Sec)\s+{_FIGURE}\s+{_FIGURE}(?:\s+|(?=1000\.00ms)){_FIGURE}\s+{_SHARE}"
)
_DAMAGED_PERCENTILE = re.compile(r"[0-9.]{1,9}\s?%\s.*")
_DAMAGED = re.compile(
    r"(?:Latency\s(?!\s*Distribution)|Req/Sec\s|Socket errors:|Non-2xx or 3xx|(?:Requests|Transfer)/sec).*"
)
_CALIBRATION = re.compile(r"Thread calibration: mean lat.*")
_DISTRIBUTION = re.compile(r"Latency Distribution(?: \(HdrHistogram - (.*)\))?")
_PERCENTILE = re.compile(rf"([0-9]{{1,3}}(?:\.[0-9]{{1,6}})?)%\s+{_FIGURE}")
_REQUESTS = re.compile(r"(\S+) requests in (\S+),\s+(\S+) read")
_SOCKET_ERRORS = re.compile(r"Socket errors: connect (\S+), read (\S+), write (\S+), timeout (\S+)")
_NON_2XX = re.compile(r"Non-2xx or 3xx responses:\s*(\S+)")
_PER_SECOND = re.compile(r"(Requests|Transfer)/sec:\s*(\S+)")


class Spread(Frozen):
    """Row of "Thread Stats"; the step is that of its coarsest figure.

    Its third column is the maximum, but in DeathStarBench's wrk2 the 99th percentile.
    """

    avg: float | None
    stdev: float | None
    max: float | None = None
    p99: float | None = None
    within_stdev_pct: float | None
    step: float | None


class SocketErrors(Frozen):
    """Counts of the "Socket errors" line."""

    connect: int
    read: int
    write: int
    timeout: int


class WrkOutput(Frozen):
    """Fields of wrk's or wrk2's output by its own labels; times in seconds, sizes in bytes."""

    version: str | None = None
    url: str | None = None
    threads: int | None = None
    connections: int | None = None
    calibrated: int = 0
    """Number of lines "Thread calibration": one per thread, in wrk2 alone."""
    latency: Spread | None = None
    req_sec: Spread | None = None
    distribution_of: str | None = None
    """Name of wrk2's distribution: "Recorded Latency"."""
    distribution: Mapping[str, float] = {}
    uncorrected: Mapping[str, float] = {}
    """wrk2's second distribution (`-U`)."""
    distribution_step: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    bytes_read: float | None = None
    socket_errors: SocketErrors | None = None
    non_2xx_or_3xx: int | None = None
    requests_per_s: float | None = None
    transfer_per_s: float | None = None
    unread: tuple[str, ...] = ()
    """Lines that wrk printed, with a figure that could not be read."""
    ended: bool = False
    """True where the text has "Transfer/sec", wrk's last line."""


_IDENTIFYING_FIELDS = frozenset({"url", "threads", "latency", "requests", "socket_errors", "transfer_per_s"})
"""Fields that no other tool prints; hey prints "Requests/sec:" too."""


def read(text: str) -> WrkOutput:
    """Return the printed text as wrk's own fields. Raises ParseError for other text, and for several runs."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "wrk"

    def __init__(self) -> None:
        super().__init__()
        self.section: dict[str, float] | None = None
        self.step: float | None = None
        self.calibrated = 0
        self.third: str | None = None
        self.ended = False
        self._headings: Rules = ((_RUNNING, self.running), (_CONNECTIONS, self.connections))
        self._rules = (
            *self._headings,
            (_PERCENTILE, self.percentile),
            (_COLUMNS, self.columns),
            (_ROW, self.row),
            (_REQUESTS, self.requests),
            (_SOCKET_ERRORS, self.socket_errors),
            (_NON_2XX, self.non_2xx),
            (_PER_SECOND, self.per_second),
            (_DISTRIBUTION, self.distribution),
            (_CALIBRATION, self.calibration),
            (_VERSION, self.version),
            (_DAMAGED, self.add_unread),
            (_DAMAGED_PERCENTILE, self.damaged_percentile),
        )

    def read(self, text: str) -> WrkOutput:
        lines = self.read_lines(text)
        if not self.fields.values.keys() & _IDENTIFYING_FIELDS:
            raise not_output_of("wrk", lines)
        return self.output(WrkOutput, calibrated=self.calibrated, distribution_step=self.step, ended=self.ended)

    def running(self, match: re.Match[str]) -> None:
        self.fields.set_once(match[0], url=None if self.unterminated else match[1].strip())

    def connections(self, match: re.Match[str]) -> None:
        self.fields.set_once(match[0], threads=parse_count(match[1]), connections=parse_count(match[2]))

    def columns(self, match: re.Match[str]) -> None:
        self.third = match[1]

    def row(self, match: re.Match[str]) -> None:
        name, *tokens, within = match.groups()
        cells = [parse_scaled(token, SECONDS if name == "Latency" else _RATES) for token in tokens]
        if tokens[0] == "1000.00m" and cells[2] and cells[2][0] < 60_000:  # noqa: PLR2004 - 1000 minutes in seconds
            cells[0] = (1.0, 1e-5)
        if any(cell is None and not _is_not_a_number(token) for cell, token in zip(cells, tokens, strict=True)):
            self.fields.unread.append(match[0])
        avg, stdev, third = (cell and cell[0] for cell in cells)
        step = max((cell[1] for cell in cells if cell), default=None)
        named = {"Max": "max", "99%": "p99"}.get(self.third or "")
        spread = {"avg": avg, "stdev": stdev, "within_stdev_pct": parse_number(within), "step": step}
        if named:
            spread[named] = third
        else:
            self.fields.unread.append(match[0])
        self.fields.set_once(match[0], **{"latency" if name == "Latency" else "req_sec": spread})

    def distribution(self, match: re.Match[str]) -> None:
        uncorrected = (match[1] or "").startswith("Uncorrected")
        self.section = {}
        self.fields.set_once(match[0], **{"uncorrected" if uncorrected else "distribution": self.section})
        if match[1] and not uncorrected:
            self.fields.values["distribution_of"] = match[1]

    def percentile(self, match: re.Match[str]) -> None:
        figure = parse_scaled(match[2], SECONDS)
        key = f"{float(match[1]):g}"
        if self.section is None or _is_not_a_number(match[2]):
            return
        if key in self.section:
            raise several_runs("wrk", match[0])
        if figure is None or (self.unterminated and match[2].endswith("m")):  # "22.67m" may have been "22.67ms"
            self.fields.unread.append(match[0])
            return
        self.section[key] = figure[0]
        self.step = max(self.step or 0.0, figure[1])

    def damaged_percentile(self, match: re.Match[str]) -> None:
        if self.section is not None:
            self.add_unread(match)

    def requests(self, match: re.Match[str]) -> None:
        duration, size = parse_scaled(match[2], SECONDS), parse_scaled(match[3], BYTES)
        requests = None if self.starts_mid_number else parse_count(match[1])
        self.fields.set_once(
            match[0], requests=requests, duration_s=duration and duration[0], bytes_read=size and size[0]
        )

    def socket_errors(self, match: re.Match[str]) -> None:
        values = [parse_count(token) for token in match.groups()]
        whole = not self.ends_mid_number(match[0]) and None not in values
        named = dict(zip(SocketErrors.model_fields, values, strict=True))
        self.fields.set_once(match[0], socket_errors=named if whole else None)

    def non_2xx(self, match: re.Match[str]) -> None:
        self.fields.set_once(match[0], non_2xx_or_3xx=None if self.ends_mid_number(match[0]) else parse_count(match[1]))

    def per_second(self, match: re.Match[str]) -> None:
        token = match[2]
        if match[1] == "Transfer":
            self.ended = True
            self._rules = self._headings  # the output of a Lua script's done() follows, or another run
            size = parse_scaled(token, BYTES)
            self.fields.set_once(match[0], transfer_per_s=size and size[0])
        else:
            whole = not self.unterminated or re.search(r"\.[0-9]{2}$", token)  # always two decimals
            self.fields.set_once(match[0], requests_per_s=parse_number(token) if whole else None)

    def calibration(self, _match: re.Match[str]) -> None:
        self.calibrated += 1

    def version(self, match: re.Match[str]) -> None:
        self.fields.values.setdefault("version", match[1])


def _is_not_a_number(token: str) -> bool:
    """Return whether a token is what C prints for a value that is not a number; wrk2 adds a unit."""
    return token.rstrip("ums") in NOT_A_NUMBER


def parse(text: str) -> LoadResult:
    """Return the result that wrk or wrk2 printed. Raises ParseError for other text, and for several runs."""
    return to_result(read(text))


def to_result(output: WrkOutput) -> LoadResult:
    """Return wrk's fields as a LoadResult."""
    wrk2 = output.calibrated > 0 or output.distribution_of is not None
    corrected = True if wrk2 else _corrects(output.version)
    errors = output.socket_errors
    is_whole = output.ended and output.duration_s is not None and not output.unread
    zero = 0 if is_whole else None  # wrk prints no line where all its counts are zero
    return LoadResult(
        tool="wrk2" if wrk2 else "wrk",
        tool_version=output.version,
        target=output.url,
        duration_s=output.duration_s,
        requests=output.requests,
        rps=output.requests_per_s,
        connections=output.connections,
        threads=output.threads,
        bytes_total=output.bytes_read,
        bytes_per_s=output.transfer_per_s,
        latency=_latency(output, corrected),
        errors=Errors(
            connect=errors.connect if errors else zero,
            read=errors.read if errors else zero,
            write=errors.write if errors else zero,
            timeout=errors.timeout if errors else zero,
        ),
        non_2xx=zero if output.non_2xx_or_3xx is None else output.non_2xx_or_3xx,
        complete=_complete(output),
        notes=tuple(_notes(output, wrk2=wrk2, corrected=corrected)),
    )


def _corrects(version: str | None) -> bool | None:
    """Return whether this version of wrk adds samples for coordinated omission; None where the version is unknown."""
    match = re.search(r"([0-9]{1,3})\.[0-9]", version or "")
    return None if match is None else int(match[1]) >= 4  # noqa: PLR2004 - the first version that does


def _unmeasured(output: WrkOutput) -> bool:
    """Return whether no answer was recorded: the share within one deviation is then not a number."""
    return output.requests == 0 or (output.latency is not None and output.latency.within_stdev_pct is None)


def _latency(output: WrkOutput, corrected: bool | None) -> Latency:  # noqa: FBT001 - a value, not a flag
    row = output.latency
    if row is None:
        return Latency(covers="request", corrected=corrected)
    steps = [step for step in (row.step, output.distribution_step) if step]
    percentiles = dict(output.distribution)
    if row.p99 is not None:
        percentiles.setdefault("99", row.p99)
    latency = Latency(
        mean_s=row.avg,
        stdev_s=row.stdev,
        max_s=row.max,
        percentiles=percentiles,
        resolution_s=max(steps, default=None),
        covers="request",
        corrected=corrected,
    )
    return without_times(latency) if _unmeasured(output) else latency


def _complete(output: WrkOutput) -> bool:
    """Return whether the text has all that wrk always prints."""
    required = (output.url, output.connections, output.latency, output.requests, output.requests_per_s)
    return output.ended and not output.unread and None not in required


def _notes(output: WrkOutput, *, wrk2: bool, corrected: bool | None) -> Iterator[Note]:
    if output.req_sec and output.req_sec.avg is None:
        yield Note(
            code="short-run",
            message="no rate was sampled: the run was shorter than the tool's calibration (10 s in wrk2)",
        )
    if corrected and not wrk2:
        yield Note(
            code="wrk-corrected",
            message="wrk 4 adds samples for coordinated omission: mean and percentiles include them",
        )
    elif corrected is None:
        yield Note(
            code="wrk-version-unknown",
            message="the version is unknown (wrk -v prints it); since version 4 wrk adds samples for coordinated omission",
        )
    if output.threads and output.connections and output.connections % output.threads:
        opened = output.connections // output.threads * output.threads
        yield Note(
            code="connections-not-divided",
            message=f"{output.connections} connections cannot be divided by {output.threads} threads: wrk opened {opened}",
        )
    if output.socket_errors and output.socket_errors.timeout:
        yield Note(code="timeouts", message=_timeouts(wrk2=wrk2, corrected=corrected))
    if output.non_2xx_or_3xx:
        yield Note(code="status-above-399", message='"Non-2xx or 3xx" counts answers with a status above 399')
    if _unmeasured(output):
        yield Note(code="no-samples", message="no answer was recorded: wrk's latencies of 0.00us are not measured")
    yield from unread_notes(output.unread)


def _timeouts(*, wrk2: bool, corrected: bool | None) -> str:
    if wrk2 or corrected is False:
        return "a connection that waits longer than the timeout is counted again at every check"
    if corrected:
        return "timeouts are late answers, which have no latency; answers that never came are not counted"
    return "wrk 4 counts late answers, and not those that never came; wrk 3 counts waiting connections at every check"
