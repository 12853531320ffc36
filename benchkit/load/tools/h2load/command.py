"""h2load (nghttp2): closed loop, or at a rate for each client; driven here over HTTP/1.1.

What the figures mean, read from its source (src/h2load.cc):

- "total" are the requests asked for, or those made in a run by time; requests that a lost connection never sent are
  counted as failed and errored. The rate is of answered requests alone.
- Status counts are by class; "succeeded" are answers of status 200 to 399.
- "time for request" runs from sending to the end of the answer and leaves connecting out. Its quantiles (median, p95,
  p99) are printed since 1.68, over at most a million samples drawn at random (`MAX_SAMPLES`).
- Times have two decimals in a unit that fits. K, M and G are 1024. Traffic includes headers.
- `--log-file` has a row for every request that ended, to the microsecond, each written by itself (a system call).
- Requests and clients that threads do not divide are given to the first threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from benchkit.load.tools.h2load.output import H2loadOutput, read
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

BODY = "h2load.body"


def parse(text: str) -> LoadResult:
    """What h2load printed. Raises ParseError for text that is not h2load's, or holds several runs."""
    return to_result(read(text))


def to_result(output: H2loadOutput) -> LoadResult:
    """The words of h2load as a LoadResult."""
    not_2xx = [n for n in (output.status_3xx, output.status_4xx, output.status_5xx) if n is not None]
    return LoadResult(
        tool="h2load",
        duration_s=output.finished_in,
        requests=output.total,
        rps=output.requests_per_s,
        connections=output.clients,
        threads=output.threads,
        bytes_total=output.traffic,
        bytes_per_s=output.bytes_per_s,
        latency=_latency(output),
        errors=Errors(timeout=output.timeout, other=_other(output)),
        non_2xx=sum(not_2xx) if not_2xx else None,
        failed=output.failed,
        complete=_complete(output),
        notes=tuple(_notes(output)),
    )


def _other(output: H2loadOutput) -> int | None:
    """Requests without an answer that did not time out; "errored" includes both."""
    if output.errored is None:
        return None
    return max(0, output.errored - (output.timeout or 0))


def _latency(output: H2loadOutput) -> Latency:
    row = output.request
    if row is None:
        return Latency(covers="request", corrected=False)
    void = output.done == 0 or row.max == 0
    percentiles = {"50": row.median, "95": row.p95, "99": row.p99}
    shown = {name: unless_zero(time, void=void) for name, time in percentiles.items()}
    return Latency(
        min_s=unless_zero(row.min, void=void),
        mean_s=unless_zero(row.mean, void=void),
        stdev_s=unless_zero(row.sd, void=void),
        max_s=unless_zero(row.max, void=void),
        percentiles={name: time for name, time in shown.items() if time is not None},
        resolution_s=None if void else row.step,
        covers="request",
        corrected=False,
    )


def _complete(output: H2loadOutput) -> bool:
    """Whether everything stands there that h2load prints (times since 0.7)."""
    totals = (output.clients, output.finished_in, output.requests_per_s, output.total, output.traffic)
    return None not in (*totals, output.status_2xx, output.request) and not output.unread


def _notes(output: H2loadOutput) -> Iterator[Note]:
    if output.done == 0:
        yield Note(code="no-samples", message="no request was done: h2load's times of 0us are none")
    if output.errored:
        yield Note(
            code="h2load-errored", message="requests that a lost connection never sent are counted as failed too"
        )
    yield from unread_notes(output.unread)


def read_exactly(printed: ToolOutput) -> ParsedOutput:
    """What h2load said, and every request's time. Raises ParseError."""
    from benchkit.load.trial_result import summed_up  # noqa: PLC0415 - numpy is slow to import

    return summed_up(parse(printed.stdout), printed)


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from own_headers(load, "h2load", "host")
    yield from whole_seconds(load.timeout_s, "timeout_s", "h2load")
    yield from own_arguments(load, "h2load", "--log-file")
    if not load.keepalive:
        yield Objection("keepalive", "h2load keeps its connections open")
    if load.connections < load.threads:
        yield Objection("threads", f"{load.threads} threads need as many connections, not {load.connections}")
    if load.requests is not None and load.requests < load.connections:
        yield Objection("requests", f"h2load needs at least as many as connections ({load.connections})")
    if load.body is not None and load.method == "GET":
        yield Objection("body", "h2load sends a body with POST, or with the method that is set, not with GET")


def _files(load: Load, _url: str) -> Mapping[str, str]:
    return {} if load.body is None else {BODY: load.body}


def _argv(load: Load, url: str) -> list[str]:
    argv = ["h2load", "--h1", f"-c{load.connections}", f"-t{load.threads}"]
    argv.append(f"-n{load.requests}" if load.duration_s is None else f"-D{load.duration_s:g}s")
    if load.histogram:
        argv.append("--log-file=/dev/stdout")
    if load.rate is not None:
        argv.append(f"--rps={load.rate / load.connections:.6g}")
    if load.timeout_s is not None:
        argv.append(f"-N{load.timeout_s:.0f}s")
    if load.body is not None:
        argv.append(f"-d{BODY}")
    for line in [*([] if load.method == "GET" else [f":method: {load.method}"]), *header_lines(load)]:
        argv += ["-H", line]
    return [*argv, *load.extra_args, url]


TOOL = Tool(
    name="h2load",
    binary="h2load",
    argv=_argv,
    parse=parse,
    read=read_exactly,
    rows="h2load",
    options=frozenset(
        {"threads", "duration_s", "requests", "method", "headers", "body", "rate", "timeout_s", "extra_args"}
    ),
    files=_files,
    check=_check,
)
