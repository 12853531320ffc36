"""bombardier: its command line, and its output.

Its command line, read from its source (1.2.6: bombardier.go, clients.go, limiter.go, completion_barriers.go):

- GET, HEAD and PUT are sent again by fasthttp, up to four times, where the connection is closed without an answer. Over
  HTTP/2 (`--http2`) all requests share one connection.
- At a rate a connection takes the next tick of one clock, waits for it, and then sends: times count from sending.
- Every request is answered at the end of its time. Those without an answer have a time too, and count as `others`.
- Certificates are verified by the host's authorities or not at all (`-k`), and no session is resumed.

Its output, read from its source (bombardier.go, templates.go, internal/test_info.go):

- "Reqs/sec" is the mean of the rates of short intervals (20 ms), not requests ÷ time. The text states only the time
  that was asked for, the JSON the time taken.
- "Stdev" of latencies gives each different time (in µs) the same weight, however often it occurred.
- "Throughput" is of bytes received and sent. KB is 1024. Two decimals in a unit that changes at 85 % of the next one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from benchkit.files import BACKENDS
from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, Reader, Times, within
from benchkit.loadtools.text import (
    BINARY_SIZES,
    Count,
    Figure,
    errors_of,
    has_any,
    line_with,
    parse_count,
    parse_duration,
    parse_quantity,
)
from benchkit.loadtools.tool import (
    GoProgram,
    LoadLimits,
    ParsedOutput,
    RateSupport,
    RequestPart,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    body_file,
    has_body,
    header_lines,
    option,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, LoadResult
from benchkit.models.request import Request

_START = r"Bombarding \S+ (?:for|with) "
_JSON = re.compile(r'\{\s*"spec":\s*\{\s*"numberOfConnections"')
_OWN = line_with(
    _START,
    r"Statistics\s+Avg\s+Stdev\s+Max$",
    r"Reqs/sec\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+$",
    r"1xx - [0-9]+, 2xx - [0-9]+",
    r"others - [0-9]+$",
    r"Throughput:\s+[0-9.]+[KMGTP]?B?/s",
)


class _BombardierReader(Reader):
    tool = "bombardier"
    own = _OWN
    figures: ClassVar[Figures] = {
        "duration_s": parse_duration,
        "bytes_per_s": lambda token: parse_quantity(token, {"": 1, **BINARY_SIZES}),
        **dict.fromkeys(("of_1xx", "of_2xx", "of_3xx", "of_4xx", "of_5xx"), parse_count),
    }

    of_1xx: int | None = None
    of_2xx: int | None = None
    of_3xx: int | None = None
    of_4xx: int | None = None
    of_5xx: int | None = None

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"(?:Bombarding .*)?Bombarding (?P<target>\S+) (?:for (?P<duration_s>\S+)|with \S+ request(?:s|\(s\))) "
            r"using (?P<connections>[0-9]+) connection(?:s|\(s\))": None,
            r"Reqs/sec\s+(?P<rps>\S+)\s+\S+\s+\S+": None,
            r"Latency\s+(?P<mean>\S+)\s+(?P<stdev>\S+)\s+(?P<max>\S+)": None,
            r"([0-9]{1,2})%\s+(\S+)": self.add_percentile,
            r"1xx - (?P<of_1xx>[0-9]+), 2xx - (?P<of_2xx>[0-9]+), 3xx - (?P<of_3xx>[0-9]+), 4xx - (?P<of_4xx>[0-9]+), "
            r"5xx - (?P<of_5xx>[0-9]+)": None,
            r"others - (?P<failed>[0-9]+)": None,
            r"Throughput:\s+(?P<bytes_per_s>\S+)/s": None,
            r"(?P<few>There wasn't enough data to compute statistics) for (?:requests|latencies)\.": None,
            r"(\S.*) - ([0-9]{1,18})": self.read_error,
        }

    def read_error(self, match: re.Match[str]) -> None:
        if "failed" in self.tokens:
            self.messages[match[1]] += int(match[2])

    def result(self) -> LoadResult:
        codes = (self.of_1xx, self.of_2xx, self.of_3xx, self.of_4xx, self.of_5xx)
        known = [each for each in codes if each is not None]
        is_counted = len(known) == len(codes) and self.failed is not None
        is_whole = self.bytes_per_s is not None and not self.unread
        is_measured = "few" in self.tokens or None not in (self.rps, self.times.get("mean"))
        # The list of errors stands between their number and the throughput: without that, it may lack some.
        has_errors = is_counted and (is_whole or self.messages.total() == self.failed)
        return self.load_result(
            requests=sum(known) + (self.failed or 0) if is_counted else None,
            errors=errors_of(self.messages) if has_errors or self.messages else Errors(),
            non_2xx=sum(known) - (self.of_2xx or 0) if len(known) == len(codes) else None,
            complete=is_whole and is_measured and is_counted,
        )


class _Failure(JsonOutput):
    description: str
    count: Count


class _Document(JsonOutput):
    """JSON of `--format=json`; times are microseconds."""

    connections: Count = within("spec", "numberOfConnections")
    target: str | None = within("spec", "url", default=None)
    bytes_total: Count = within("result", "bytesRead")
    duration_s: Figure = within("result", "timeTakenSeconds")
    of_1xx: Count = within("result", "req1xx")
    of_2xx: Count = within("result", "req2xx")
    of_3xx: Count = within("result", "req3xx")
    of_4xx: Count = within("result", "req4xx")
    of_5xx: Count = within("result", "req5xx")
    failed: Count = within("result", "others")
    failures: tuple[_Failure, ...] = within("result", "errors", default=())
    times: Times = within("result", "latency", default={})
    rps: Figure | None = within("result", "rps", "mean", default=None)


def parse(text: str) -> LoadResult:
    """Return the result that bombardier printed. Raises ParseError for other text, and for several runs."""
    reader = _BombardierReader()
    if not _JSON.search(text):
        return reader.read(text)
    document = reader.set_document(text, _Document, 1e-6)
    reader.messages.update({each.description: each.count for each in document.failures})
    return reader.result().model_copy(update={"complete": True})


FORMAT = OutputFormat("bombardier", has_any(_OWN, _JSON), parse)


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what bombardier measured: its own count of requests includes those without an answer."""
    result = parse(output.stdout)
    answered = None if result.requests is None else result.requests - (result.failed or 0)
    rate = answered / result.duration_s if answered is not None and result.duration_s else None
    return ParsedOutput(result.model_copy(update={"requests": answered, "rps": rate}), None)


PROGRAM = GoProgram(BACKENDS / "bombardier", "github.com/codesenberg/bombardier", "1.2.6", "bombardier")

_NOTES = (
    "bombardier sends a request again, up to four times, if its connection closes without an answer, and prints no count.",
    "bombardier prints percentiles, not every time: several generators' or slices' cannot be merged.",
)
METHODS = frozenset({"GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH"})


def _validate_request(request: Request) -> Iterator[tuple[RequestPart, str]]:
    if request.method not in METHODS:
        yield "method", f"bombardier does not know {request.method}"
    if request.method == "HEAD" and has_body(request):
        yield "body", "bombardier sends no body with HEAD: set another method"


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    headers = [*header_lines(request), *([] if load.keepalive else ["Connection: close"])]
    return [
        *(PROGRAM.name, f"--connections={load.in_flight}", "--latencies", "--print=result", "--format=json"),
        *option("--requests={}", load.request_count),
        *option("--duration={:g}s", load.duration_s),
        *option("--http2", target.protocol == "h2"),
        *option("--insecure", target.tls is not None),
        *option("--rate={:.0f}", load.rate),
        *option("--timeout={:g}s", load.timeout_s),
        *option("--method={}", request.method != "GET" and request.method),
        *(f"--header={line}" for line in headers),
        *option("--body-file={}", body_file(load, request)),
        *load.extra_args,
        target.origin + request.path,
    ]


TOOL = Tool(
    name="bombardier",
    binary="bombardier",
    argv=_argv,
    format=FORMAT,
    measure=measure,
    go_program=PROGRAM,
    rate=RateSupport(is_open=False, clocks="one"),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(validate=_validate_request),
    limits=LoadLimits(least_s=1, rate_step=1, reserved=("-o", "--format"), one_http2_connection=True),
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=False),
    notes=_NOTES,
    own_s=5.0,
)
