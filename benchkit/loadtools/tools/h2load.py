"""h2load: its command line, and its output, read from its source (src/h2load.cc).

Its command line:

- With `--warm-up-time` connections are opened and requests are sent for that long before the measured time. They are in
  no figure but "finished in", and have no row.
- A connection closed with `Connection: close` is opened again, one that is reset is not. One that is not established
  when the time is over sends requests for ever.
- At a rate each client has a timer, of 10 ms at least. No figure has the wait of requests that were due.
- `--npn-list` has it offer one protocol in the handshake. It speaks HTTP/3 only if it is built with ngtcp2.
- Certificates are never verified, sessions never resumed. It adds Content-Length to a request with a body alone.
- `--log-file` has a row for every request that ended, to the microsecond.

Its output:

- "total" are the requests asked for, or those made in a run by time. Requests that a lost connection never sent are
  counted as failed and errored. The rate is of answered requests alone.
- Status counts are by class. "time for request" runs from sending to the end of the answer, without connecting. Its
  quantiles are printed since 1.68; since 1.69 the rows are called "request", "connect" and "TTFB".
- Lines of threads and clients may be torn apart: a text is whole with its last rows.
- Protocol and cipher are of the first client only. K, M and G are 1024.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, OutputFormat, Reader
from benchkit.loadtools.text import (
    BINARY_SIZES,
    has_any,
    latency_by_name,
    line_with,
    parse_count,
    parse_number,
    parse_quantity,
    parse_time,
)
from benchkit.loadtools.tool import (
    LoadLimits,
    RateSupport,
    RequestPart,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    UnsupportedField,
    body_file,
    body_files,
    has_body,
    header_lines,
    option,
    repeated_requests,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Latency, LoadResult
from benchkit.models.protocol import HttpProtocol, Negotiated, has_streams
from benchkit.models.request import Request

_WARM_UP = re.compile(r"Timing-based test with ([0-9.]+)s of warm-up time and ([0-9.]+)s of main duration")
_ROWS: Mapping[str, str] = {"1st byte": "first_byte", "TTFB": "first_byte"}


def _size(token: str) -> float | None:
    return parse_quantity(token.removesuffix("/s"), {"": 1, **BINARY_SIZES})


class _H2loadReader(Reader):
    tool = "h2load"
    figures: ClassVar[Figures] = {
        **dict.fromkeys(("done", "errored", "of_2xx", "of_3xx", "of_4xx", "of_5xx"), parse_count),
        "bytes_per_s": _size,
        "bytes_total": _size,
        "finished_in": parse_time,
    }

    finished_in: float | None = None
    done: int | None = None
    errored: int | None = None
    of_2xx: int | None = None
    of_3xx: int | None = None
    of_4xx: int | None = None
    of_5xx: int | None = None
    protocol: str | None = None
    """Name in the handshake of TLS (ALPN), or h2c."""
    tls_version: str | None = None
    cipher: str | None = None

    def __init__(self) -> None:
        super().__init__()
        self.has_beginning = False
        self.clients_of: dict[str, int] = {}
        """Number of clients by the number of their thread."""
        self.columns: tuple[str, ...] = ()
        self.rows: dict[str, Latency] = {}
        """Times of requests, connecting and first bytes."""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"spawning thread #([0-9]+): ([0-9]+) (?:total client\(s\)\.|concurrent clients,).*": self.read_spawning,
            r"starting benchmark\.\.\.": lambda _match: setattr(self, "has_beginning", True),
            r"finished in (?P<finished_in>[^,]+), (?P<rps>\S+) req/s, (?P<bytes_per_s>\S+/s)": None,
            r"requests: (?P<requests>\S+) total, \S+ started, (?P<done>\S+) done, \S+ succeeded"
            r"(?:, (?P<failed>\S+) failed)?(?:, (?P<errored>\S+) errored)?(?:, (?P<errors_timeout>\S+) timeout)?": None,
            r"status codes: (?P<of_2xx>\S+) 2xx, (?P<of_3xx>\S+) 3xx, (?P<of_4xx>\S+) 4xx, (?P<of_5xx>\S+) 5xx": None,
            r"traffic: (?:\S+ \()?(?P<bytes_total>\w+)\) total,.*": None,
            r"traffic: (?P<bytes_total>\S+)(?: bytes)? total,.*": None,
            r"min\s+max\s+(median\s+p95\s+p99\s+)?mean\s+sd(?:\s+\+/- sd)?": self.read_columns,
            r"(?:time (?:for|to) )?(request|connect|1st byte|TTFB)\s*:\s*(\S.*)": self.read_times,
            r"Application protocol: (?P<protocol>\S+)(?:\s+[^\w\s].*)?": None,
            r"(?:TLS )?Protocol: (?:TLSv)?(?P<tls_version>\S+)": None,
            r"Cipher: (?P<cipher>\S+)": None,
        }

    def has_figures(self) -> bool:
        return bool(self.tokens or self.has_beginning or self.clients_of)

    def read_spawning(self, match: re.Match[str]) -> None:
        if (times := _WARM_UP.search(match[0])) and parse_number(times[1]):
            self.duration_s = parse_number(times[2])
        self.add(self.clients_of, match[1], parse_count(match[2]), match[0])

    def read_columns(self, match: re.Match[str]) -> None:
        self.columns = ("min", "max", *(("50", "95", "99") if match[1] else ()), "mean", "stdev")

    def read_times(self, match: re.Match[str]) -> None:
        *cells, within_sd = match[2].split() if "%" in match[2] else [*match[2].split(), "%"]
        self.step_s = None
        times = dict(zip(self.columns, map(self.time, cells), strict=False))
        if not times or None in times.values() or len(cells) != len(self.columns) or within_sd[-1] != "%":
            self.unread.append(match[0])
            return
        row = latency_by_name(times, "request", step_s=self.step_s)
        self.rows.setdefault(_ROWS.get(match[1], match[1]), row)

    def result(self) -> LoadResult:
        not_2xx = [n for n in (self.of_3xx, self.of_4xx, self.of_5xx) if n is not None]
        # A text without its end, or with a gap in the numbers of threads, may lack some.
        if self.finished_in is not None and max(map(int, self.clients_of), default=0) == len(self.clients_of) - 1:
            self.threads, self.connections = len(self.clients_of), sum(self.clients_of.values())
        row = self.rows.get("request", Latency(covers="request", corrected=False))
        totals = (self.finished_in, self.rps, self.requests, self.bytes_total, self.of_2xx)
        has_rows = {"request", "connect", "first_byte"} <= self.rows.keys()
        if self.errored is not None:  # they include time-outs
            self.errors_other = max(0, self.errored - (self.errors_timeout or 0))
        return self.load_result(
            is_measured=self.done != 0 and row.max_s != 0,
            duration_s=self.finished_in if self.duration_s is None else self.duration_s,
            latency=row,
            connect_mean_s=_mean(self.rows.get("connect")),
            first_byte_mean_s=_mean(self.rows.get("first_byte")),
            non_2xx=sum(not_2xx) if not_2xx else None,
            complete=None not in totals and has_rows and not self.unread,
            negotiated=self._negotiated(),
        )

    def _negotiated(self) -> Negotiated | None:
        if self.protocol is None:
            return None
        names: Mapping[str, HttpProtocol] = {"h2": "h2", "h2c": "h2c", "h3": "h3"}
        if self.tls_version or self.cipher:
            names = {"h2": "h2", "http/1.1": "https1", "h3": "h3"}
        elif self.connections is not None:  # the text has its beginning, where the lines on TLS would be
            names = {"h2c": "h2c", "http/1.1": "http1"}
        return Negotiated(protocol=names.get(self.protocol), tls_version=self.tls_version, cipher=self.cipher)


def _mean(row: Latency | None) -> float | None:
    """Return the mean of a row; None where all of it is 0, which h2load prints without any sample."""
    return row.mean_s if row is not None and row.max_s else None


def parse(text: str) -> LoadResult:
    """Return the result that h2load printed. Raises ParseError for other text, and for several runs."""
    return _H2loadReader().read(text)


_OWN = line_with(
    r"spawning thread #[0-9]+: [0-9]+ (?:total client|concurrent clients)",
    r"finished in \S+, \S+ req/s, \S+B/s",
    r"requests: [0-9]+ total, [0-9]+ started, [0-9]+ done, [0-9]+ succeeded",
    r"status codes: [0-9]+ 2xx, [0-9]+ 3xx, [0-9]+ 4xx, [0-9]+ 5xx$",
    r"traffic: .*\([0-9]+\) (?:total|headers|data)",
    r"time (?:for request|for connect|to 1st byte)\s*:",
    r"(?:request|connect|TTFB)\s*:\s+[0-9.]+[mun]?s\s+[0-9.]+[mun]?s\s",
)
FORMAT = OutputFormat("h2load", has_any(_OWN), parse)


URIS = "h2load.uris"
"""File with the URIs of several requests."""


def _validate_request(request: Request) -> Iterable[tuple[RequestPart, str]]:
    if has_body(request) and request.method == "GET":
        yield "body", "h2load sends no body with GET: set another method"


def _validate(load: Load) -> Iterable[UnsupportedField]:
    mix = load.request_mix
    others = [(each.method, each.headers, each.body, each.body_file) for each in mix]
    if any(other != others[0] for other in others):
        yield UnsupportedField("requests", "h2load sends several requests that differ in their paths alone")
    if len(mix) > 1 and load.request_count is not None:
        yield UnsupportedField("requests", "each connection of h2load goes through its list: set duration_s")


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    uris = "".join(f"{target.named_origin}{request.path}\n" for request in repeated_requests(load))
    return {**body_files(load, target), **({URIS: uris.encode()} if len(load.request_mix) > 1 else {})}


def _argv(load: Load, target: Target) -> list[str]:
    request = load.request_mix[0]
    offers = {"http1": "--h1", "https1": "--h1", "h2": "--npn-list=h2", "h3": "--npn-list=h3"}
    ciphers = "--tls13-ciphers={}" if target.tls is not None and target.tls.version == "1.3" else "--ciphers={}"
    headers = header_lines(request, with_zero_length=True)
    if request.method != "GET":
        headers = [f":method: {request.method}", *headers]
    return [
        *("h2load", *option("{}", offers.get(target.protocol))),
        *option("-m{}", has_streams(target.protocol) and load.streams),
        *option(ciphers, target.tls and target.tls.ciphers),
        *option("--connect-to={}", target.server_name and target.authority),
        *(f"-c{load.connections}", f"-t{load.threads}"),
        *option("-n{}", load.request_count),
        *option("-D{}", load.duration_s and _time(load.duration_s)),
        *option("--log-file=/dev/stdout", load.histogram),
        *option("--rps={:.6g}", load.rate and load.rate / load.connections),
        *option("-N{:.0f}s", load.timeout_s),
        *option("-d{}", body_file(load, request)),
        *(word for line in headers for word in ("-H", line)),
        *load.extra_args,
        f"-i{URIS}" if len(load.request_mix) > 1 else target.named_origin + request.path,
    ]


ROWS = RequestRows("h2load", covers="request")
"""Every request that ended, in microseconds from sending it; failed streams are counted as errors."""


def _time(seconds: float) -> str:
    return f"{seconds:.0f}s" if seconds == int(seconds) else f"{seconds * 1000:.0f}ms"


TOOL = Tool(
    name="h2load",
    binary="h2load",
    argv=_argv,
    format=FORMAT,
    rows=ROWS,
    rate=RateSupport(is_open=False, clocks="per connection"),
    options=frozenset({"threads", "duration_s", "request_count", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(mix="in turn", own_headers=("host",), validate=_validate_request),
    files=_files,
    validate=_validate,
    limits=LoadLimits(
        duration_step_s=0.001,
        timeout_step_s=1,
        count="one each",
        thread_has_connection=True,
        reserved=("--log-file",),
    ),
    lead=lambda seconds: (f"--warm-up-time={_time(seconds)}",),
    protocols=frozenset({"http1", "https1", "h2", "h2c", "h3"}),
    builds={"h3": "built with ngtcp2, which Debian's is not"},
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
)
