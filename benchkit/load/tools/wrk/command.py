"""wrk 2 to 4.2, and wrk2: closed loop over keep-alive connections (wrk2: at a constant rate).

What the figures mean, read from the sources of both (src/wrk.c, src/stats.c, src/units.c):

- Two decimals in a unit that changes at 85 % of the next one: 0.85 ms, 0.90m, 0.90GB. K, M and G are 1024 for bytes and
  1000 for requests. A mean from 999.995 ms up to 1 s is cut to the column's width and reads `1000.00m`.
- Since version 4 wrk adds samples for coordinated omission before it prints or hands them to Lua (`stats_correct`:
  expected interval = runtime ÷ (requests ÷ connections)); versions 2 and 3 do not. wrk2 measures from when a request
  should have been sent. The text names its version only where `-v` was given.
- Answers later than the timeout (2 s unless told) are counted as `timeout` and left out of the latencies since version
  4, and those that never came are not counted at all; before, and in wrk2, a connection that waits is counted again at
  every check.
- Connections are connections ÷ threads, rounded down, times threads.
- "Non-2xx or 3xx responses" counts status above 399. That line, and "Socket errors", are printed unless all are zero.
- A server that closes without saying "Connection: close" gives a read error for each answer, which is counted as well.
- Latency runs from writing the request to the end of the answer: connecting is outside.
- DeathStarBench's wrk2 has the 99th percentile where the others have the maximum; the column's name says which.
- Where no answer was recorded the row reads `0.00us 0.00us 0.00us -nan%`: zeros that are no times.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchkit.load.tools.text import unless_zero, unread_notes
from benchkit.load.tools.tool import (
    Objection,
    ParsedOutput,
    Tool,
    ToolOutput,
    header_lines,
    own_arguments,
    whole_seconds,
)
from benchkit.load.tools.wrk.output import WrkOutput, read
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

SCRIPT = Path(__file__).with_name("histogram.lua")
"""Has wrk print its whole latency histogram and its exact counters behind its own text."""


def parse(text: str) -> LoadResult:
    """What wrk or wrk2 printed. Raises ParseError for text that is not theirs, or holds several runs."""
    return to_result(read(text))


def to_result(output: WrkOutput) -> LoadResult:
    """The words of wrk as a LoadResult."""
    wrk2 = output.calibrated > 0 or output.distribution_of is not None
    corrected = True if wrk2 else _corrects(output.version)
    errors = output.socket_errors
    stated = (
        output.ended and output.duration_s is not None and not output.unread
    )  # from the line before theirs to the end
    zero = 0 if stated else None  # the lines are left out when all are zero
    return LoadResult(
        tool="wrk2" if wrk2 else "wrk",
        tool_version=output.version,
        target=output.url,
        duration_s=output.duration_s,
        requests=output.requests,
        rps=output.requests_per_s,
        connections=output.connections,
        threads=output.threads,
        bytes_total=output.bytes_read,
        bytes_per_s=output.transfer_per_s,
        latency=_latency(output, corrected),
        errors=Errors(
            connect=errors.connect if errors else zero,
            read=errors.read if errors else zero,
            write=errors.write if errors else zero,
            timeout=errors.timeout if errors else zero,
        ),
        non_2xx=zero if output.non_2xx_or_3xx is None else output.non_2xx_or_3xx,
        complete=_complete(output),
        notes=tuple(_notes(output, wrk2=wrk2, corrected=corrected)),
    )


def _corrects(version: str | None) -> bool | None:
    """Whether a wrk of this version adds samples for coordinated omission; None where the text names no version."""
    match = re.search(r"([0-9]{1,3})\.[0-9]", version or "")
    return None if match is None else int(match[1]) >= 4  # noqa: PLR2004 - the version that began to


def _void(output: WrkOutput) -> bool:
    """Whether no answer was recorded: the share within one deviation is then no number."""
    return output.requests == 0 or (output.latency is not None and output.latency.within_stdev_pct is None)


def _latency(output: WrkOutput, corrected: bool | None) -> Latency:  # noqa: FBT001 - a value, not a flag
    row = output.latency
    if row is None:
        return Latency(covers="request", corrected=corrected)
    steps = [step for step in (row.step, output.distribution_step) if step]
    percentiles = dict(output.distribution)
    if row.p99 is not None:
        percentiles.setdefault("99", row.p99)
    void = _void(output)
    return Latency(
        mean_s=unless_zero(row.avg, void=void),
        stdev_s=unless_zero(row.stdev, void=void),
        max_s=unless_zero(row.max, void=void),
        percentiles={key: time for key, time in percentiles.items() if unless_zero(time, void=void) is not None},
        resolution_s=None if void else max(steps, default=None),
        covers="request",
        corrected=corrected,
    )


def _complete(output: WrkOutput) -> bool:
    """Whether everything stands there that wrk always prints."""
    always = (output.url, output.connections, output.latency, output.requests, output.requests_per_s)
    return output.ended and not output.unread and None not in always


def _notes(output: WrkOutput, *, wrk2: bool, corrected: bool | None) -> Iterator[Note]:
    if output.req_sec and output.req_sec.avg is None:
        yield Note(
            code="short-run",
            message="no rate was sampled: the run was shorter than the tool's calibration (10 s in wrk2)",
        )
    if corrected and not wrk2:
        yield Note(
            code="wrk-corrected",
            message="wrk 4 adds samples for coordinated omission: mean and percentiles are not those of the requests",
        )
    elif corrected is None:
        yield Note(
            code="wrk-version-unknown",
            message="the text names no version (wrk -v does); since version 4 wrk adds samples for coordinated omission",
        )
    if output.threads and output.connections and output.connections % output.threads:
        opened = output.connections // output.threads * output.threads
        yield Note(
            code="connections-not-divided",
            message=f"{output.threads} threads do not divide {output.connections} connections: wrk opened {opened}",
        )
    if output.socket_errors and output.socket_errors.timeout:
        yield Note(code="timeouts", message=_timeouts(wrk2=wrk2, corrected=corrected))
    if output.non_2xx_or_3xx:
        yield Note(code="status-above-399", message='"Non-2xx or 3xx" counts answers with a status above 399')
    if _void(output):
        yield Note(code="no-samples", message="no answer's time was recorded: wrk's latencies of 0.00us are none")
    yield from unread_notes(output.unread)


def _timeouts(*, wrk2: bool, corrected: bool | None) -> str:
    if wrk2 or corrected is False:
        return "a connection that waits beyond the timeout is counted again at every check"
    if corrected:
        return "timeouts are answers that came late, left out of the latencies; those that never came are not counted"
    return "wrk 4 counts answers that came late and not those that never came; wrk 3 counts waiting, at every check"


def read_exactly(printed: ToolOutput) -> ParsedOutput:
    """What wrk said, with the script's exact figures in the place of printed ones, and the latencies that it measured.

    Raises ParseError.
    """
    from benchkit.load.tools.wrk.histogram import measurement  # noqa: PLC0415 - numpy is slow to import

    measured, result = measurement(printed.stdout), parse(printed.stdout)
    counters, duration_s = measured.counters, measured.duration_s
    notes = {note.code: note for note in (*result.notes, *measured.notes)}
    if "wrk-corrected" not in (note.code for note in measured.notes):
        notes.pop("wrk-corrected", None)  # it would have, and added nothing
    exact = {
        "duration_s": duration_s,
        "requests": counters.requests,
        "rps": counters.requests / duration_s if counters.requests is not None and duration_s else None,
        "bytes_total": counters.bytes_total,
        "bytes_per_s": counters.bytes_total / duration_s if counters.bytes_total is not None and duration_s else None,
        "latency": measured.latency(),
        "errors": counters.errors,
        "non_2xx": counters.non_2xx,
        "complete": result.complete and measured.complete,
        "notes": tuple(notes.values()),
    }
    return ParsedOutput(result.model_copy(update=exact), measured)


def _check(load: Load) -> Iterable[Objection]:
    yield from whole_seconds(load.duration_s, "duration_s", "wrk")
    yield from whole_seconds(load.timeout_s, "timeout_s", "wrk")
    if load.duration_s is None:
        yield Objection("duration_s", "wrk runs for a time, not for a count of requests")
    if load.connections < load.threads:
        yield Objection("threads", f"{load.threads} threads need as many connections, not {load.connections}")
    yield from own_arguments(load, "wrk", "-s", "--script")


def _files(load: Load, _url: str) -> Mapping[str, str]:
    return {SCRIPT.name: SCRIPT.read_text(encoding="utf-8")} if load.histogram else {}


def _argv(load: Load, url: str) -> list[str]:
    argv = ["wrk", "-v", f"-t{load.threads}", f"-c{load.connections}", f"-d{load.duration_s:.0f}s", "--latency"]
    if load.histogram:
        argv += ["-s", SCRIPT.name]
    if load.timeout_s is not None:
        argv += ["--timeout", f"{load.timeout_s:.0f}s"]
    closing = [] if load.keepalive else ["Connection: close"]
    for line in [*header_lines(load), *closing]:
        argv += ["-H", line]
    return [*argv, *load.extra_args, url]


TOOL = Tool(
    name="wrk",
    binary="wrk",
    argv=_argv,
    parse=parse,
    read=read_exactly,
    options=frozenset({"threads", "duration_s", "keepalive", "headers", "timeout_s", "extra_args"}),
    files=_files,
    check=_check,
)
