"""Parser of the output of autocannon (1 to 8): its tables in any locale, and its JSON.

Meaning of the figures, read from its source (lib/run.js, aggregateResult.js, printResult.js, format.js):

- "N requests" are those sent, answered or not (up to version 6 those answered). From 1,000 on they are rounded to
  thousands: `879k`. The exact number of answers is in the JSON alone.
- Req/Sec and Bytes/Sec are sampled once per second; "Avg" is the mean of the samples. It is the rate here; requests ÷
  duration is lower, since the duration runs until the last sample.
- The rates are printed in the locale of the machine: `87,916.8`, `87.916,8`, `87 916,8`. Averages have at most two
  decimals, all other columns none, so that three digits behind a separator are thousands. Times have a decimal point.
- Times are whole milliseconds, cut off: the mean is some half a millisecond too low. With a rate (`-R`, `-r`) samples
  are added for coordinated omission, which the output does not say.
- Answers of any status have a time (unless `--excludeErrorStats`). Errors include timeouts; both have no answer.
- kB and MB are 1000 and 1000².
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping

from pydantic import Field

from benchkit.loadtools.json_text import JsonOutput, LaxJsonOutput, read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    DECIMAL_SIZES,
    Count,
    Figure,
    all_of_unit,
    has_any,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_number,
    parse_quantity,
    without_times,
)
from benchkit.models.load_result import Errors, LoadResult, Note

_BORDERS = "│┃║|?\ufffd"
"""Borders of the cells, also where their encoding was lost."""
_CELLS = re.compile(rf"\s*[{_BORDERS}]\s*|\t+|\s{{2,}}")
_BARE_CELLS = re.compile(r"[0-9][0-9.,]*(?: [kMGTP]?B)?")
_RUNNING = re.compile(r"Running \S+(?: requests?)? (?:test|warmup) @ (\S+).*")
_CONNECTIONS = re.compile(r"([1-9][0-9]*) connections?(?: with ([0-9]+) pipelining factor)?")
_WORKERS = re.compile(r"([0-9]+) workers?")
_HEADER = re.compile(rf"[{_BORDERS}]?\s*(?i:Stat)\b.*")
_ROW = re.compile(rf"[{_BORDERS}]?\s*(Latency(?: \(ms\))?|Req/Sec|Bytes/Sec)(?![\w/:]|\s*\()\s*(.*)")
_CELL = re.compile(r"[0-9]+(?:\.[0-9]+)?(?: ?[kKMGTP]?B)?(?= |$)")
"""A cell of a table without borders, where a wide one leaves a single blank before the next: `28023.28 1132.03`."""
_STATUS = re.compile(rf"[{_BORDERS}]?\s*([1-5][0-9]{{2}})\s*[{_BORDERS}]\s*([0-9]+)\s*[{_BORDERS}]?")
_POINT = re.compile(
    rf"[{_BORDERS}]?\s*([0-9]{{1,2}}(?:\.[0-9]{{1,3}})?)%?\s*[{_BORDERS}\s]\s*([0-9]+(?:\.[0-9]+)?)\s*[{_BORDERS}]?"
)
_POINTS = re.compile(rf"[{_BORDERS}]?\s*Percentile\s*[{_BORDERS}\s]\s*Latency \(ms\).*")
_CODES = re.compile(rf"[{_BORDERS}]?\s*Code\s*[{_BORDERS}\s]\s*Count.*")
_ANSWERS = re.compile(r"([0-9]+) 2xx responses, ([0-9]+) non 2xx responses")
_END = re.compile(r"([0-9]+)(k?) requests in ([0-9.]+)s, ([0-9.]+) ?([kKMGTP]?B) read")
_ERRORS = re.compile(r"([0-9]+)(k?) errors \(([0-9]+)(k?) timeouts\)")
_RESETS = re.compile(r"request pipeline was reset ([0-9]+)k? times?")
_SAMPLES = re.compile(r"of samples: ([0-9]+)")
"""Its first character, "#", is taken for quoting."""
_DAMAGED = re.compile(r".* requests in .*|.* 2xx responses, .*|[0-9]+k? errors(?: \(.*)?")
_OWN = line_with(
    rf"[{_BORDERS}]\s*Latency\s*[{_BORDERS}]\s*[0-9.]+ ms",
    rf"[{_BORDERS}]\s*Req/Sec\s*[{_BORDERS}][^k%\n]*$",
    rf"[{_BORDERS}]?\s*Bytes/Sec\s*[{_BORDERS} ]\s*[0-9.]+ [kMGTP]?B",
    r"Req/Bytes counts sampled ",
    r"[0-9]+k requests in ",
    r"[0-9]+ requests in [0-9.]+s, [0-9.]+ [kMGTP]?B read",
    r"[0-9]+ 2xx responses, [0-9]+ non 2xx responses",
    r"[0-9]+k? errors \([0-9]+k? timeouts\)",
    r"Stat\s+Avg\s+Stdev\s+Max\s*$",
)
_JSON = re.compile(r'"(?:p97_5|p2_5|mismatches|non2xx)"\s*:')


class _AutocannonReader(Reader):
    """Figures of the tables; requests are counted when sent."""

    tool = "autocannon"
    _own = _OWN

    pipelining: int | None = None
    times: Mapping[str, float] | None = None
    """Row "Latency" by the names of its columns."""
    is_rounded: bool = False
    """True where a count is in thousands."""
    answers_2xx: int | None = None
    non_2xx: int | None = None
    errors: int | None = None
    timeouts: int | None = None
    resets: int | None = None
    samples: int | None = None
    """Number of seconds of which the rates are the means."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[str] = []
        self.table = ""
        """Table that the current line is in: stats, points or codes."""
        self.points: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        self._rules = (
            (_RUNNING, self.read_running),
            (_CONNECTIONS, self.latest(connections=parse_count, pipelining=parse_count)),
            (_WORKERS, self.latest(threads=parse_count)),
            (_HEADER, self.read_header),
            (_POINTS, self.put(table="points")),
            (_CODES, self.put(table="codes")),
            (_ROW, self.read_row),
            (_END, self.read_end),
            (_ANSWERS, self.once(answers_2xx=int, non_2xx=int)),
            (_ERRORS, self.read_errors),
            (_RESETS, self.latest(resets=int)),
            (_SAMPLES, self.read_samples),
            (_DAMAGED, self.add_unread),
            (_STATUS, self.read_status),
            (_POINT, self.read_point),
        )

    def has_figures(self) -> bool:
        return bool(self.stated - {"target"})

    def read_running(self, match: re.Match[str]) -> None:
        self.set_once(match[0], target=None if self.unterminated else match[1])

    def read_header(self, match: re.Match[str]) -> None:
        self.table = "stats"
        bare = re.sub(rf"[{_BORDERS}]", " ", match[0])  # no heading has a blank
        self.columns = [cell.lower().removesuffix("%") for cell in bare.split()[1:]]

    def read_row(self, match: re.Match[str]) -> None:
        label, cells = match[1], _cells(match[2])
        if len(cells) != len(self.columns):
            cells = _CELL.findall(match[2])
        if self.unterminated or len(cells) != len(self.columns):
            self.unread.append(match[0])
            return
        named = dict(zip(self.columns, cells, strict=True))
        if label.startswith("Latency"):
            measured = {} if "NaN" in cells else named  # version 2 printed it where no answer had a status of 2xx
            times = {name: parse_number(cell.removesuffix("ms").rstrip()) for name, cell in measured.items()}
            self.set_once(match[0], times=None if None in times.values() else all_of_unit(times, 1e-3))
        elif label == "Req/Sec":
            self.set_once(match[0], rps=parse_local(named.get("avg", "")))
        else:
            size = parse_quantity(named.get("avg", "").replace(" ", ""), DECIMAL_SIZES)
            self.set_once(match[0], bytes_per_s=size)

    def read_point(self, match: re.Match[str]) -> None:
        if self.table == "points" and not self.unterminated:
            self.points[match[1]] = of_unit(float(match[2]), 1e-3)

    def read_status(self, match: re.Match[str]) -> None:
        if self.table == "codes" and not self.unterminated:
            self.statuses[match[1]] = int(match[2])

    def read_end(self, match: re.Match[str]) -> None:
        requests = None if self.starts_mid_number else self.count(match[1], match[2])
        size = parse_quantity(match[4] + match[5], DECIMAL_SIZES)
        self.set_once(match[0], requests=requests, duration_s=parse_number(match[3]), bytes_total=size)

    def read_errors(self, match: re.Match[str]) -> None:
        self.set_once(match[0], errors=self.count(match[1], match[2]), timeouts=self.count(match[3], match[4]))

    def read_samples(self, match: re.Match[str]) -> None:
        self.samples = None if self.unterminated else int(match[1])

    def count(self, number: str, thousands: str) -> int | None:
        self.is_rounded = self.is_rounded or bool(thousands)
        count = parse_count(number)
        return count if count is None or not thousands else count * 1000

    def result(self) -> LoadResult:
        whole = None not in (self.requests, self.times, self.rps) and not self.unread
        zero = 0 if whole else None
        no_errors = zero if self._is_answered() else None
        times = self.times or {}
        stated = self.load_result(
            latency=latency_by_name({**self.points, **times, "mean": times.get("avg")}, "request"),
            status=self.statuses,
            non_2xx=zero if self.non_2xx is None else self.non_2xx,
            failed=no_errors if self.errors is None else self.errors,
            complete=whole and (self.samples is None or self.errors is not None or self._is_answered()),
            notes=self._notes(),
        )
        return _with_common(stated, no_errors if self.timeouts is None else self.timeouts)

    def _is_answered(self) -> bool:
        """Return whether all requests sent have an answer or were in flight: else the line with errors is missing.

        At a target rate, autocannon counts one second of requests too many as sent (`initialiseClients` in lib/run.js).
        """
        if self.requests is None or self.rps is None or self.samples is None:
            return False
        in_flight = (self.connections or 0) * (self.pipelining or 1)
        rounding = 500 if self.is_rounded else 1
        return self.requests - self.rps * self.samples <= in_flight + rounding + self.rps

    def _notes(self) -> Iterator[Note]:
        if self.is_rounded:
            yield Note(code="autocannon-thousands", message="counts with a k are rounded to thousands by autocannon")
        if self.pipelining:
            yield _pipelining(self.pipelining)
        if self.resets:
            yield Note(code="autocannon-resets", message=f"the pipeline of requests was reset {self.resets} times")


def _cells(row: str) -> list[str]:
    """Return the cells of a row; without borders a blank may be all that is between two of them."""
    if not any(border in row for border in _BORDERS) and row[:1].isdigit():
        return _BARE_CELLS.findall(row)
    return [cell for cell in _CELLS.split(row.strip(f" {_BORDERS}")) if cell]


_LOCAL = re.compile(
    r"([0-9]+|[0-9]{1,3}(?:[.,\u066b\u066c][0-9]{2,3})*[.,\u066b\u066c][0-9]{3})(?:[.,\u066b]([0-9]{1,2}))?"
)


def parse_local(cell: str) -> float | None:
    """Return a number with at most two decimals, as any locale prints it; None for any other text.

    Three digits behind the last separator are thousands, one or two are decimals. Blanks and apostrophes group too.
    """
    digits = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in cell if not c.isspace())
    match = _LOCAL.fullmatch(re.sub("['\u2019\u02bc]", "", digits))
    return float(f"{re.sub('[^0-9]', '', match[1])}.{match[2] or 0}") if match else None


def _pipelining(requests: int) -> Note:
    return Note(code="pipelining", message=f"each connection had up to {requests} requests in flight (pipelining)")


def _with_common(stated: LoadResult, timeouts: int | None) -> LoadResult:
    """Return a result with what text and JSON have in common; without an answer no time was measured.

    `failed` are the errors that autocannon states, `timeouts` included.
    """
    latency = stated.latency.model_copy(update={"resolution_s": 1e-3, "corrected": None})
    unanswered = None if stated.failed is None else stated.failed - (timeouts or 0)
    coarse = latency.mean_s is not None and latency.mean_s < 10e-3  # noqa: PLR2004 - a step of 1 ms is more than a tenth
    resolution = Note(code="resolution", message="autocannon's times are whole milliseconds, cut off")
    return stated.model_copy(
        update={
            "latency": without_times(latency) if not stated.rps and not latency.max_s else latency,
            "errors": Errors(timeout=timeouts, other=unanswered),
            "notes": (*([resolution] if coarse and stated.rps else []), *stated.notes),
        }
    )


class _Samples(JsonOutput):
    """Requests or bytes, sampled once per second."""

    average: Figure
    total: Count | None = None


class _StatusCount(LaxJsonOutput):
    count: Count
    """Some documents have it as text."""


_KEY = re.compile(r"p([0-9]{1,2}(?:_[0-9]{1,3})?)")
"""Key of a percentile: `p97_5`."""


class _Document(JsonOutput):
    url: str | None = None
    connections: Count
    pipelining: Count = 1
    workers: Count | None = None
    duration: Figure
    requests: _Samples
    latency: dict[str, Figure]
    throughput: _Samples
    errors: Count
    timeouts: Count = 0
    non_2xx: Count = Field(default=0, alias="non2xx")
    resets: Count = 0
    statuses: dict[str, _StatusCount] = Field(default={}, alias="statusCodeStats")


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "autocannon")
    times = all_of_unit(document.latency, 1e-3)
    percentiles = {match[1].replace("_", "."): time for name, time in times.items() if (match := _KEY.fullmatch(name))}
    mean, stdev = times.get("average"), times.get("stddev")
    stated = LoadResult(
        tool="autocannon",
        target=document.url,
        duration_s=document.duration,
        requests=document.requests.total,
        rps=document.requests.average,
        connections=document.connections,
        threads=document.workers or None,
        bytes_total=document.throughput.total,
        bytes_per_s=document.throughput.average,
        latency=latency_by_name({**times, "mean": mean, "stdev": stdev, **percentiles}, "request"),
        status={code: each.count for code, each in document.statuses.items() if each.count},
        non_2xx=document.non_2xx,
        failed=document.errors,
        notes=(_pipelining(document.pipelining),) if document.pipelining > 1 else (),
    )
    return _with_common(stated, document.timeouts)


def parse(text: str) -> LoadResult:
    """Return the result that autocannon printed. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) else _AutocannonReader().read(text)


FORMAT = OutputFormat(
    "autocannon",
    has_any(_OWN, _JSON),
    parse,
    (
        line_with(r"Running \S+(?: requests?)? test @ "),
        line_with(rf"(?:{_HEADER.pattern}\n(?:[^\w\n]*\n)*)?[{_BORDERS}]?\s*Latency\b"),
        line_with(r"\{"),
    ),
)
