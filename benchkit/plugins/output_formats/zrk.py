"""Parser of zrk's summary (`--format json`, 0.2 to 1.5).

Meaning of the figures, read from its source (src/report.zig, connection.zig):

- An open loop with a bound: each connection sends when a request is due at the target rate, one at a time. Latencies
  are microseconds from when a request was due (corrected for coordinated omission). So waiting for the connection is in
  them, and a reconnection too. A ramp's percentiles are of all its rates together.
- `requests` are answers of any status; the rate is answers ÷ elapsed time. Statuses are counted by class.
- A request that would be late by more than `--deadline` is not sent: it is counted under "deadline" and has no latency.
  Requests that timed out are in the latencies unless `--no-record-timeouts` was given.
- At full speed (`--closed`) times count from sending, and the target rate repeats the achieved one. Under a ramp new
  versions state the rate of the last window (`end_window_s`): here it is answers ÷ elapsed time all the same.
- `error_rate` is failures ÷ (answers + errors): status outside 200 to 399, socket errors, missed deadlines.
- Latencies above 60 s are stated as 60 s. `interrupted` is there only where the run was.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput, find_document, read_document, within
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import (
    Count,
    Figure,
    has_any,
    latency_by_name,
    not_output_of,
    of_unit,
    split_lines,
    without_times,
)
from benchkit.models.load_result import Errors, LoadResult, Note

_SUMMARY = re.compile(r'"zrk_version"\s*:')
_TEXT = re.compile(r"latency \(coordinated-omission corrected\)$|^ *\{\"t\":[0-9.]+,\"target_rate\":", re.MULTILINE)
_PERCENTILES = {"p50": "50", "p75": "75", "p90": "90", "p99": "99", "p99_9": "99.9", "p99_99": "99.99"}
_KEPT_SHARE = 0.99
"""Least share of the target rate at which no note is made."""


class _ZrkConfig(JsonOutput):
    target_rate: Figure | None = None
    target_rate_end: Figure | None = None
    connections: Count | None = None
    launched: Count | None = None
    record_timeouts: bool = True
    deadline_abort: bool = False
    closed: bool = False
    """True for a load at full speed, whose latencies count from sending."""


class _ZrkErrors(JsonOutput):
    connect: Count
    read: Count
    write: Count
    timeout: Count
    deadline: Count = 0
    non_2xx_3xx: Count


class _ZrkSummary(JsonOutput):
    zrk_version: str
    url: str | None = within("target", "url", default=None)
    config: _ZrkConfig = _ZrkConfig()
    duration_s: Figure
    interrupted: bool = False
    requests: Count
    bytes: Count
    achieved_rate: Figure
    target_rate: Figure | None = None
    target_rate_end: Figure | None = None
    rate_ratio: Figure | None = None
    bytes_per_sec: Figure | None = None
    latency_us: dict[str, Figure]
    status_codes: dict[str, Count]
    errors: _ZrkErrors
    end_window_s: Figure | None = None
    closed: bool = False

    @property
    def is_ramp(self) -> bool:
        """True where the target rate was not the same all the time."""
        start, end = self.config.target_rate, self.config.target_rate_end
        if end is None:
            start, end = self.target_rate, self.target_rate_end
        return not self.is_closed and end not in {None, start}

    @property
    def is_closed(self) -> bool:
        """True for a load at full speed."""
        return self.closed or self.config.closed


def parse(text: str) -> LoadResult:
    """Return the result of a summary. Raises ParseError for other text, and for what zrk prints without JSON."""
    document = find_document(text, _SUMMARY, "zrk")
    if document is not None:
        return _result(read_document(document, _ZrkSummary, "zrk"))
    if _TEXT.search(text):
        raise ParseError("this is output of zrk that is not its summary", hint="give what zrk --format json writes")
    raise not_output_of("zrk", split_lines(text))


def _result(summary: _ZrkSummary) -> LoadResult:
    errors = summary.errors
    times = {_PERCENTILES.get(name, name): of_unit(us, 1e-6) for name, us in summary.latency_us.items()}
    latency = latency_by_name(times, "request").model_copy(
        update={"resolution_s": 1e-6, "corrected": not summary.is_closed}
    )
    is_tail = summary.is_ramp and summary.end_window_s is not None and summary.duration_s > 0
    socket = errors.connect + errors.read + errors.write + errors.timeout
    return LoadResult(
        tool="zrk",
        tool_version=summary.zrk_version,
        target=summary.url,
        duration_s=summary.duration_s,
        requests=summary.requests,
        rps=of_unit(summary.requests, 1 / summary.duration_s) if is_tail else summary.achieved_rate,
        connections=summary.config.connections if summary.config.launched is None else summary.config.launched,
        bytes_total=summary.bytes,
        bytes_per_s=None if is_tail else summary.bytes_per_sec,
        latency=latency if summary.requests + errors.timeout else without_times(latency),
        errors=Errors(
            connect=errors.connect,
            read=errors.read,
            write=errors.write,
            timeout=errors.timeout,
            other=errors.deadline,
        ),
        non_2xx=sum(number for name, number in summary.status_codes.items() if name != "2xx"),
        failed=socket + errors.deadline + errors.non_2xx_3xx,
        dropped=None if summary.config.deadline_abort else errors.deadline,
        complete=not summary.interrupted,
        notes=tuple(_notes(summary)),
    )


def _notes(summary: _ZrkSummary) -> Iterator[Note]:
    if not summary.is_closed:
        rate = "a target rate" if summary.target_rate is None else f"{summary.target_rate:g}/s"
        yield Note(code="open-loop", message=f"requests were due at {rate}, and latencies count from then")
    ratio = summary.rate_ratio
    if ratio is not None and ratio < _KEPT_SHARE:
        yield Note(
            code="rate-not-held",
            message=f"{ratio:.1%} of the target rate was reached: server or generator was the limit",
        )
    if summary.is_ramp:
        yield Note(code="ramp", message="the target rate rose or fell: percentiles are of all its rates together")
    if summary.errors.deadline:
        late = "missed their deadline" if summary.config.deadline_abort else "were too late to be sent (--deadline)"
        yield Note(code="dropped", message=f"{summary.errors.deadline:,} requests {late}, and have no latency")
    if not summary.config.record_timeouts and summary.errors.timeout:
        yield Note(code="timeouts", message="requests that timed out have no latency (--no-record-timeouts)")


FORMAT = OutputFormat("zrk", has_any(_SUMMARY, _TEXT), parse)
