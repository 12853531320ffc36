"""Parser of the output of bombardier (1.0 to 2.x): its text and its JSON.

Meaning of the figures, read from its source (bombardier.go, templates.go, internal/test_info.go):

- "Reqs/sec" is the mean of the rates of short intervals (20 ms), not requests ÷ time: in a short run they differ. The
  text states only the time that was asked for, the JSON the time taken.
- Every request has a status class or is in "others", which got no answer. Times are of all requests, failed ones
  too, and include connecting. Timeouts count with the time until them.
- "Stdev" of latencies gives each different time (in µs) the same weight, however often it occurred: a rough figure.
- "Throughput" is of bytes received and sent, with headers. KB, MB and GB are 1024.
- Two decimals in a unit that changes at 85 % of the next one: 0.85ms, 0.90s.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from functools import partial

from pydantic import Field

from benchkit.loadtools.json_text import JsonOutput, read_document, within
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    BINARY_SIZES,
    SECONDS,
    TEXT_AFTER_LINE,
    Count,
    Figure,
    all_of_unit,
    errors_of,
    has_any,
    latency_by_name,
    line_with,
    parse_count,
    parse_duration,
    parse_number,
    parse_quantity,
    parse_scaled,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

_SIZES: Mapping[str, float] = {"": 1, **BINARY_SIZES}
_START = re.compile(
    r"(?:Bombarding .*)?Bombarding (\S+) (?:for (\S+)|with (\S+) request(?:s|\(s\))) using ([0-9]+) connection(?:s|\(s\))"
)
_COLUMNS = re.compile(r"Statistics\s+Avg\s+Stdev\s+Max")
_RATE = re.compile(r"Reqs/sec\s+(\S+)\s+(\S+)\s+(\S+)")
_LATENCY = re.compile(r"Latency\s+(\S+)\s+(\S+)\s+(\S+)")
_PERCENTILE = re.compile(r"([0-9]{1,2})%\s+(\S+)")
_CODES = re.compile(r"1xx - ([0-9]+), 2xx - ([0-9]+), 3xx - ([0-9]+), 4xx - ([0-9]+), 5xx - ([0-9]+)")
_OTHERS = re.compile(r"others - ([0-9]+)")
_ERRORS = re.compile(r"Errors:")
_ERROR = re.compile(r"(\S.*) - ([0-9]{1,18})")
_THROUGHPUT = re.compile(r"Throughput:\s+(\S+)/s")
_FEW = re.compile(r"There wasn't enough data to compute statistics for (?:requests|latencies)\.")
_DAMAGED = re.compile(r"(?:Reqs/sec|Latency\s(?!Dist)|1xx -|others -|Throughput:).*|[0-9]{1,2}%\s.*")
_JSON = re.compile(r'\{\s*"spec":\s*\{\s*"numberOfConnections"')
_OWN = line_with(
    r"Bombarding \S+ (?:for|with) ",
    r"Statistics\s+Avg\s+Stdev\s+Max$",
    r"Reqs/sec\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+$",
    r"1xx - [0-9]+, 2xx - [0-9]+",
    r"others - [0-9]+$",
    r"Throughput:\s+[0-9.]+[KMGTP]?B?/s",
)


class _BombardierReader(Reader):
    tool = "bombardier"
    _own = _OWN
    _behind_lines = TEXT_AFTER_LINE

    row: Latency | None = None
    """Mean, deviation and maximum."""
    codes: tuple[int, ...] | None = None
    others: int | None = None
    has_few: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.percentiles: dict[str, float] = {}
        self.errors: Counter[str] | None = None
        """Errors by their text; None before their heading."""
        self._rules = (
            (_START, self.read_start),
            (_RATE, self.once(rps=parse_number)),
            (_LATENCY, self.read_latency),
            (_PERCENTILE, self.read_percentile),
            (_CODES, self.read_codes),
            (_OTHERS, self.once(others=parse_count, whole=True)),
            (_ERRORS, self.read_errors),
            (_THROUGHPUT, self.once(bytes_per_s=partial(parse_quantity, units=_SIZES))),
            (_FEW, self.put(has_few=True)),
            (_DAMAGED, self.add_unread),
            (_ERROR, self.read_error),
        )

    def has_figures(self) -> bool:
        return bool(self.stated)

    def read_start(self, match: re.Match[str]) -> None:
        url, duration, requests, connections = match.groups()
        self.set_once(match[0], target=url, connections=parse_count(connections))
        if requests is None:
            self.set_once(match[0], duration_s=parse_duration(duration))

    def read_latency(self, match: re.Match[str]) -> None:
        cells = [parse_scaled(cell, SECONDS) for cell in match.groups()]
        known = [cell for cell in cells if cell]
        row: Latency | None = None
        if len(known) == len(cells) and not self.unterminated:
            mean, stdev, longest = (cell[0] for cell in known)
            step = max(cell[1] for cell in known)
            row = Latency(mean_s=mean, stdev_s=stdev, max_s=longest, resolution_s=step)
        self.set_once(match[0], row=row)

    def read_percentile(self, match: re.Match[str]) -> None:
        is_cut = self.unterminated or self.starts_mid_number  # "22.67m" may have been "22.67ms"
        self.add_once(self.percentiles, match[1], None if is_cut else parse_quantity(match[2], SECONDS), match[0])

    def read_codes(self, match: re.Match[str]) -> None:
        whole = not self.ends_mid_number(match[0])
        self.set_once(match[0], codes=tuple(int(number) for number in match.groups()) if whole else None)

    def read_errors(self, _match: re.Match[str]) -> None:
        self.errors = Counter()

    def read_error(self, match: re.Match[str]) -> None:
        if self.errors is not None and not self.ends_mid_number(match[0]):
            self.errors[match[1]] += int(match[2])

    def result(self) -> LoadResult:
        known = self.codes is not None and self.others is not None
        is_whole = self.bytes_per_s is not None and not self.unread
        measured = self.has_few or None not in (self.rps, self.row)
        return self.load_result(
            requests=sum((*self.codes, self.others)) if self.codes and self.others is not None else None,
            latency=(self.row or Latency()).model_copy(
                update={"percentiles": self.percentiles, "covers": "connect+request", "corrected": False}
            ),
            errors=errors_of(self.errors or {}) if known and is_whole else Errors(),
            non_2xx=_non_2xx(self.codes) if self.codes else None,
            failed=self.others,
            complete=is_whole and measured and known,
            notes=_notes(has_throughput=self.bytes_per_s is not None),
        )


def _non_2xx(codes: tuple[int, ...]) -> int:
    """Return the answers of other classes than 2xx, from the counts of 1xx to 5xx."""
    return sum(codes) - codes[1]


def _notes(*, has_throughput: bool) -> list[Note]:
    notes = [
        Note(
            code="bombardier-rate",
            message="bombardier's rate is the mean over short intervals, which in short runs differs from requests ÷ time",
        ),
        Note(
            code="bombardier-stdev",
            message="bombardier's deviation gives each different time the same weight, however often it occurred",
        ),
    ]
    if has_throughput:
        notes.append(Note(code="bombardier-throughput", message="bombardier's throughput counts the bytes sent too"))
    return notes


class _Failure(JsonOutput):
    description: str
    count: Count


class _Times(JsonOutput):
    """Times in microseconds."""

    mean: Figure
    stddev: Figure
    max: Figure
    percentiles: dict[str, Figure] = Field(default={})


class _Result(JsonOutput):
    bytes_read: Count = Field(alias="bytesRead")
    taken_s: Figure = Field(alias="timeTakenSeconds")
    req1xx: Count
    req2xx: Count
    req3xx: Count
    req4xx: Count
    req5xx: Count
    others: Count
    errors: tuple[_Failure, ...] = ()
    latency: _Times | None = None
    rps: Figure | None = within("rps", "mean", default=None)


class _Document(JsonOutput):
    connections: Count = within("spec", "numberOfConnections")
    url: str | None = within("spec", "url", default=None)
    result: _Result


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "bombardier")
    result = document.result
    codes = (result.req1xx, result.req2xx, result.req3xx, result.req4xx, result.req5xx)
    times: dict[str, float] = {}
    if (stated := result.latency) is not None:
        times = {"mean": stated.mean, "stdev": stated.stddev, "max": stated.max, **stated.percentiles}
    latency = latency_by_name(all_of_unit(times, 1e-6), "connect+request")
    return LoadResult(
        tool="bombardier",
        target=document.url,
        duration_s=result.taken_s,
        requests=sum(codes) + result.others,
        rps=result.rps,
        connections=document.connections,
        bytes_total=result.bytes_read,
        latency=latency.model_copy(update={"resolution_s": 1e-6}),
        errors=errors_of({each.description: each.count for each in result.errors}),
        non_2xx=_non_2xx(codes),
        failed=result.others,
        notes=tuple(_notes(has_throughput=False)),
    )


def parse(text: str) -> LoadResult:
    """Return the result that bombardier printed. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) else _BombardierReader().read(text)


FORMAT = OutputFormat(
    "bombardier",
    has_any(_OWN, _JSON),
    parse,
    (
        line_with("Bombarding "),
        line_with(_COLUMNS.pattern),
        line_with(r"Reqs/sec\s+[0-9.]+\s+[0-9.]+\s+[0-9.]+$"),
        line_with(r'\{\s*"spec":'),
    ),
)
