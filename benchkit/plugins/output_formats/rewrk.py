"""Parser of rewrk's output (0.1 to 0.3): its table, and `--json`.

Meaning of the figures, read from its source (src/results.rs, http/mod.rs):

- The table of percentiles (`--pct`) has means: "99%" is the mean of the slowest hundredth. It states no percentile.
- A closed loop. A time runs from sending a request to the end of its body; the first connection is not in it. A request
  that failed is counted among the requests, with the time until its connection was open again; 0.3 does not print how
  many did. Requests without an answer at the end are not counted. Statuses are not looked at.
- The rate is requests ÷ the mean time of the connections, which is the duration here; the text has only the one that
  was asked for.
- Bytes are those received, headers included, with KB, MB and GB of 1024. JSON has milliseconds and bytes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import JsonOutput, find_document, read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    BINARY_SIZES,
    SECONDS,
    Count,
    Figure,
    all_of_unit,
    errors_of,
    has_any,
    implied_duration,
    latency_by_name,
    line_with,
    parse_count,
    parse_number,
    parse_quantity,
    several_runs,
)
from benchkit.models.load_result import Errors, LoadResult, Note

_JSON = re.compile(r'"latency_std_deviation"\s*:')
_BENCHMARKING = re.compile(r"Benchmarking (\S+) connections? @ (\S+) for (\S.*)")
_TIMES = re.compile(r"(\S+ms)\s+(\S+ms)\s+(\S+ms)\s+(\S+ms)")
_REQUESTS = re.compile(r"Total:\s*(\S+)\s+Req/Sec:\s*(\S+)")
_TRANSFER = re.compile(r"Total:\s*(\S+ [KMG]?B)\s+Transfer Rate:\s*(\S+ [KMG]?B)/Sec")
_ERROR = re.compile(r"([0-9]{1,18}) Errors: (\S.*)")
_FAILURE = re.compile(r"((?:connection error|error parsing uri): .*)")
_NONE = re.compile(r"No requests completed successfully")
_AVERAGES = re.compile(r"Percentile\s*\|\s*Avg Latency")
_DAMAGED = re.compile(r"Benchmarking .* connections? @ .*|Total: .*")


class _RewrkDocument(JsonOutput):
    """Document of `--json`; times are milliseconds."""

    latency_avg: Figure | None
    latency_max: Figure | None
    latency_min: Figure | None
    latency_std_deviation: Figure | None
    transfer_total: Figure | None
    transfer_rate: Figure | None
    requests_total: Count
    requests_avg: Figure | None


_PARTS = frozenset({"times", "requests", "bytes_total"})
"""Attributes of the lines that a run with a request has."""


class _RewrkReader(Reader):
    tool = "rewrk"

    times: Mapping[str, float] | None = None
    """Mean, deviation, minimum and maximum."""
    has_averages: bool = False
    failure: str | None = None
    """Message of rewrk in place of figures."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: Counter[str] = Counter()
        self._rules = (
            (_BENCHMARKING, self.once(connections=parse_count, target=str)),
            (_TIMES, self.read_times),
            (_REQUESTS, self.read_requests),
            (_TRANSFER, self.read_transfer),
            (_NONE, self.mark(requests=0)),
            (_AVERAGES, self.read_averages),
            (_ERROR, self.read_error),
            (_FAILURE, self.latest(failure=str)),
            (_DAMAGED, self.add_unread),
        )

    def has_figures(self) -> bool:
        return bool(self.stated & {"target", *_PARTS})

    def read_times(self, match: re.Match[str]) -> None:
        mean = None if self.starts_mid_number else match[1]
        times = [parse_quantity(token, SECONDS) for token in (mean, *match.groups()[1:])]
        named = dict(zip(("mean", "stdev", "min", "max"), times, strict=True))
        self.set_once(match[0], times=None if None in times else named)

    def read_requests(self, match: re.Match[str]) -> None:
        rate = None if self.unterminated and not re.search(r"\.[0-9]{2}$", match[2]) else parse_number(match[2])
        self.set_once(match[0], requests=parse_count(match[1]), rps=rate)

    def read_transfer(self, match: re.Match[str]) -> None:
        total, rate = (parse_quantity(token.replace(" ", ""), BINARY_SIZES) for token in match.groups())
        self.set_once(match[0], bytes_total=total, bytes_per_s=rate)

    def read_averages(self, match: re.Match[str]) -> None:
        if self.has_averages:
            raise several_runs("rewrk", match[0])
        self.has_averages = True

    def read_error(self, match: re.Match[str]) -> None:
        self.errors[match[2]] += int(match[1])

    def result(self) -> LoadResult:
        if not self.stated & _PARTS:
            why = self.failure and f"it says: {self.failure}"
            raise ParseError("this output of rewrk has no figures", why=why, hint="did its run end?")
        latency = latency_by_name(self.times or {}, "request")
        return self.load_result(
            duration_s=implied_duration(self.requests, self.rps),
            latency=latency.model_copy(update={"resolution_s": 1e-5 if self.times else None}),
            errors=errors_of(self.errors) if self.errors else Errors(),
            failed=self.errors.total() or None,
            complete=not self.unread and (self.requests == 0 or self.stated >= _PARTS),
            notes=(_AVERAGES_NOTE, _FAILURES) if self.has_averages else (_FAILURES,),
        )


_FAILURES = Note(
    code="failures-counted", message="failed requests are among rewrk's requests and latencies; 0.3 does not count them"
)
_AVERAGES_NOTE = Note(
    code="rewrk-averages",
    message='rewrk\'s table has means ("99%" is the mean of the slowest hundredth): no percentile is stated',
)


def parse(text: str) -> LoadResult:
    """Return the result that rewrk printed. Raises ParseError for other text, and for several rounds."""
    document = find_document(text, _JSON, "rewrk")
    return (
        _RewrkReader().read(text)
        if document is None
        else _of_document(read_document(document, _RewrkDocument, "rewrk"))
    )


def _of_document(document: _RewrkDocument) -> LoadResult:
    times = {
        "min": document.latency_min,
        "mean": document.latency_avg,
        "stdev": document.latency_std_deviation,
        "max": document.latency_max,
    }
    return LoadResult(
        tool="rewrk",
        duration_s=implied_duration(document.requests_total, document.requests_avg),
        requests=document.requests_total,
        rps=document.requests_avg,
        bytes_total=document.transfer_total,
        bytes_per_s=document.transfer_rate,
        latency=latency_by_name(all_of_unit(times, 1e-3), "request"),
        notes=(_FAILURES,),
    )


_MARK = line_with(
    r"Benchmarking \S+ connections? @ \S+ for [0-9]+ ",
    r"Percentile\s*\|\s*Avg Latency",
    r"Total:\s*\S+\s+Req/Sec:",
    r"Total:\s*\S+ [KMG]?B Transfer Rate:",
)
FORMAT = OutputFormat("rewrk", has_any(_JSON, _MARK), parse, (line_with(_BENCHMARKING.pattern),))
