"""siege: its command line, and its output.

Its command line, read from its source (src/main.c, browser.c); the configuration file lifts its limits:

- `verbose` has it print a row for each answer. In a run by time users are cancelled at the end: each that is printing
  loses up to 75 rows, and one cancelled after its row leaves one row more than the summary has answers.
- Before 4.1.4 users are cancelled wherever they are, so that a run by time may never end.
- Certificates are never verified, and no session is resumed. `-t` ends at a whole second of the clock.
- Where it has more users than its limit, it sleeps for 10 s before its start.

Its output, read from its source (src/main.c, data.c):

- Times are counted in ticks of 10 ms, and include connecting. A "Response time" of 0.00 is below that, not zero. They
  are printed in seconds, in the text since 4.1.7 in milliseconds. "MB" is 1024².
- "Transactions" are answered requests, without those of a status above 399.
- JSON (since 4.0.5) is printed on stdout, the text on stderr.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, Reader, within
from benchkit.loadtools.text import (
    BINARY_SIZES,
    Count,
    Figure,
    has_line,
    is_not_a_number,
    of_unit,
    parse_number,
    parse_quantity,
    several_runs,
)
from benchkit.loadtools.tool import (
    LoadLimits,
    RequestPart,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    body_file,
    body_files,
    has_body,
    header_lines,
    option,
)
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult, Note
from benchkit.models.request import Request

TICK_S = 0.01
"""One tick of `times()` (sysconf _SC_CLK_TCK is 100 on Linux)."""
_MEGA = 1024.0**2


def _size(token: str) -> float | None:
    return parse_quantity(token.removesuffix("/sec"), BINARY_SIZES)


def _percent(token: str) -> float | None:
    share = of_unit(parse_number(token), 0.01)
    return share if share is None or share <= 1 else None


_has_text = has_line(r"Transactions:\s", r"Elapsed time:\s", r"Transaction rate:\s")
_has_json = has_line(
    r'\{?\s*"(?:elapsed_time|transaction_rate|(?:longest|shortest|successful|failed)_transactions?)"\s*:'
)


class _SiegeReader(Reader):
    """Figures of one run; "MB" are 1024²."""

    tool = "siege"
    units: ClassVar[Mapping[str, float]] = {"secs": 1.0, "ms": 1e-3}
    figures: ClassVar[Figures] = {"availability": _percent, "bytes_total": _size, "bytes_per_s": _size}

    def __init__(self) -> None:
        super().__init__()
        self.unit = "ms"
        """Unit of the response time; the extremes have none before 4.1.7."""
        self.is_aborted = False

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"Transactions:\s*(?P<requests>\S+)(?:\s+hits)?": None,
            r"Availability:\s*(?P<availability>\S+?)\s*%": None,
            r"Elapsed time:\s*(?P<duration_s>\S+) secs": None,
            r"Data transferred:\s*(?P<bytes_total>\S+\s*\w+)": None,
            r"Response time:\s*(?P<mean>\S+\s*(?:secs|ms))": self.read_mean,
            r"Transaction rate:\s*(?P<rps>\S+) trans/sec": None,
            r"Throughput:\s*(?P<bytes_per_s>\S+\s*\w+/sec)": None,
            r"Failed transactions:\s*(?P<failed>\S+)": None,
            r"(Longest|Shortest) transaction:\s*([0-9.]+)\s*(secs|ms|)": self.read_extreme,
            r"(?:Transactions|Elapsed time|Transaction rate|Longest transaction):.*": lambda match: self.unread.append(
                match[0]
            ),
            r"(?:\*\* )?Preparing (?P<connections>[0-9]+) concurrent users for battle\.": None,
            r"(?:\*\* )?(?:SIEGE|Siege) (?P<tool_version>[0-9]\S*).*": None,
            r".*\baborted due to excessive socket failure.*": lambda _match: setattr(self, "is_aborted", True),
        }

    def has_figures(self) -> bool:
        return bool(self.tokens.keys() - {"availability", "mean", "bytes_per_s", "tool_version"})

    def read_mean(self, match: re.Match[str]) -> None:
        number, self.unit = match["mean"].split()
        if not is_not_a_number(number):  # without a transaction there is no mean
            self.set_figures(match)

    def read_extreme(self, match: re.Match[str]) -> None:
        if self.is_last and self.unit == "ms" and not match[3]:  # its unit may be in the missing end
            self.unread.append(match[0])
            return
        name, token = match[1].lower(), f"{match[2]}{match[3] or self.unit}"
        if self.tokens.setdefault(name, token) != token:
            raise several_runs("siege", match[0])
        self.times[name] = self.time(token)

    def result(self) -> LoadResult:
        self.step_s = TICK_S
        required = [self.requests, self.duration_s, self.rps, self.failed, self.availability]
        required += [self.times.get("longest"), self.times.get("shortest"), self.bytes_total, self.bytes_per_s]
        is_whole = None not in required and (self.times.get("mean") is not None or not self.requests)
        is_too_fast = not self.duration_s and self.requests != 0
        if is_too_fast:
            self.rps, self.bytes_per_s = self.rps or None, self.bytes_per_s or None
        return self.load_result(
            is_measured=bool(self.requests),
            complete=is_whole and not self.unread and not self.is_aborted,
            notes=self._notes(is_too_fast=is_too_fast),
        )

    def _notes(self, *, is_too_fast: bool) -> Iterator[Note]:
        if is_too_fast:
            yield Note(code="short-run", message="the run took less than 10 ms: siege's rates of 0.00 are not measured")
        if self.is_aborted:
            yield Note(code="aborted", message="siege aborted the run: too many sockets failed")


class _Document(JsonOutput):
    """JSON, in seconds and MB."""

    requests: Count = within("transactions")
    availability: Figure
    duration_s: Figure = within("elapsed_time")
    bytes_total: Figure = within("data_transferred")
    mean: Figure = within("response_time")
    rps: Figure = within("transaction_rate")
    bytes_per_s: Figure = within("throughput")
    failed: Count = within("failed_transactions")
    longest: Figure = within("longest_transaction")
    shortest: Figure = within("shortest_transaction")


def parse(text: str) -> LoadResult:
    """Return the result that siege printed. Raises ParseError for other text, and several runs."""
    reader = _SiegeReader()
    if _has_text(text) or not _has_json(text):  # the text is finer than a document beside it
        return reader.read(text)
    document = reader.set_document(text, _Document, 1)
    reader.availability = of_unit(document.availability, 0.01)
    reader.bytes_total, reader.bytes_per_s = document.bytes_total * _MEGA, document.bytes_per_s * _MEGA
    reader.times = {name: getattr(document, name) for name in ("mean", "longest", "shortest")}
    return reader.result()


_has_mark = has_line(
    r"(?:Transaction rate|(?:Longest|Shortest|Successful) transactions?|Elapsed time):\s",
    r"Transactions:\s+[0-9]+ hits",
    r"(?:\*\* )?SIEGE [0-9]",
    r"(?:\*\* )?Preparing [0-9]+ concurrent users for battle",
    "The server is now under siege",
)
FORMAT = OutputFormat("siege", lambda text: _has_mark(text) or _has_json(text), parse)


CONFIG = "siege.conf"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


def _validate_request(request: Request) -> Iterable[tuple[RequestPart, str]]:
    if request.method not in _METHODS:
        yield "method", f"siege sends {', '.join(sorted(_METHODS))}, not {request.method}"
    if has_body(request) and request.method == "GET":
        yield "body", "siege sends no body with GET"
    if b"\0" in (request.content or b""):
        yield "body", "siege ends a body at its first zero byte"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    options = {
        "limit": max(load.connections, 255),
        "failures": 1_000_000_000,
        "connection": "keep-alive" if load.keepalive else "close",
        "protocol": "HTTP/1.1",
        "verbose": "true" if load.histogram else "false",
        "color": "off",
        "json_output": "false",
        "logging": "false",
        "show-logfile": "false",
        "parser": "false",
        "follow-location": "false",
        "cache": "false",
        "benchmark": "true",
        "chunked": "true",
        "accept-encoding": "identity",
        **({} if load.timeout_s is None else {"timeout": f"{load.timeout_s:.0f}"}),
    }
    return {
        CONFIG: "".join(f"{name} = {value}\n" for name, value in options.items()).encode(),
        **body_files(load, target),
    }


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    words = [
        target.origin + request.path,
        *option("{}", request.method != "GET" and request.method),
        *option("<{}", body_file(load, request)),
    ]
    return [
        *("env", "HOME=.", "siege", f"--rc={CONFIG}", "-b", f"-c{load.connections}"),  # it writes .siege/ into its home
        *option("-t{:.0f}S", load.duration_s),
        *option("-r{}", load.request_count and load.request_count // load.connections),
        *(word for line in header_lines(request) for word in ("-H", line)),
        *load.extra_args,
        " ".join(words),
    ]


ROWS = RequestRows("siege")
"""Every answer, in steps of 10 ms; failed requests have no row, and in JSON mode there are no rows."""


TOOL = Tool(
    name="siege",
    binary="siege",
    argv=_argv,
    format=FORMAT,
    rows=ROWS,
    summary="stderr",
    options=frozenset({"duration_s", "request_count", "keepalive", "timeout_s", "extra_args"}),
    requests=RequestSupport(own_headers=("user-agent",), validate=_validate_request),
    files=_files,
    limits=LoadLimits(duration_step_s=1, timeout_step_s=1, count="same each"),
    own_s=12.0,
    thread_per_connection=True,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=False),
)
