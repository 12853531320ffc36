"""vegeta 6 to 12: open loop at a constant rate, its reports as text, JSON, buckets and percentiles.

What the figures mean, read from its source (lib/metrics.go, reporters.go, attack.go):

- "rate" is requests ÷ attack time, which is from the first request to the last one; "throughput" is good answers ÷
  (attack + wait). `duration_s` here is the attack time, so that requests ÷ duration is the rate.
- Status code 0 is a request without an answer. Success is the share of 200 to 399.
- A time runs from when the request is sent to the end of its body and covers connecting and waiting for a connection
  where their number is limited. Percentiles are estimates (t-digest); the text rounds to three or six further digits.
- Bytes are of bodies alone.
- The attack writes every result, as it comes, in a binary form of Go's that the reducer reads; it sums nothing up by
  itself. Bytes are those of the bodies that it keeps (`-max-body`), so that all are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from benchkit.load.tools.text import unread_notes
from benchkit.load.tools.tool import (
    GoProgram,
    Objection,
    ParsedOutput,
    Tool,
    ToolOutput,
    either_time_or_count,
    header_lines,
)
from benchkit.load.tools.vegeta.output import VegetaOutput, read
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.resources import BACKENDS

TARGETS = "vegeta.targets"
BODY = "vegeta.body"
PROGRAM = GoProgram(BACKENDS / "vegeta", "github.com/tsenart/vegeta/v12", "12.8.4")
_PERCENTILE = re.compile(r"[0-9]{1,2}(?:\.[0-9]{1,5})?")


def parse(text: str) -> LoadResult:
    """A report of vegeta. Raises ParseError for text that is none, or holds several."""
    return to_result(read(text))


def to_result(output: VegetaOutput) -> LoadResult:
    """The words of vegeta as a LoadResult."""
    codes = output.status_codes
    return LoadResult(
        tool="vegeta",
        duration_s=_duration_s(output),
        requests=output.requests,
        rps=output.rate,
        bytes_total=output.bytes_in,
        latency=_latency(output),
        errors=Errors(other=None if codes is None else codes.get("0", 0)),
        status=codes or {},
        non_2xx=None if codes is None else sum(n for code, n in codes.items() if code[0] not in "02"),
        failed=None if codes is None else sum(n for code, n in codes.items() if code[0] not in "23"),
        availability=output.success,
        complete=_complete(output),
        notes=tuple(_notes(output)),
    )


def _latency(output: VegetaOutput) -> Latency:
    times = output.latencies or {}
    if output.requests == 0:
        return Latency(covers="connect+request", corrected=False)
    return Latency(
        min_s=times.get("min"),
        mean_s=times.get("mean"),
        max_s=times.get("max"),
        percentiles={name: time for name, time in times.items() if _PERCENTILE.fullmatch(name)},
        resolution_s=1e-9 if output.kind == "json" else None,
        covers="connect+request",
        corrected=False,
    )


def _duration_s(output: VegetaOutput) -> float | None:
    return output.total_s if output.attack_s is None else output.attack_s


def _complete(output: VegetaOutput) -> bool:
    """Whether everything stands there that this kind of report always states."""
    if output.kind == "hist":
        return bool(output.requests) and not output.unread
    if output.kind == "hdrplot":
        return {"min", "max"} <= (output.latencies or {}).keys() and not output.unread
    always = (output.requests, _duration_s(output), output.bytes_in, output.success, output.status_codes)
    return None not in always and bool(output.latencies) and not output.unread


def _notes(output: VegetaOutput) -> Iterator[Note]:
    if output.kind == "hist":
        yield Note(
            code="vegeta-hist", message="a histogram report: its buckets add up to the requests, and that is all"
        )
    if output.errors:
        shown = "; ".join(output.errors[:3])
        yield Note(code="vegeta-errors", message=f"{len(output.errors)} kinds of error, uncounted by vegeta: {shown}")
    yield from unread_notes(output.unread)


def read_exactly(printed: ToolOutput) -> ParsedOutput:
    """What vegeta's results come to. Raises ParseError."""
    from benchkit.load.trial_result import rows_only  # noqa: PLC0415 - numpy is slow to import

    return rows_only(printed)


def _check(load: Load) -> Iterable[Objection]:
    yield from either_time_or_count(load)
    if load.requests is not None and load.rate is None:
        yield Objection("requests", "vegeta runs for a time: it reaches a count only at a rate")
    if not load.histogram:
        yield Objection("histogram", "vegeta has nothing but every request's time")
    if load.rate is not None and load.rate != round(load.rate * 1000) / 1000:
        yield Objection("rate", f"vegeta takes thousandths of a request per second, not {load.rate!r}")


def _files(load: Load, url: str) -> Mapping[str, str]:
    body = {} if load.body is None else {BODY: load.body}
    lines = [f"{load.method} {url}", *header_lines(load), *(f"@{name}" for name in body)]
    return {TARGETS: "".join(f"{line}\n" for line in lines), **body}


def _argv(load: Load, _url: str) -> list[str]:
    output = "stdout" if load.histogram else "/dev/null"
    argv = ["vegeta", "attack", f"-targets={TARGETS}", f"-output={output}", "-redirects=-1"]
    argv += [f"-connections={load.connections}", f"-max-connections={load.connections}"]
    if load.rate is None:  # as fast as it goes: each connection has a worker of its own
        argv += ["-rate=0", f"-max-workers={load.connections}"]
    else:
        argv.append(f"-rate={_rate(load.rate)}")
    seconds = load.duration_s
    if seconds is None and load.requests is not None and load.rate is not None:
        seconds = load.requests / load.rate
    argv.append(f"-duration={seconds:.9f}s")
    if not load.keepalive:
        argv.append("-keepalive=false")
    if load.timeout_s is not None:
        argv.append(f"-timeout={load.timeout_s:g}s")
    return [*argv, *load.extra_args]


def _rate(per_s: float) -> str:
    """A rate as vegeta takes it: a whole number of requests in a time."""
    return f"{per_s:.0f}/1s" if per_s == int(per_s) else f"{per_s * 1000:.0f}/1000s"


TOOL = Tool(
    name="vegeta",
    binary="vegeta",
    argv=_argv,
    parse=parse,
    read=read_exactly,
    rows="vegeta",
    program=PROGRAM,
    options=frozenset(
        {"duration_s", "requests", "keepalive", "method", "headers", "body", "rate", "timeout_s", "extra_args"}
    ),
    files=_files,
    check=_check,
)
