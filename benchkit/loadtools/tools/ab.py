"""ab: its command line, and its output, read from its source (support/ab.c).

Its command line:

- At most 20,000 concurrent connections. A run that `-t` ends is also ended by `-n`, which is 50,000 by itself.
- A body (`-p`) is sent with any method (`-m`), a Content-Type (`-T`) and Content-Length; other requests have none.
- Certificates are never verified, and every connection has a full handshake.
- `-g` writes every request's time at the end; here to `/dev/stdout`, where the reducer reads the rows.

Its output:

- Times in the tables are whole milliseconds. "Time per request" is time taken x concurrency ÷ complete requests, not a
  measured latency: the mean is the Total row's, which runs from the start of connecting to closing.
- "Waiting" runs from sending the request to the first byte of the answer.
- "Complete requests" includes failed ones. "Length" failures are answers whose length differed from the first one's.
  Lines for a count of zero are missing.
- Versions 2.0 and 2.2.0 print seconds and microseconds without padding: 3.073261 s reads "3.73261 seconds".
- Without `-r` an error ends the run, and ab prints only "Total of N requests completed". An interrupted run prints its
  summary, but no "Finished".
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, OutputFormat, Reader
from benchkit.loadtools.text import (
    has_line,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_number,
)
from benchkit.loadtools.tool import (
    LoadLimits,
    RequestRows,
    Target,
    TlsSupport,
    Tool,
    body_file,
    body_files,
    header_lines,
    with_zero_length,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.models.protocol import Negotiated
from benchkit.models.request import has_header

_MICROSECONDS = 6
_TLS = re.compile(r"TLSv([0-9.]{1,3}),(\S{1,100}),([0-9]{1,5}),[0-9]{1,5}")
_LABELS: Mapping[str, str] = {
    "Server Hostname": "host",
    "Server Port": "port",
    "Document Path": "path",
    "SSL/TLS Protocol": "tls",
    "Concurrency Level": "connections",
    "Complete requests": "requests",
    "Failed requests": "failed",
    "Write errors": "write_errors",
    "Non-2xx responses": "non_2xx",
}
PERCENTAGES = frozenset({"50", "66", "75", "80", "90", "95", "98", "99", "100"})
"""Rows of "Percentage of the requests served" (`percs` in ab.c)."""
MIN_RSA_BITS = 1024
"""Least bits of the key of an RSA certificate; curves have at most 521."""


def _ms(token: str) -> float | None:
    return of_unit(parse_number(token), 1e-3)


class _AbReader(Reader):
    """Figures of ab's summary; "Kbytes" are 1024."""

    tool = "ab"
    figures: ClassVar[Figures] = {
        "bytes_per_s": lambda token: of_unit(parse_number(token), 1024),
        **dict.fromkeys(("time_per_request", "time_per_request_all"), _ms),
        **dict.fromkeys(("connect", "receive", "length", "exceptions", "write_errors", "completed"), parse_count),
    }

    host: str | None = None
    port: str | None = None
    path: str | None = None
    tls: str | None = None
    time_per_request: float | None = None
    connect: int | None = None
    receive: int | None = None
    length: int | None = None
    exceptions: int | None = None
    write_errors: int | None = None
    completed: int | None = None
    """Requests before the error that ended the run."""
    columns: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Latency | None] = {}
        """Rows of "Connection Times" by their label."""
        self.progress, self.finished, self.interrupt = False, False, False
        self.aborted: str | None = None
        """Error that ended the run."""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"([0-9]{1,3})%\s+(\S+)(?:\s+\((?:longest|last) request\)?)?": self.read_percentile,
            **{rf"{label}:\s*(?P<{name}>\S+)": None for label, name in _LABELS.items()},
            r"Time taken for tests:\s*(?P<duration_s>\S+) seconds": None,
            r"Total transferred:\s*(?P<bytes_total>\S+) bytes": None,
            r"Requests per second:\s*(?P<rps>\S+)(?: \[#/sec\](?:\s*\(mean\))?)?": None,
            r"Time per request:\s*(?P<time_per_request>\S+) (?:\[ms\]|ms)(?:\s*\(mean\))?": None,
            r"Time per request:\s*(?P<time_per_request_all>\S+) (?:\[ms\]|ms)\s*\(mean, across all.*": None,
            r"Transfer rate:\s*(?P<bytes_per_s>\S+) (?:\[Kbytes/sec\]|kb/s) received": None,
            r"min\s+(?P<columns>mean\[\+/-sd\]\s+median|avg)\s+max": None,
            r"(Total|Connect|Waiting):((?:\s+[0-9.]{1,20}){3,5})": self.read_times,
            r"\(Connect: (?P<connect>\S+), (?:Receive: (?P<receive>\S+), )?Length: (?P<length>\S+), "
            r"Exceptions: (?P<exceptions>\S+)\)": None,
            r"Total of (?P<completed>\S+) requests completed": None,
            r"Completed [0-9]+ requests": lambda _match: setattr(self, "progress", True),
            r"Finished [0-9]+ requests": lambda _match: setattr(self, "finished", True),
            r"\^C|Benchmarking .{1,300}\(be patient\)\.{3,}(?:\^C)?": lambda _match: setattr(self, "interrupt", True),
            r"This is ApacheBench, Version (?P<tool_version>\S+).*": None,
            r"(?:Benchmarking .{1,300}\(be patient\)\.*)?"
            r"((?:apr_|ssl |SSL |socket|connect)[^:]*: .* \([0-9]+\)|Test aborted after .*)": self.read_aborted,
        }

    def has_figures(self) -> bool:
        return bool(self.tokens.keys() - {"host", "port", "path", "tls", "columns"})

    def read_times(self, match: re.Match[str]) -> None:
        # Without a deviation and a median with -S.
        names = ("min", "mean", "max") if self.columns == "avg" else ("min", "mean", "stdev", "median", "max")
        times = [_ms(token) for token in match[2].split()]
        is_whole = len(times) == len(names) and None not in times and not self.is_cut(match[0])
        row = (
            latency_by_name(dict(zip(names, times, strict=True)), "connect+request", step_s=1e-3) if is_whole else None
        )
        if not is_whole:
            self.unread.append(match[0])
        self.rows.setdefault(match[1], row)

    def read_percentile(self, match: re.Match[str]) -> None:
        self.add(self.percentiles, match[1], _ms(match[2]) if match[1] in PERCENTAGES else None, match[0])

    def read_aborted(self, match: re.Match[str]) -> None:
        self.aborted = self.aborted or match[1]

    def result(self) -> LoadResult:
        duration_s, total = self._padded_duration_s(), self.rows.get("Total")
        is_whole = self.bytes_per_s is not None and not self.unread
        zero = 0 if is_whole and self.failed is not None else None  # ab prints no line for a count of zero
        none_failed = 0 if self.failed == 0 else None
        connect, waiting = self.rows.get("Connect"), self.rows.get("Waiting")
        return self.load_result(
            target=self._target(),
            duration_s=duration_s,
            requests=self.completed if self.requests is None else self.requests,
            latency=self._latency(total),
            connect_mean_s=connect and connect.mean_s,
            first_byte_mean_s=waiting and waiting.mean_s,
            errors=Errors(
                connect=none_failed if self.connect is None else self.connect,
                read=none_failed if self.connect is None else self.receive,
                write=zero if self.write_errors is None else self.write_errors,
                other=none_failed if self.connect is None else self.exceptions,
            ),
            non_2xx=zero if self.non_2xx is None else self.non_2xx,
            failed_length=none_failed if self.length is None else self.length,
            complete=self._complete(total),
            negotiated=_negotiated(self.tls),
            notes=self._notes(duration_s, total),
        )

    def _target(self) -> str | None:
        if not self.host or not self.path or not self.port:
            return None
        return f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.path}"

    def _padded_duration_s(self) -> float | None:
        """Return the time taken, with its microseconds padded where requests ÷ rate shows that ab did not pad them."""
        stated, rate, done = self.duration_s, self.rps, self.requests
        decimals = self.tokens.get("duration_s", "").partition(".")[2]
        if stated is None or not rate or not done or not 0 < len(decimals) < _MICROSECONDS:
            return stated
        padded = float(f"{int(stated)}.{decimals.zfill(_MICROSECONDS)}")
        tolerance = 0.005 / rate + 1e-6  # the rate has two decimals
        fits = math.isclose(done / rate, padded, rel_tol=tolerance, abs_tol=1e-6)
        stated_fits = math.isclose(done / rate, stated, rel_tol=tolerance, abs_tol=5e-4)  # 2.3 rounds to milliseconds
        return padded if fits and not stated_fits else stated

    def _latency(self, total: Latency | None) -> Latency:
        times = {"mean": self.time_per_request, "max": self.percentiles.get("100")}
        latency = total or latency_by_name(times, "connect+request", step_s=1e-3 if self.percentiles else None)
        return latency.model_copy(update={"percentiles": self.percentiles})

    def _complete(self, total: Latency | None) -> bool:
        required = (self.connections, self.duration_s, self.requests, self.failed, self.rps, self.bytes_per_s, total)
        has_percentages = "100" in self.percentiles or self.requests in (0, 1)  # none with -d either
        is_whole = None not in (*required, self.bytes_total) and has_percentages and not self.unread
        return is_whole and not self.aborted and not self._interrupted()

    def _interrupted(self) -> bool:
        return self.interrupt or (self.progress and not self.finished)

    def _notes(self, duration_s: float | None, total: Latency | None) -> Iterator[Note]:
        if self.aborted:
            yield Note(code="aborted", message=f"the run ended early: {self.aborted[:120]}")
        elif self.requests is not None and self._interrupted():
            yield Note(code="interrupted", message='ab was interrupted: the text has no "Finished"')
        if duration_s != self.duration_s:
            message = (
                f"ab 2.0 does not pad microseconds: it printed {self.duration_s} s; by its rate it took {duration_s} s"
            )
            yield Note(code="ab-unpadded-time", message=message)
        if self.length:
            message = (
                'answers that differ in length from the first one are counted as failed ("Length"); -l accepts them'
            )
            yield Note(code="ab-length", message=message)
        if total is None and self.time_per_request is not None:
            message = "the mean is time taken x concurrency ÷ requests, not measured request by request"
            yield Note(code="ab-mean", message=message)
        if total and (total.mean_s or 0) < 10e-3:  # noqa: PLR2004 - a step of 1 ms is more than a tenth
            yield Note(code="resolution", message="ab's times are whole milliseconds")


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


def parse(text: str) -> LoadResult:
    """Return the result that ab printed. Raises ParseError for other text, and for several runs."""
    return _AbReader().read(text)


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
    ),
    parse,
    (line_with("This is ApacheBench, Version "), line_with("Server Software:", "Concurrency Level:")),
)


MAX_CONCURRENCY = 20_000
"""MAX_CONCURRENCY in ab.c."""
MAX_RATE = 100_000
"""Highest rate assumed for one ab, for `-n` in a run by time; ab reserves 40 bytes for each request."""


def _validate_target(load: Load, target: Target) -> Iterable[str]:
    if target.server_name is not None and has_header(load.request_mix[0].headers, "host"):
        yield "tls.server_name: ab asks for the name in the header Host, which the load sets"


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    argv = ["ab", "-q", "-r", "-l", f"-c{load.connections}"]  # -l: answers may differ in length
    if load.request_count is not None:
        argv.append(f"-n{load.request_count}")
    elif load.duration_s is not None:
        argv += [f"-t{load.duration_s:.0f}", f"-n{load.duration_s * MAX_RATE:.0f}"]  # -t sets -n, so it comes first
    if load.histogram:
        argv += ["-g", "/dev/stdout"]
    if load.keepalive:
        argv.append("-k")
    if body := body_file(load, "ab", request):
        argv += ["-p", body]  # it sets POST, so it comes first
    if request.method != "GET" or body:
        argv += ["-m", request.method]
    if load.timeout_s is not None:
        argv.append(f"-s{load.timeout_s:.0f}")
    for line in header_lines(with_zero_length(request)):
        name, _, value = line.partition(": ")
        argv += ["-T", value] if body and name.lower() == "content-type" else ["-H", line]
    if target.server_name is not None:
        argv += ["-H", f"Host: {target.server_name}"]  # ab takes the name for the handshake from it
    return [*argv, *load.extra_args, target.origin + request.path]


ROWS = RequestRows("ab", has_status=False)
"""Every request that ended, in whole milliseconds; failed connections have no row."""


TOOL = Tool(
    name="ab",
    binary="ab",
    argv=_argv,
    parse=parse,
    rows=ROWS,
    options=frozenset({"duration_s", "request_count", "keepalive", "timeout_s", "extra_args"}),
    files=lambda load, _target: body_files(load, "ab"),
    limits=LoadLimits(
        duration_step_s=1, timeout_step_s=1, count="one each", connections=MAX_CONCURRENCY, reserved=("-g",)
    ),
    single_threaded=True,
    validate_target=_validate_target,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
)
