"""Parser of ab's output (2.0 to 2.4): its summary, and the files of its `-e` and `-g`.

Meaning of the figures, read from its source (support/ab.c):

- Times in the tables are whole milliseconds. "Time per request" is time taken x concurrency ÷ complete requests, not a
  measured latency: the mean is the Total row's. Total runs from the start of connecting to closing, so that with
  keep-alive only a connection's first request has a connect time.
- "Waiting" runs from sending the request to the first byte of the answer.
- "Complete requests" includes failed ones. "Length" failures are answers whose length differed from the first one's;
  `-l` (2.4.7) accepts any length. "Receive" is counted since 2.3. The "Non-2xx" line is missing where its count is
  zero, and since 2.4 the "Write errors" line too.
- Versions 2.0 and 2.2.0 print seconds and microseconds without padding: 3.073261 s reads "3.73261 seconds".
- Without `-r` an error ends the run, and ab prints only "Total of N requests completed". An interrupted run prints its
  summary, but no "Finished" on stderr, or with `-q` no "done" on stdout.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator

from benchkit.errors import ParseError
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader, Rules
from benchkit.loadtools.text import (
    TEXT_AFTER_LINE,
    excerpt,
    has_line,
    latency_by_name,
    latency_of,
    line_with,
    no_end_mark,
    of_unit,
    parse_count,
    parse_number,
    split_lines,
    unread_notes,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.models.protocol import Negotiated

_MICROSECONDS = 6
_VERSION = re.compile(r"This is ApacheBench, Version (\S+).*")
_TEXT_FIELDS = {
    "Server Hostname": "server_hostname",
    "Document Path": "document_path",
    "SSL/TLS Protocol": "ssl_tls_protocol",
}
_TEXTS = re.compile(rf"({'|'.join(_TEXT_FIELDS)}):\s*(.*)")
_TLS = re.compile(r"TLSv([0-9.]{1,3}),(\S{1,100}),([0-9]{1,5}),[0-9]{1,5}")
_COUNT_FIELDS = {
    "Server Port": "server_port",
    "Concurrency Level": "connections",
    "Complete requests": "requests",
    "Failed requests": "failed_requests",
    "Write errors": "write_errors",
    "Non-2xx responses": "non_2xx_responses",
    "Keep-Alive requests": "keep_alive_requests",
}
_COUNTS = re.compile(rf"({'|'.join(_COUNT_FIELDS)}):\s*(\S+)")
_SIZE_FIELDS = {"Total transferred": "bytes_total", "HTML transferred": "html_transferred"}
_SIZES = re.compile(rf"({'|'.join(_SIZE_FIELDS)}):\s*(\S+) bytes")
_TAKEN = re.compile(r"Time taken for tests:\s*(\S+) seconds")
_BREAKDOWN = re.compile(r"\(Connect: (\S+), (?:Receive: (\S+), )?Length: (\S+), Exceptions: (\S+)\)")
_RATE = re.compile(r"Requests per second:(?:\s{2,}|\s*(?=\S+ \[#))(\S+)(?: \[#/sec\](?:\s*\(mean\))?)?")
_TWO_DECIMALS = re.compile(r"\.[0-9]{2}$")
_PER_REQUEST = re.compile(
    r"Time per request:\s*(\S+) (?:\[ms\]|ms)(?:\s*\(mean(?:\)|(, across all concurrent)(?: requests\))?))?"
)
_TRANSFER = re.compile(r"Transfer rate:\s*(\S+) (?:\[Kbytes/sec\]|kb/s) received")
_COLUMNS = re.compile(r"min\s+(mean\[\+/-sd\]\s+median|avg)\s+max")
_TIMES = re.compile(r"(Total|Connect|Waiting):((?:\s+[0-9.]{1,20}){3,5})")
_PERCENTILE = re.compile(r"([0-9]{1,3})%\s+(\S+)(\s+\((?:longest|last) request\)?)?")
_COMPLETED = re.compile(r"Completed [0-9]+ requests")
_FINISHED = re.compile(r"Finished [0-9]+ requests")
_ABORTED = re.compile(
    r"(?:Benchmarking .{1,300}\(be patient\)\.*)?((?:apr_|ssl |SSL |socket|connect)[^:]*: .* \([0-9]+\)|Test aborted after .*)"
)
_INTERRUPT = re.compile(r"\^C|Benchmarking .{1,300}\(be patient\)\.{3,}(?:\^C)?")
_HTML_ROW = re.compile(r"<tr [^>]{0,200}><th [^>]{0,200}>(?:Server Software|Complete requests):</th>")
"""A row of the table that `ab -w` writes, with the attributes that -x, -y and -z add (support/ab.c,
output_html_results)."""
_SUM = re.compile(r"Total of (\S+) requests completed")
_DAMAGED = re.compile(
    rf"(?:{'|'.join((*_COUNT_FIELDS, *_SIZE_FIELDS))}|Time taken for tests|Requests per second"
    r"|Time per request|Transfer rate|Total|\(Connect): .*"
)
PERCENTAGES = frozenset({"50", "66", "75", "80", "90", "95", "98", "99", "100"})
"""Rows of "Percentage of the requests served" (`percs` in ab.c)."""
_IDENTIFYING_FIELDS = frozenset(
    {
        "tool_version",
        "connections",
        "duration_s",
        "requests",
        "completed_before_abort",
        "failed_requests",
        "rps",
        "time_per_request_s",
        "time_per_request_all_s",
        "bytes_per_s",
    }
)


MIN_RSA_BITS = 1024
"""Least bits of the key of an RSA certificate; curves have at most 521."""


class _AbReader(Reader):
    """Figures of ab's summary; "Kbytes" are 1024."""

    tool = "ab"
    _behind_lines = TEXT_AFTER_LINE
    _prints_no_bar = True

    server_hostname: str | None = None
    server_port: int | None = None
    document_path: str | None = None
    ssl_tls_protocol: str | None = None
    duration_decimals: str = ""
    """Digits after the decimal point, as printed: version 2.0 does not pad its microseconds."""
    failed_requests: int | None = None
    breakdown: Errors | None = None
    """Failed requests by kind; None without the line below "Failed requests"."""
    failed_length: int | None = None
    write_errors: int | None = None
    non_2xx_responses: int | None = None
    time_per_request_s: float | None = None
    total: Latency | None = None
    connect: Latency | None = None
    waiting: Latency | None = None
    progress: bool = False
    """True where the text has lines "Completed … requests"."""
    finished: bool = False
    interrupt: bool = False
    """True where the text has a terminal's ^C, or the dots of a quiet run (`-q`) without "done"."""
    aborted: str | None = None
    """Error that ended the run."""
    completed_before_abort: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.percentages: dict[str, float] = {}
        self.columns: str | None = None
        self._rules: Rules = (
            (_PERCENTILE, self.read_percentile),
            (_COUNTS, self.read_counts),
            (_TAKEN, self.read_taken),
            (_SIZES, self.read_sizes),
            (_RATE, self.read_rate),
            (_PER_REQUEST, self.read_per_request),
            (_TRANSFER, self.read_transfer),
            (_COLUMNS, self.latest(columns=str)),
            (_TIMES, self.read_times),
            (_BREAKDOWN, self.read_breakdown),
            (_SUM, self.once(completed_before_abort=parse_count)),
            (_COMPLETED, self.put(progress=True)),
            (_FINISHED, self.put(finished=True)),
            (_INTERRUPT, self.put(interrupt=True)),
            (_VERSION, self.once(tool_version=str)),
            (_TEXTS, self.read_texts),
            (_ABORTED, self.read_aborted),
            (_DAMAGED, self.add_unread),
        )

    def read(self, text: str) -> LoadResult:
        if (row := _HTML_ROW.search(text)) is not None:
            raise ParseError(
                "this is a table of HTML that ab wrote because of -w, -x, -y or -z",
                why=f"it has no percentiles and few of the figures: {excerpt(row[0])!r}",
                hint="run ab without -w, -x, -y and -z, and give its plain text",
            )
        return super().read(text)

    def has_figures(self) -> bool:
        return bool(self.stated & _IDENTIFYING_FIELDS)

    def read_texts(self, match: re.Match[str]) -> None:
        if not self.unterminated:
            self.set_once(match[0], **{_TEXT_FIELDS[match[1]]: match[2].strip()})

    def read_counts(self, match: re.Match[str]) -> None:
        count = None if self.ends_mid_number(match[0]) else parse_count(match[2])
        self.set_once(match[0], **{_COUNT_FIELDS[match[1]]: count})

    def read_sizes(self, match: re.Match[str]) -> None:
        self.set_once(match[0], **{_SIZE_FIELDS[match[1]]: parse_count(match[2])})

    def read_taken(self, match: re.Match[str]) -> None:
        self.set_once(match[0], duration_s=parse_number(match[1]), duration_decimals=match[1].partition(".")[2])

    def read_rate(self, match: re.Match[str]) -> None:
        is_cut = self.ends_mid_number(match[0]) and not _TWO_DECIMALS.search(match[0])
        self.set_once(match[0], rps=None if is_cut else parse_number(match[1]))

    def read_per_request(self, match: re.Match[str]) -> None:
        self.set_once(match[0], **{"time_per_request_all_s" if match[2] else "time_per_request_s": _ms(match[1])})

    def read_transfer(self, match: re.Match[str]) -> None:
        self.set_once(match[0], bytes_per_s=of_unit(parse_number(match[1]), 1024))

    def read_times(self, match: re.Match[str]) -> None:
        # Without a deviation and a median with -S.
        names = ("min", "mean", "max") if self.columns == "avg" else ("min", "mean", "stdev", "median", "max")
        times = [_ms(token) for token in match[2].split()]
        whole = len(times) == len(names) and None not in times and not self.ends_mid_number(match[0])
        row = latency_by_name(dict(zip(names, times, strict=False)), "connect+request") if whole else None
        self.set_once(match[0], **{match[1].lower(): row})

    def read_breakdown(self, match: re.Match[str]) -> None:
        connect, receive, length, exceptions = map(parse_count, match.groups())
        errors = Errors(connect=connect, read=receive, other=exceptions)
        is_whole = None not in (connect, length, exceptions) and (receive is None) == (match[2] is None)  # since 2.3
        self.set_once(match[0], breakdown=errors if is_whole else None, failed_length=length if is_whole else None)

    def read_percentile(self, match: re.Match[str]) -> None:
        time = None if self.ends_mid_number(match[0]) or match[1] not in PERCENTAGES else _ms(match[2])
        self.add_once(self.percentages, match[1], time, match[0])

    def read_aborted(self, match: re.Match[str]) -> None:
        self.aborted = self.aborted or match[1]

    def result(self) -> LoadResult:
        duration_s = self._padded_duration_s()
        is_whole = self.bytes_per_s is not None and not self.unread
        zero = 0 if is_whole and self.failed_requests is not None else None  # ab prints no line for a count of zero
        failed = self.failed_requests
        none_failed = 0 if failed == 0 else None
        errors = self.breakdown or Errors(connect=none_failed, read=none_failed, other=none_failed)
        return self.load_result(
            target=self._target(),
            duration_s=duration_s,
            requests=self.completed_before_abort if self.requests is None else self.requests,
            latency=self._latency(),
            connect_mean_s=self.connect and self.connect.mean_s,
            first_byte_mean_s=self.waiting and self.waiting.mean_s,
            errors=errors.model_copy(update={"write": zero if self.write_errors is None else self.write_errors}),
            non_2xx=zero if self.non_2xx_responses is None else self.non_2xx_responses,
            failed=failed,
            failed_length=none_failed if self.failed_length is None else self.failed_length,
            complete=self._complete(),
            negotiated=_negotiated(self.ssl_tls_protocol),
            notes=self._notes(duration_s),
        )

    def _target(self) -> str | None:
        if not self.server_hostname or not self.document_path or self.server_port is None:
            return None
        scheme = "https" if self.ssl_tls_protocol else "http"
        return f"{scheme}://{self.server_hostname}:{self.server_port}{self.document_path}"

    def _padded_duration_s(self) -> float | None:
        """Return the time taken, with its microseconds padded where requests ÷ rate shows that ab did not pad them."""
        stated, rate, done, decimals = self.duration_s, self.rps, self.requests, self.duration_decimals
        if stated is None or not rate or not done or not 0 < len(decimals) < _MICROSECONDS:
            return stated
        padded = float(f"{int(stated)}.{decimals.zfill(_MICROSECONDS)}")
        tolerance = 0.005 / rate + 1e-6  # the rate has two decimals
        fits = math.isclose(done / rate, padded, rel_tol=tolerance, abs_tol=1e-6)
        stated_fits = math.isclose(done / rate, stated, rel_tol=tolerance, abs_tol=5e-4)  # 2.3 rounds to milliseconds
        return padded if fits and not stated_fits else stated

    def _latency(self) -> Latency:
        row = self.total
        return Latency(
            min_s=row and row.min_s,
            mean_s=row.mean_s if row else self.time_per_request_s,
            stdev_s=row and row.stdev_s,
            max_s=row.max_s if row else self.percentages.get("100"),
            percentiles=self.percentages,
            resolution_s=1e-3 if row or self.percentages else None,
            covers="connect+request",
            corrected=False,
        )

    def _complete(self) -> bool:
        """Return whether the run ended normally, and the text has all that ab prints by default."""
        required = (
            self.connections,
            self.duration_s,
            self.requests,
            self.failed_requests,
            self.bytes_total,
            self.rps,
            self.bytes_per_s,
            self.total,
        )
        has_percentages = "100" in self.percentages or self.requests in (0, 1)  # none with -d either
        return (
            None not in required
            and has_percentages
            and not self.unread
            and not self.aborted
            and not self._interrupted()
        )

    def _interrupted(self) -> bool:
        return self.interrupt or (self.progress and not self.finished)

    def _notes(self, duration_s: float | None) -> Iterator[Note]:
        if self.aborted:
            yield Note(code="aborted", message=f"the run ended early: {self.aborted[:120]}")
        elif self.requests is not None and self._interrupted():
            yield Note(code="interrupted", message='ab was interrupted: the text has no "Finished"')
        if duration_s != self.duration_s:
            yield Note(
                code="ab-unpadded-time",
                message=f"ab 2.0 does not pad microseconds: it printed {self.duration_s} s; by its rate it took {duration_s} s",
            )
        if self.failed_length:
            yield Note(
                code="ab-length",
                message='answers that differ in length from the first one are counted as failed ("Length"); -l accepts them',
            )
        if self.total is None and self.time_per_request_s is not None:
            yield Note(
                code="ab-mean",
                message="the mean is time taken x concurrency ÷ requests, not measured request by request",
            )
        if self.total and (self.total.mean_s or 0) * 1000 < 10:  # noqa: PLR2004 - below 10 ms a step of 1 ms is more than a tenth
            yield Note(code="resolution", message="ab's times are whole milliseconds")


def _ms(token: str) -> float | None:
    return of_unit(parse_number(token), 1e-3)


def parse(text: str) -> LoadResult:
    """Return the result that ab printed, or wrote with `-e` or `-g`.

    Raises ParseError for other text, and several runs.
    """
    return _parse_file(text) or _AbReader().read(text)


def _negotiated(line: str | None) -> Negotiated | None:
    """Return what the first connection negotiated, from `TLSv1.3,TLS_AES_256_GCM_SHA384,2048,256`.

    The numbers are the bits of the certificate's key and of the cipher. None without TLS, and for other text.
    """
    match = _TLS.fullmatch(line or "")
    if match is None:
        return None
    bits = int(match[3])
    key = f"rsa-{bits}" if bits >= MIN_RSA_BITS else f"ecdsa-p{bits}"
    return Negotiated(protocol="https1", tls_version=match[1], cipher=match[2], key=key)


_PERCENTAGES_HEADING = "Percentage served,Time in ms"
_REQUESTS_HEADING = re.compile(r"starttime\s+seconds\s+ctime\s+dtime\s+ttime\s+wait")
_PERCENTAGE = re.compile(r"([0-9]{1,3}),([0-9]{1,15}(?:\.[0-9]{1,9})?(?:e[+-][0-9]{2})?)")
_LAST_PERCENTAGES = (99, 100)
"""Last rows of `-e`: versions 2.0 and 2.2 stop at 99."""
_TTIME = 4
"""Column of `-g` with the total time of a request."""
_ROW_CELLS = 6
"""Number of columns of `-g`."""


def _parse_file(text: str) -> LoadResult | None:
    """Return the result of a file that `-e` or `-g` wrote; None for other text. Raises ParseError for two files."""
    lines = split_lines(text)
    first = next((line.strip() for line in lines if line.strip()), "")
    if first == _PERCENTAGES_HEADING:
        return _percentages(lines)
    return _requests(lines) if _REQUESTS_HEADING.fullmatch(first) else None


def _percentages(lines: list[str]) -> LoadResult:
    """Return the result of rows `percentage,milliseconds`; row 0 is the shortest request, row 100 the longest."""
    times: dict[int, float] = {}
    unread: list[str] = []
    step = 1.0
    for position, line in enumerate(lines):
        row = line.strip()
        if row in {"", _PERCENTAGES_HEADING}:
            continue
        match = _PERCENTAGE.fullmatch(row)
        if match is None or position == len(lines) - 1:  # without a line end a row may lack digits
            unread.append(row)
            continue
        if int(match[1]) in times:
            raise ParseError("two files of ab -e in one text", hint="parse each file separately")
        times[int(match[1])] = of_unit(float(match[2]), 1e-3)
        step = min(step, 10.0 ** -len(match[2].partition(".")[2].partition("e")[0]))
    if not times:
        raise ParseError("this file of ab -e has no rows", hint="did the run end before ab wrote it? run it again")
    return LoadResult(
        tool="ab",
        latency=Latency(
            min_s=times.get(0),
            max_s=times.get(100),
            percentiles={str(p): time for p, time in sorted(times.items()) if 0 < p <= _LAST_PERCENTAGES[1]},
            resolution_s=step / 1000,
            covers="connect+request",
            corrected=False,
        ),
        complete=not unread and max(times) in _LAST_PERCENTAGES and len(times) == max(times) + 1,
        notes=(
            *([no_end_mark("a file of ab -e")] if max(times) == _LAST_PERCENTAGES[0] else []),
            *unread_notes(unread),
        ),
    )


def _requests(lines: list[str]) -> LoadResult:
    """Return the result of one row per request; times are whole milliseconds."""
    times: list[int] = []
    unread: list[str] = []
    headings = 0
    for position, line in enumerate(lines):
        cells = line.rsplit(maxsplit=_ROW_CELLS - 1)  # the first has blanks; tabs may have become some
        if not cells:
            continue
        if _REQUESTS_HEADING.fullmatch(line.strip()):
            headings += 1
            continue
        time = parse_count(cells[_TTIME]) if len(cells) == _ROW_CELLS else None
        if time is None or parse_count(cells[-1]) is None:
            unread.append(line)
        else:
            times.append(time)
            if position == len(lines) - 1:
                unread.append(line)  # only its last column may lack digits, and that one is not used
    if headings > 1:
        raise ParseError("two files of ab -g in one text", hint="parse each file separately")
    return LoadResult(
        tool="ab",
        requests=None if unread and not times else len(times),
        latency=latency_of(times, 1e-3),
        complete=not unread,
        notes=(no_end_mark("a file of ab -g"), *unread_notes(unread)),
    )


FORMAT = OutputFormat(
    "ab",
    has_line(
        "This is ApacheBench, Version ",
        r"Concurrency Level:\s",
        r"Time taken for tests:\s",
        r"Complete requests:\s",
        r"Requests per second:\s+[0-9.]+ \[#/sec\]",
        r"Time per request:\s+[0-9.]+ \[ms\]",
        r"Percentage of the requests served within a certain time \(ms\)",
        r"Total of [0-9]+ requests completed",
        _PERCENTAGES_HEADING,
        _REQUESTS_HEADING.pattern,
        _HTML_ROW.pattern,
    ),
    parse,
    (
        line_with("This is ApacheBench, Version "),
        line_with("Server Software:", _PERCENTAGES_HEADING, _REQUESTS_HEADING.pattern),
    ),
)
