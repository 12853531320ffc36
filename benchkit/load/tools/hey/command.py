"""hey, and boom as it was called before 2016: closed loop, HTTP/1.1, its summary and its CSV.

What the figures mean, read from its source (requester/report.go, print.go, requester.go):

- It keeps the times and statuses of 1,000,000 answers. Past these the percentiles and status counts are of the first
  million, and "Average" is the sum of all times ÷ one million: wrong, and left out here. The rate counts every request,
  failed ones too (in boom and early versions of hey the answered ones alone); the number of requests is not printed and
  is the sum of statuses and errors below the cap.
- A time covers everything from before connecting to the end of the body. Summary and CSV round to 0.1 ms.
- Percentiles that so few requests do not have are printed as "0% in 0.0000 secs". Where every request failed, average
  is "NaN" and slowest and fastest are 0.0000: zeros that are no times.
- Requests ÷ connections is rounded down; `-q` is a rate for each connection; redirects are followed unless told.
- Through a template (`-o`, see `hey_template`) it prints every answer's time and exact counts; that is how it is driven.
- At most 500 idle connections are kept open (`maxIdleConn`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from benchkit.load.tools.go_errors import errors_of
from benchkit.load.tools.hey.csv import MAX_RESULTS, parse_csv
from benchkit.load.tools.hey.output import HeyOutput, read
from benchkit.load.tools.hey.template import ROWS, TEMPLATE
from benchkit.load.tools.text import unless_zero, unread_notes
from benchkit.load.tools.tool import (
    Objection,
    ParsedOutput,
    Tool,
    ToolOutput,
    either_time_or_count,
    header_lines,
    own_arguments,
    own_headers,
    whole_seconds,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note


def parse(text: str) -> LoadResult:
    """What hey or boom printed. Raises ParseError for text that is not theirs, or holds several runs."""
    return parse_csv(text) or to_result(read(text))


def to_result(output: HeyOutput) -> LoadResult:
    """The words of hey as a LoadResult."""
    known = _all_counted(output)
    # Before 2016 a run without an answer printed its errors alone.
    failures_known = known or _capped(output) or (output.total is None and "Error distribution" in output.sections)
    return LoadResult(
        tool="hey",
        duration_s=output.total,
        requests=_counted(output) if known else None,
        rps=output.requests_per_s,
        bytes_total=output.total_data,
        latency=_latency(output),
        errors=errors_of(output.errors) if failures_known and not output.unread else Errors(),
        status=output.status_codes,
        non_2xx=sum(n for code, n in output.status_codes.items() if code[0] != "2") if known else None,
        failed=sum(output.errors.values()) if failures_known else None,
        complete=_complete(output),
        notes=tuple(_notes(output)),
    )


def _counted(output: HeyOutput) -> int:
    return sum(output.status_codes.values()) + sum(output.errors.values())


def _made(output: HeyOutput) -> tuple[float, float] | None:
    """(requests made, by rate and time; how far rounding may have moved that)."""
    if output.requests_per_s is None or output.total is None:
        return None
    return output.requests_per_s * output.total, 5e-5 * (output.requests_per_s + output.total) + 1e-3


def _all_counted(output: HeyOutput) -> bool:
    """Whether statuses and errors account for every request: where the text is cut among them, they do not."""
    made = _made(output)
    if "Status code distribution" not in output.sections or made is None:
        return False
    answered = sum(output.status_codes.values())
    return any(abs(count - made[0]) <= made[1] for count in (_counted(output), answered if output.errors else math.nan))


def _capped(output: HeyOutput) -> bool:
    """Whether hey dropped results: it counts a million statuses, and its rate says that there were more."""
    made = _made(output)
    kept = sum(output.status_codes.values())
    return kept == MAX_RESULTS and (made is None or made[0] - _counted(output) > made[1])


def _void(output: HeyOutput) -> bool:
    """Whether no request was answered: the average is then "NaN" and the extremes are zero."""
    return output.average is None and 0 in (output.slowest, output.fastest)


def _latency(output: HeyOutput) -> Latency:
    void = _void(output)
    return Latency(
        min_s=unless_zero(output.fastest, void=void),
        mean_s=None if _capped(output) else output.average,
        max_s=unless_zero(output.slowest, void=void),
        percentiles=output.latency_distribution,
        resolution_s=None if void else 1e-4,
        covers="connect+request",
        corrected=False,
    )


def _complete(output: HeyOutput) -> bool:
    """Whether everything stands there that hey always prints."""
    times = (output.average, output.slowest, output.fastest)
    stated = None not in times or not output.status_codes
    return stated and not output.unread and (_all_counted(output) or _capped(output))


def _notes(output: HeyOutput) -> Iterator[Note]:
    if _capped(output):
        yield Note(
            code="hey-cap",
            message=f"hey keeps {MAX_RESULTS:,} results and there were more: percentiles, extremes and status counts "
            "are of the first million; the average it prints is wrong and left out",
        )
    if _void(output):
        yield Note(code="no-samples", message="no request was answered: hey's times of 0.0000 secs are none")
    if output.average is not None and output.average < 1e-3:  # noqa: PLR2004 - below, 0.1 ms is over a tenth
        yield Note(code="resolution", message="hey's times are rounded to 0.1 ms")
    yield from unread_notes(output.unread)


def read_exactly(printed: ToolOutput) -> ParsedOutput:
    """What hey counted, and every answer's time. Raises ParseError."""
    from benchkit.load.tools.hey.template_result import reading  # noqa: PLC0415 - numpy is slow to import

    return reading(printed)


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from own_headers(load, "hey", "host", "user-agent")
    yield from whole_seconds(load.timeout_s, "timeout_s", "hey")
    yield from own_arguments(load, "hey", "-o")
    if load.requests is None:
        return
    if load.requests % load.connections:
        yield Objection("requests", f"hey makes whole requests ÷ connections: {load.connections} do not divide them")
    if load.requests > MAX_RESULTS:
        yield Objection("requests", f"one hey keeps {MAX_RESULTS:,} results and is wrong beyond: use more processes")


def _argv(load: Load, url: str) -> list[str]:
    argv = ["hey", "-c", str(load.connections), "-disable-redirects"]
    argv += ["-n", str(load.requests)] if load.duration_s is None else ["-z", f"{load.duration_s:g}s"]
    if load.histogram:
        argv += ["-o", TEMPLATE]
    if not load.keepalive:
        argv.append("-disable-keepalive")
    if load.method != "GET":
        argv += ["-m", load.method]
    if load.rate is not None:
        argv += ["-q", f"{load.rate / load.connections:.6g}"]
    if load.timeout_s is not None:
        argv += ["-t", f"{load.timeout_s:.0f}"]
    for line in header_lines(load):
        argv += ["-H", line]
    if load.body is not None:
        argv += ["-d", load.body]
    return [*argv, *load.extra_args, url]


TOOL = Tool(
    name="hey",
    binary="hey",
    argv=_argv,
    parse=parse,
    read=read_exactly,
    rows=ROWS,
    options=frozenset(
        {"duration_s", "requests", "keepalive", "method", "headers", "body", "rate", "timeout_s", "extra_args"}
    ),
    check=_check,
)
