"""ab (ApacheBench) 2.0 to 2.4: closed loop, one thread, HTTP/1.0, its summary and its `-e` and `-g` files.

What the figures mean, read from its source (support/ab.c):

- Times in the tables are whole milliseconds; "Time per request" is time taken x concurrency ÷ complete requests, no
  measured latency: the mean is the Total row's. Total is from starting to connect to closing, so that with keep-alive
  only a connection's first request has a connect time.
- "Complete requests" includes failed ones. "Length" failures are answers whose length differed from the first one's;
  `-l` (2.4.7) accepts any length. "Receive" is counted since 2.3, and the "Non-2xx" line is left out when zero; "Write
  errors" too, since 2.4.
- Version 2.0 and 2.2.0 print seconds and microseconds without padding these: 3.073261 s reads "3.73261 seconds".
- A run that `-t` ends is also ended by `-n`, 50,000 unless told. An error outside `-r` ends the run and prints only
  "Total of N requests completed"; an interrupted one prints its summary, but no "Finished" on stderr, or with `-q` no
  "done" on stdout.
- At most 20,000 concurrent connections.
- `-g` writes every request's time at the end, into `/dev/stdout` if told so, where the reducer takes the rows out.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from benchkit.load.tools.ab.files import parse_file
from benchkit.load.tools.ab.output import AbOutput, read
from benchkit.load.tools.text import unread_notes
from benchkit.load.tools.tool import (
    Objection,
    ParsedOutput,
    Tool,
    ToolOutput,
    either_time_or_count,
    header_lines,
    own_arguments,
    whole_seconds,
)
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

MAX_CONCURRENCY = 20_000
"""MAX_CONCURRENCY in ab.c."""
MAX_RATE = 100_000
"""Requests a second that one ab surely stays below; `-n` for a run by time, which ab reserves 40 bytes each for."""
_MICROSECONDS = 6


def parse(text: str) -> LoadResult:
    """What ab printed, or wrote with `-e` or `-g`. Raises ParseError for text that is not ab's, or several runs."""
    return parse_file(text) or to_result(read(text))


def to_result(output: AbOutput) -> LoadResult:
    """The words of ab as a LoadResult."""
    taken = _time_taken(output)
    ended = output.transfer_rate is not None and not output.unread
    zero = 0 if ended and output.failed_requests is not None else None  # lines below that one, left out when zero
    breakdown = output.breakdown
    failed = output.failed_requests
    none_failed = 0 if failed == 0 else None
    return LoadResult(
        tool="ab",
        tool_version=output.version,
        target=_target(output),
        duration_s=taken,
        requests=output.complete_requests if output.complete_requests is not None else output.completed_before_abort,
        rps=output.requests_per_second,
        connections=output.concurrency_level,
        bytes_total=output.total_transferred,
        bytes_per_s=output.transfer_rate,
        latency=_latency(output),
        errors=Errors(
            connect=breakdown.connect if breakdown else none_failed,
            read=breakdown.receive if breakdown else none_failed,
            write=zero if output.write_errors is None else output.write_errors,
            other=breakdown.exceptions if breakdown else none_failed,
        ),
        non_2xx=zero if output.non_2xx_responses is None else output.non_2xx_responses,
        failed=failed,
        failed_length=breakdown.length if breakdown else none_failed,
        complete=_complete(output),
        notes=tuple(_notes(output, taken)),
    )


def _target(output: AbOutput) -> str | None:
    if not output.server_hostname or not output.document_path or output.server_port is None:
        return None
    scheme = "https" if output.ssl_tls_protocol else "http"
    return f"{scheme}://{output.server_hostname}:{output.server_port}{output.document_path}"


def _time_taken(output: AbOutput) -> float | None:
    """The time taken, with its microseconds padded where requests ÷ rate says that they were not."""
    stated, rate, done = output.time_taken_s, output.requests_per_second, output.complete_requests
    decimals = output.time_taken_decimals
    if stated is None or not rate or not done or not 0 < len(decimals) < _MICROSECONDS:
        return stated
    padded = float(f"{int(stated)}.{decimals.zfill(_MICROSECONDS)}")
    tolerance = 0.005 / rate + 1e-6  # the rate has two decimals
    fits = math.isclose(done / rate, padded, rel_tol=tolerance, abs_tol=1e-6)
    stated_fits = math.isclose(done / rate, stated, rel_tol=tolerance, abs_tol=5e-4)  # 2.3 rounds to milliseconds
    return padded if fits and not stated_fits else stated


def _latency(output: AbOutput) -> Latency:
    row = output.total
    return Latency(
        min_s=row and row.min,
        mean_s=row.mean if row else output.time_per_request_s,
        stdev_s=row and row.sd,
        max_s=row.max if row else output.percentages.get("100"),
        percentiles=output.percentages,
        resolution_s=1e-3 if row or output.percentages else None,
        covers="connect+request",
        corrected=False,
    )


def _complete(output: AbOutput) -> bool:
    """Whether the run came to its end, and everything stands there that ab prints unless told not to."""
    always = (
        output.concurrency_level,
        output.time_taken_s,
        output.complete_requests,
        output.failed_requests,
        output.total_transferred,
        output.requests_per_second,
        output.transfer_rate,
        output.total,
    )
    percentages = "100" in output.percentages or output.complete_requests in (0, 1)  # -d leaves them out too
    return None not in always and percentages and not output.unread and not output.aborted and not _interrupted(output)


def _interrupted(output: AbOutput) -> bool:
    return output.interrupt or (output.progress and not output.finished)


def _notes(output: AbOutput, taken: float | None) -> Iterator[Note]:
    if output.aborted:
        yield Note(code="aborted", message=f"the run ended early: {output.aborted[:120]}")
    elif output.complete_requests is not None and _interrupted(output):
        yield Note(code="interrupted", message='ab was interrupted: it never "Finished"')
    if taken != output.time_taken_s:
        yield Note(
            code="ab-unpadded-time",
            message=f"ab 2.0 does not pad microseconds: {output.time_taken_s} s as printed are {taken} s by its rate",
        )
    if output.breakdown and output.breakdown.length:
        yield Note(
            code="ab-length",
            message='answers of another length than the first are counted as failed ("Length"); -l accepts them',
        )
    if output.total is None and output.time_per_request_s is not None:
        yield Note(code="ab-mean", message="the mean is time taken x concurrency ÷ requests; no request was measured")
    if output.total and output.total.mean * 1000 < 10:  # noqa: PLR2004 - below, a whole millisecond is over a tenth
        yield Note(code="resolution", message="ab's times are whole milliseconds")
    yield from unread_notes(output.unread)


def read_exactly(printed: ToolOutput) -> ParsedOutput:
    """What ab said, and every request's time. Raises ParseError."""
    from benchkit.load.trial_result import summed_up  # noqa: PLC0415 - numpy is slow to import

    return summed_up(parse(printed.stdout), printed)


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    yield from whole_seconds(load.duration_s, "duration_s", "ab")
    yield from whole_seconds(load.timeout_s, "timeout_s", "ab")
    if load.connections > MAX_CONCURRENCY:
        yield Objection("connections", f"one ab opens {MAX_CONCURRENCY} at most: use more processes")
    if load.requests is not None and load.requests < load.connections:
        yield Objection("requests", f"ab needs at least as many as connections ({load.connections})")
    yield from own_arguments(load, "ab", "-g")


def _argv(load: Load, url: str) -> list[str]:
    argv = ["ab", "-q", "-r", "-l", f"-c{load.connections}"]  # -l: an answer of another length is no failure
    if load.requests is not None:
        argv.append(f"-n{load.requests}")
    elif load.duration_s is not None:
        argv += [f"-t{load.duration_s:.0f}", f"-n{load.duration_s * MAX_RATE:.0f}"]  # -t sets -n: the order matters
    if load.histogram:
        argv += ["-g", "/dev/stdout"]
    if load.keepalive:
        argv.append("-k")
    if load.method != "GET":
        argv += ["-m", load.method]
    if load.timeout_s is not None:
        argv.append(f"-s{load.timeout_s:.0f}")
    for line in header_lines(load):
        argv += ["-H", line]
    return [*argv, *load.extra_args, url]


TOOL = Tool(
    name="ab",
    binary="ab",
    argv=_argv,
    parse=parse,
    read=read_exactly,
    rows="ab",
    options=frozenset({"duration_s", "requests", "keepalive", "method", "headers", "timeout_s", "extra_args"}),
    check=_check,
    single_threaded=True,
)
