"""hey: its command line, and its output.

Its command line, read from its source (requester/requester.go, print.go):

- At a rate each worker has a clock of its own: a tick that finds it waiting for an answer is dropped.
- All workers share one connection of HTTP/2 (`-h2`). Certificates are never verified, and no session is resumed.
- `-o` takes a template (Go's text/template). `TEMPLATE` prints every answer's time to the nanosecond, and exact counts.

Its output, read from its source (requester/report.go, print.go):

- It keeps the times and statuses of 1,000,000 answers. For more, percentiles and status counts are of the first
  million, and "Average" is wrong. The number of requests is not printed: it is the sum of statuses and errors.
- The rate counts failed requests too; in boom and early versions of hey only answered ones.
- A time runs from before connecting to the end of the body, and is rounded to 0.1 ms.
- Percentiles that need more requests are printed as "0% in 0.0000 secs". Where every request failed, slowest and
  fastest are 0.0000, which are no measured times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import Field, TypeAdapter

from benchkit.errors import ParseError
from benchkit.loadtools.reader import Action, OutputFormat, SectionReader
from benchkit.loadtools.text import Count, count_non_2xx, errors_of, excerpt, has_line, not_output_of, parse_number
from benchkit.loadtools.tool import (
    LoadLimits,
    ParsedOutput,
    RateSupport,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    header_lines,
    option,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, LoadResult, Note
from benchkit.units import counted

MAX_RESULTS = 1_000_000
"""`maxRes` in requester/report.go."""
ROWS = RequestRows("hey")
"""The first million answers, printed by the template; failed requests have no row."""
_SECS = r"secs?\.?"

_is_of_oha = has_line("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ")
"""True for a text with lines of oha, whose output resembles hey's."""


_CAP = Note(
    code="hey-cap",
    message=f"hey keeps {MAX_RESULTS:,} results and there were more. Percentiles, extremes and status counts are of the "
    "first million; the average it prints is wrong and is not stated",
)


class _HeyReader(SectionReader):
    tool = "hey"
    units: ClassVar[Mapping[str, float]] = {"": 1.0}
    heading = re.compile(
        r"(Summary|Response time histogram|Latency distribution|Details \(.*\)|Detailed Report|HTTP Trace|HttpTrace"
        r"|Status code distr[iu]bution|Error distribution):"
    )

    def lines(self) -> Mapping[str, Action | None]:
        return {
            rf"Total:\s*(?P<duration_s>\S+) {_SECS}": None,
            rf"Slowest:\s*(?P<slowest>\S+) {_SECS}": None,
            rf"Fastest:\s*(?P<fastest>\S+) {_SECS}": None,
            rf"Average:\s*(?P<average>\S+) {_SECS}": None,
            r"Requests/sec:\s*(?P<rps>\S+)": None,
            r"Total [Dd]ata(?: Rece?ie?ved| Transferred)?:\s*(?P<bytes_total>\S+) bytes\.?": None,
            rf"([0-9]{{1,3}})%{{1,2}}(?: in)?\s+(\S+) {_SECS}": self.add_percentile,
            r"\[([0-9]{1,3})\]\s+(\S+) responses": self.add_status,
            r"\[([0-9]{1,18})\]\s+(\S.*)": self.add_message,
        }

    def has_figures(self) -> bool:
        return bool(
            self.tokens.keys() & {"duration_s", "average"} or self.percentiles or self.statuses or self.messages
        )

    def add_percentile(self, match: re.Match[str]) -> None:
        if match[1] != "0" or parse_number(match[2]) != 0:  # printed for percentiles that need more requests
            super().add_percentile(match)

    def result(self) -> LoadResult:
        answered = sum(self.statuses.values())
        by_rate = math.nan if self.rps is None or self.duration_s is None else self.rps * self.duration_s
        rounding = 5e-5 * ((self.rps or 0) + (self.duration_s or 0)) + 1e-3
        totals = (self.counted, answered if self.messages else math.nan)  # early versions rated answers alone
        has_statuses = "Status code distribution" in self.sections
        is_counted = has_statuses and any(abs(total - by_rate) <= rounding for total in totals)
        is_capped = answered == MAX_RESULTS and not by_rate - self.counted <= rounding
        # Before 2016 a run without an answer printed its errors alone.
        is_known = is_counted or is_capped or (self.duration_s is None and "Error distribution" in self.sections)
        has_times = len(self.times) == 3 or not self.statuses  # noqa: PLR2004 - slowest, fastest, average
        mean_s = self.times.get("average")
        return self.load_result(
            is_measured=mean_s is not None or 0 not in (self.times.get("slowest"), self.times.get("fastest")),
            requests=self.counted if is_counted else None,
            latency=self.latency().model_copy(update={"mean_s": None}) if is_capped else self.latency(),
            errors=errors_of(self.messages) if is_known and not self.unread else Errors(),
            non_2xx=count_non_2xx(self.statuses) if is_counted else None,
            failed=self.messages.total() if is_known else None,
            complete=has_times and not self.unread and (is_counted or is_capped),
            notes=[_CAP] if is_capped else [],
        )


def parse(text: str) -> LoadResult:
    """Return the result that hey or boom printed. Raises ParseError for other text, and for several runs."""
    if _is_of_oha(text):
        raise not_output_of("hey", text.split("\n"))
    return _HeyReader().read(text)


_has_own = has_line(
    r"(?:req write|resp wait|resp read):[ \t]",
    r"(?:Total data|Total Data (?:Rece?ie?ved|Transferred)|Size/request|Response Size per [Rr]equest):[ \t]+[0-9]+ bytes",
    r"\[[0-9]+\][ \t]+(?:Get|Head|Post|Put|Patch|Delete) \"?https?://",
)
_begins = has_line(r"Summary:\n(?:[ \t]*\n)*[ \t]*Total:[ \t]")
FORMAT = OutputFormat("hey", lambda text: _has_own(text) or (_begins(text) and not _is_of_oha(text)), parse)


_BLOCK = re.compile(
    r"^--- benchkit counters of hey 1\n"
    r"requests (?P<requests>[0-9]{1,18})\nduration_ns (?P<ns>[0-9]{1,18})\nbytes (?P<bytes>[0-9]{1,18})\n"
    r"time_s (?P<time_s>[0-9]{1,18}\.[0-9]{9})\nerrors (?P<errors>[0-9a-f]*)\n--- end of benchkit counters of hey$",
    re.MULTILINE,
)
"""Counters that the template prints after the rows: of all requests, of declared lengths, the sum of the times of all
answers, and the failed requests by message."""
_ERRORS = TypeAdapter[dict[str, int]](dict[str, Annotated[Count, Field(gt=0)]])


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what hey measured, from the reducer's file and the counters. Raises ParseError."""
    from benchkit.loadtools import reducer_output  # noqa: PLC0415 - numpy is slow to import

    rows = reducer_output.read_file(output.reduction, "hey")
    of_rows = reducer_output.measurement(rows, ROWS)
    blocks = list(_BLOCK.finditer(output.stdout))
    if len(blocks) != 1:
        hint = "did it end by itself, and is it version 0.1.0 or newer?"
        raise ParseError("hey did not print all its counters", where="hey", hint=hint)
    block, errors = blocks[0], _read_errors(blocks[0]["errors"])
    requests, failed = int(block["requests"]), sum(errors.values())
    answers, duration_s = requests - failed, int(block["ns"]) / 1e9
    if rows.rows != min(answers, MAX_RESULTS):
        raise ParseError(f"{rows.rows} rows of hey, but {answers} answers in its counters", where="hey")
    is_capped = answers > rows.rows
    # hey adds up the lengths that answers state: it knows none of answers in chunks, or that end with their connection.
    exact = {"requests": requests, "bytes_total": int(block["bytes"]) or None, "errors": errors_of(errors)}
    measurement = replace(
        of_rows,
        counters=of_rows.counters.model_copy(update=exact | ({"non_2xx": None} if is_capped else {})),
        complete=of_rows.complete and not is_capped,
        duration_s=duration_s,
        notes=(*of_rows.notes, *_notes(errors, is_capped=is_capped)),
    )
    result = measurement.result(duration_s=duration_s, failed=failed)
    latency = result.latency
    if is_capped:  # the mean of all answers is known; the histogram has the first million
        latency = latency.model_copy(update={"mean_s": float(block["time_s"]) / answers})
    result = result.model_copy(update={"latency": latency, "complete": of_rows.complete})
    return ParsedOutput(result, measurement)


def _read_errors(encoded: str) -> dict[str, int]:
    try:
        return _ERRORS.validate_json(bytes.fromhex(encoded), strict=True)
    except ValueError:
        raise ParseError("the errors that hey counted cannot be read", where="hey", why=excerpt(encoded)) from None


def _notes(errors: Mapping[str, int], *, is_capped: bool) -> Iterator[Note]:
    if is_capped:
        yield Note(
            code="hey-cap",
            message=f"hey keeps the times of {MAX_RESULTS:,} answers in a process: use more processes. Percentiles, extremes "
            "and statuses are of the first million; counts, rate and mean are of all",
        )
    if errors:
        kinds = "; ".join(f"{n} times {excerpt(message)}" for message, n in list(errors.items())[:3])
        yield Note(code="hey-errors", message=f"{counted(sum(errors.values()), 'request')} failed: {kinds}")


TEMPLATE = """\
benchkit rows of hey: time_s,status,offset_s
{{range $i, $time := .Lats}}{{printf "%.9f,%d,%.6f" $time (index $.StatusCodes $i) (index $.Offsets $i)}}
{{end}}--- benchkit counters of hey 1
requests {{.NumRes}}
duration_ns {{.Total.Nanoseconds}}
bytes {{.SizeTotal}}
time_s {{printf "%.9f" .AvgTotal}}
errors {{printf "%x" (jsonify .ErrorDist)}}
--- end of benchkit counters of hey
"""
"""Output template. hey passes the text to fmt.Fprintf as a format, so error messages, which may have a `%`, are in
hex."""


def _validate(load: Load) -> Iterable[UnsupportedField]:
    if (load.request_count or 0) > MAX_RESULTS:
        why = f"one hey keeps {MAX_RESULTS:,} results and drops the rest: use more processes"
        yield UnsupportedField("request_count", why)


def _argv(load: Load, target: Target) -> list[str]:
    (request,) = load.request_mix
    return [
        *("hey", "-c", str(load.in_flight), "-disable-redirects"),
        *option("-h2", target.protocol == "h2"),
        *option("-n {}", load.request_count),
        *option("-z {:g}s", load.duration_s),
        *option("-o {}", load.histogram and TEMPLATE),
        *option("-disable-keepalive", not load.keepalive),
        *option("-m {}", request.method != "GET" and request.method),
        *option("-q {:.6g}", load.rate and load.rate / load.in_flight),
        *option("-t {:.0f}", load.timeout_s),
        *(word for line in header_lines(request) for word in ("-H", line)),
        *option("-D {}", body_file(load, request)),
        *option("-host {}", target.server_name),  # of the header and of the handshake
        *load.extra_args,
        target.origin + request.path,
    ]


TOOL = Tool(
    name="hey",
    binary="hey",
    argv=_argv,
    format=FORMAT,
    rows=ROWS,
    measure=measure,
    rate=RateSupport(is_open=False, clocks="per stream"),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(own_headers=("host", "user-agent")),
    validate=_validate,
    limits=LoadLimits(timeout_step_s=1, count="same each", reserved=("-o",), one_http2_connection=True),
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
)
