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
- Without `-r` an error ends the run, and ab prints only "Total of N requests completed". An interrupted run prints its
  summary, but no "Finished".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, OutputFormat, Reader
from benchkit.loadtools.text import has_line, latency_by_name, of_unit, parse_count, parse_number
from benchkit.loadtools.tool import LoadLimits, RequestRows, Target, TlsSupport, Tool, body_file, header_lines, option
from benchkit.models.load import Load
from benchkit.models.load_result import Latency, LoadResult, Note
from benchkit.models.protocol import Negotiated
from benchkit.models.request import has_header

_TLS = re.compile(r"TLSv([0-9.]{1,3}),(\S{1,100}),([0-9]{1,5}),[0-9]{1,5}")
_LABELS: Mapping[str, str] = {
    "Server Hostname": "host",
    "Server Port": "port",
    "Document Path": "path",
    "SSL/TLS Protocol": "tls",
    "Concurrency Level": "connections",
    "Complete requests": "requests",
    "Failed requests": "failed",
    "Write errors": "errors_write",
    "Non-2xx responses": "non_2xx",
}
PERCENTAGES = ("50", "66", "75", "80", "90", "95", "98", "99", "100")
"""Rows of "Percentage of the requests served" (`percs` in ab.c)."""
MIN_RSA_BITS = 1024
"""Least bits of the key of an RSA certificate; curves have at most 521."""


class _AbReader(Reader):
    """Figures of ab's summary; "Kbytes" are 1024."""

    tool = "ab"
    units: ClassVar[Mapping[str, float]] = {"": 1e-3}
    figures: ClassVar[Figures] = {
        "bytes_per_s": lambda token: of_unit(parse_number(token), 1024),
        "time_per_request": lambda token: of_unit(parse_number(token), 1e-3),
        "completed": parse_count,
    }

    host: str | None = None
    port: str | None = None
    path: str | None = None
    tls: str | None = None
    time_per_request: float | None = None
    completed: int | None = None
    """Requests before the error that ended the run."""
    columns: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[str, Latency] = {}
        """Rows of "Connection Times" by their label."""
        self.progress, self.finished, self.interrupt = False, False, False
        self.aborted: str | None = None
        """Error that ended the run."""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            rf"({'|'.join(PERCENTAGES)})%\s+(\S+)(?:\s+\((?:longest|last) request\)?)?": self.add_percentile,
            **{rf"{label}:\s*(?P<{name}>\S+)": None for label, name in _LABELS.items()},
            r"Time taken for tests:\s*(?P<duration_s>\S+) seconds": None,
            r"Total transferred:\s*(?P<bytes_total>\S+) bytes": None,
            r"Requests per second:\s*(?P<rps>\S+)(?: \[#/sec\](?:\s*\(mean\))?)?": None,
            r"Time per request:\s*(?P<time_per_request>\S+) (?:\[ms\]|ms)(?:\s*\(mean\))?": None,
            r"Transfer rate:\s*(?P<bytes_per_s>\S+) (?:\[Kbytes/sec\]|kb/s) received": None,
            r"min\s+(?P<columns>mean\[\+/-sd\]\s+median|avg)\s+max": None,
            r"(Total|Connect|Waiting):((?:\s+[0-9.]{1,20}){3,5})": self.read_times,
            r"\(Connect: (?P<errors_connect>\S+), (?:Receive: (?P<errors_read>\S+), )?Length: (?P<failed_length>\S+), "
            r"Exceptions: (?P<errors_other>\S+)\)": None,
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
        times = [of_unit(parse_number(token), 1e-3) for token in match[2].split()]
        if len(times) != len(names) or None in times:
            self.unread.append(match[0])
            return
        row = latency_by_name(dict(zip(names, times, strict=True)), "connect+request", step_s=1e-3)
        self.rows.setdefault(match[1], row)

    def read_aborted(self, match: re.Match[str]) -> None:
        self.aborted = self.aborted or match[1]

    def result(self) -> LoadResult:
        whole, _, micros = self.tokens.get("duration_s", "").partition(".")
        if len(micros) in (4, 5):  # ab 2.0 does not pad microseconds: 3.073261 s reads "3.73261 seconds"
            self.duration_s = int(whole) + int(micros) / 1e6
        total, connect, waiting = (self.rows.get(name) for name in ("Total", "Connect", "Waiting"))
        is_whole = self.bytes_per_s is not None and not self.unread
        if is_whole and self.failed is not None:  # ab prints no line for a count of zero
            self.errors_write, self.non_2xx = self.errors_write or 0, self.non_2xx or 0
        if self.failed == 0:
            self.errors_connect = self.errors_read = self.errors_other = self.failed_length = 0
        is_interrupted = self.interrupt or (self.progress and not self.finished)
        self.times = {"mean": self.time_per_request, "max": self.percentiles.get("100")}
        has_target = self.host and self.port and self.path
        required = (self.connections, self.duration_s, self.requests, self.failed, self.rps, self.bytes_total, total)
        has_percentages = "100" in self.percentiles or self.requests in (0, 1)  # none with -d either
        return self.load_result(
            target=f"{'https' if self.tls else 'http'}://{self.host}:{self.port}{self.path}" if has_target else None,
            requests=self.completed if self.requests is None else self.requests,
            latency=total.model_copy(update={"percentiles": self.percentiles}) if total else self.latency(),
            connect_mean_s=connect and connect.mean_s,
            first_byte_mean_s=waiting and waiting.mean_s,
            complete=is_whole and None not in required and has_percentages and not (self.aborted or is_interrupted),
            negotiated=_negotiated(self.tls),
            notes=self._notes(total, is_interrupted=is_interrupted),
        )

    def _notes(self, total: Latency | None, *, is_interrupted: bool) -> Iterator[Note]:
        if self.aborted:
            yield Note(code="aborted", message=f"the run ended early: {self.aborted[:120]}")
        elif self.requests is not None and is_interrupted:
            yield Note(code="interrupted", message='ab was interrupted: the text has no "Finished"')
        if self.failed_length:
            message = (
                'answers that differ in length from the first one are counted as failed ("Length"); -l accepts them'
            )
            yield Note(code="ab-length", message=message)
        if total is None and self.time_per_request is not None:
            message = "the mean is time taken x concurrency ÷ requests, not measured request by request"
            yield Note(code="ab-mean", message=message)


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
    body = body_file(load, request)
    argv = [
        *("ab", "-q", "-r", "-l", f"-c{load.connections}"),  # -l: answers may differ in length
        *option("-n{}", load.request_count),
        *option("-t{:.0f}", load.duration_s),  # it sets -n, so it comes first
        *option("-n{:.0f}", load.duration_s and load.duration_s * MAX_RATE),
        *option("-g {}", load.histogram and "/dev/stdout"),
        *option("-k", load.keepalive),
        *option("-p {}", body),  # it sets POST, so it comes first
        *option("-m {}", (body or request.method != "GET") and request.method),
        *option("-s{:.0f}", load.timeout_s),
    ]
    for line in header_lines(request, with_zero_length=True):
        name, _, value = line.partition(": ")
        argv += ["-T", value] if body and name.lower() == "content-type" else ["-H", line]
    host = f"Host: {target.server_name}" if target.server_name is not None else None
    return [*argv, *option("-H {}", host), *load.extra_args, target.origin + request.path]  # for the handshake too


ROWS = RequestRows("ab", has_status=False)
"""Every request that ended, in whole milliseconds; failed connections have no row."""


TOOL = Tool(
    name="ab",
    binary="ab",
    argv=_argv,
    format=FORMAT,
    rows=ROWS,
    options=frozenset({"duration_s", "request_count", "keepalive", "timeout_s", "extra_args"}),
    limits=LoadLimits(
        duration_step_s=1, timeout_step_s=1, count="one each", connections=MAX_CONCURRENCY, reserved=("-g",)
    ),
    single_threaded=True,
    validate_target=_validate_target,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
)
