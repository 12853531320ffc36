"""Parser of the output of oha (0.4 to 1.x): its text, its JSON and its CSV.

Meaning of the figures, read from its source (src/printer.rs, result_data.rs, client.rs):

- The rate is (answers + errors) ÷ total time. At the end of a run by time (`-z`) the requests in flight are
  aborted, and counted as the error "aborted due to deadline". They are no failures, and the success rate leaves
  them out. Here they are `aborted`, and the rate counts the other requests.
- Times are of answered requests alone, whatever their status. They run from before connecting to the end of the body;
  with `--latency-correction` from when the request was due, which the output does not state.
- Percentile p of n times is the one with index ⌊p·n/100⌋ in order; the last ones of few requests repeat the maximum.
- The text rounds to four decimals of one unit for all times: seconds up to 1.5, since then as the slowest time needs.
- "Total data" is of bodies alone, and KiB are 1024. The text is printed at once, without a last line of its own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping

from pydantic import Field

from benchkit.loadtools.json_text import JsonOutput, read_document, within
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import TIMES, Rules, SectionReader
from benchkit.loadtools.text import (
    Count,
    Figure,
    count_non_2xx,
    errors_of,
    has_any,
    latency_of,
    line_with,
    no_end_mark,
    of_unit,
    parse_number,
    parse_quantity,
    several_runs,
    unread_notes,
)
from benchkit.models.load_result import Latency, LoadResult, Note

DEADLINE = "aborted due to deadline"
"""Error of the requests in flight at the end of a run by time (`ClientError::Deadline`)."""

_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1,
    "sec": 1,
    "secs": 1,
    "10 sec": 10,
    "min": 60,
    "10 min": 600,
    "hr": 3600,
}
_SIZES: Mapping[str, float] = {"B": 1, **{f"{prefix}iB": 1024.0**power for power, prefix in enumerate("KMGTP", 1)}}
_UNIT = r"((?:10 )?[a-z]{1,4})"
_TIME = re.compile(rf"(Total|Slowest|Fastest|Average):\s*(\S+) {_UNIT}")
_RATE = re.compile(r"Requests/sec:\s*(\S+)")
_SUCCESS = re.compile(r"Success rate:\s*([0-9.]{1,24}|NaN)(%?)")
_SIZE = re.compile(r"(Total data|Size/sec):\s*(\S+) ?([KMGTP]?i?B)")
_PERCENTILE = re.compile(rf"([0-9]{{1,2}}(?:\.[0-9]{{1,2}})?)% in (\S+) {_UNIT}")
_SECTION = re.compile(
    r"(Summary|Response time histogram(?: \(.*\))?|(?:Response time|Latency) distribution|Response time distribution \(.*\)"
    r"|Details \(.*\)|Status code distribution|Error distribution):"
)
_STATUS = re.compile(r"\[([0-9]{3})\] (\S+) responses")
_ERROR = re.compile(r"\[([0-9]{1,18})\] (\S.*)")
_DAMAGED = re.compile(r"(?:Success rate|Total|Slowest|Fastest|Average|Requests/sec|Total data|Size/sec):.*")
_DAMAGED_ROW = re.compile(r"[0-9].*|\[.*")
_OTHER_ROW = re.compile(r".+")
_CSV = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status"
_OWN = line_with("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ", re.escape(_CSV))
_JSON = re.compile(r'"(?:latencyPercentiles|responseTimeHistogram|statusCodeDistribution|successRate)"\s*:')


class _OhaReader(SectionReader):
    tool = "oha"
    _own = _OWN
    _heading = _SECTION

    success_rate: float | None = None
    step: float | None = None
    """Largest step of the times."""

    def section_rules(self) -> Mapping[str, Rules]:
        others: Rules = ((_DAMAGED_ROW, self.add_unread), (_OTHER_ROW, self.end_section))
        percentiles = ((_PERCENTILE, self.read_percentile), *others)
        return {
            "Summary": (
                (_TIME, self.read_time),
                (_RATE, self.once(rps=parse_number, whole=True)),
                (_SUCCESS, self.read_success),
                (_SIZE, self.read_size),
                (_DAMAGED, self.add_unread),
            ),
            "Response time distribution": percentiles,
            "Latency distribution": percentiles,
            "Status code distribution": ((_STATUS, self.read_status), *others),
            "Error distribution": ((_ERROR, self.read_error), *others),
        }

    def has_figures(self) -> bool:
        return bool(self.stated or self.percentiles)

    def end_section(self, _match: re.Match[str]) -> None:
        """End a section of rows at a line of another kind: the text of an author, whose figures are none of oha's."""
        self._start_section("")

    def seconds(self, number: str, unit: str) -> float | None:
        """Return a time in seconds; None for one that is damaged, or may lack the end of its unit."""
        value = parse_number(number)
        if value is None or unit not in _UNITS or self.unterminated:
            return None
        step = of_unit(10.0 ** -len(number.partition(".")[2]), _UNITS[unit])
        self.step = max(self.step or 0, step)
        return of_unit(value, _UNITS[unit])

    def read_time(self, match: re.Match[str]) -> None:
        name, number, unit = match.groups()
        if number not in {"NaN", "inf", "-inf"}:  # no request was answered
            self.set_once(match[0], **{TIMES[name]: self.seconds(number, unit)})

    def read_success(self, match: re.Match[str]) -> None:
        """Read the share of answers; versions up to 0.4 print it without a percent sign."""
        rate = None if self.ends_mid_number(match[0]) else parse_number(match[1])
        if match[1] != "NaN":
            self.set_once(match[0], success_rate=of_unit(rate, 0.01) if match[2] else rate)

    def read_size(self, match: re.Match[str]) -> None:
        size = None if self.unterminated else parse_quantity(match[2] + match[3], _SIZES)
        self.set_once(match[0], **{"bytes_total" if match[1] == "Total data" else "bytes_per_s": size})

    def read_percentile(self, match: re.Match[str]) -> None:
        if match[2] != "NaN":
            self.add_once(self.percentiles, f"{float(match[1]):g}", self.seconds(match[2], match[3]), match[0])

    def result(self) -> LoadResult:
        counted = self._all_counted()
        latency = Latency(
            min_s=self.fastest,
            mean_s=self.average,
            max_s=self.slowest,
            percentiles=self.percentiles,
            resolution_s=self.step if self.percentiles or self.slowest is not None else None,
            covers="connect+request",
        )
        stated = self.load_result(
            requests=self._counted() if counted else None,
            latency=latency,
            status=self.statuses,
            availability=_share(self.success_rate),
            complete=not self.unread,
        )
        return _with_counts(stated, self.errors if counted else None)

    def _counted(self) -> int:
        return sum(self.statuses.values()) + self.errors.total()

    def _all_counted(self) -> bool:
        """Return whether statuses and errors account for every request of the rate: in truncated text they do not."""
        if self.rps is None or self.duration_s is None or self.unread or not (self.statuses or self.errors):
            return False
        rounding = (self.step or 1e-4) / 2 * self.rps + 5e-5 * self.duration_s + 1e-6
        return abs(self.rps * self.duration_s - self._counted()) <= rounding


def _with_counts(stated: LoadResult, errors: Mapping[str, int] | None) -> LoadResult:
    """Return a result without the aborted requests, which its `requests` and `rps` count, and with its failures.

    `errors` are counts by message; None where their number is unknown.
    """
    if errors is None:
        message = "oha's rate counts aborted requests too, whose number is missing here"
        unknown = Note(code="oha-aborted-unknown", message=message)
        return stated.model_copy(update={"complete": False, "notes": (unknown, *stated.notes)})
    aborted, rate, duration_s = errors.get(DEADLINE, 0), stated.rps, stated.duration_s
    failures = {message: number for message, number in errors.items() if message != DEADLINE}
    answered = None if stated.requests is None else stated.requests - aborted
    notes = stated.notes
    if aborted and rate is not None and duration_s:
        message = (
            f"the end of the run aborted {aborted} requests, which oha's rate of {rate:.6g}/s counts: left out here"
        )
        notes = (Note(code="oha-aborted", message=message), *notes)
    return stated.model_copy(
        update={
            "requests": answered,
            "rps": answered / duration_s if answered is not None and aborted and duration_s else rate,
            "errors": errors_of(failures),
            "non_2xx": count_non_2xx(stated.status),
            "failed": sum(failures.values()),
            "aborted": aborted,
            "complete": stated.complete and bool(stated.latency.percentiles or not stated.status),
            "notes": notes,
        }
    )


def _share(rate: float | None) -> float | None:
    """Return a success rate from 0 to 1; None for a larger one, as old versions print."""
    return rate if rate is None or rate <= 1 else None


class _Summary(JsonOutput):
    success_rate: Figure | None = Field(default=None, alias="successRate")
    total: Figure | None = None
    slowest: Figure | None = None
    fastest: Figure | None = None
    average: Figure | None = None
    requests_per_s: Figure | None = Field(default=None, alias="requestsPerSec")
    total_data: Figure | None = Field(default=None, alias="totalData")
    size_per_s: Figure | None = Field(default=None, alias="sizePerSec")


class _Document(JsonOutput):
    """JSON of `--output-format json`; times are seconds. What was not measured is null, and excerpts lack parts."""

    summary: _Summary
    percentiles: dict[str, Figure | None] = Field(default={}, alias="latencyPercentiles")
    connect_mean_s: Figure | None = within("details", "DNSDialup", "average", default=None)
    first_byte_mean_s: Figure | None = within("details", "firstByte", "average", default=None)
    statuses: dict[str, Count] | None = Field(default=None, alias="statusCodeDistribution")
    errors: dict[str, Count] | None = Field(default=None, alias="errorDistribution")


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "oha")
    summary, statuses, errors = document.summary, document.statuses, document.errors
    is_counted = statuses is not None and errors is not None
    stated = LoadResult(
        tool="oha",
        duration_s=summary.total,
        requests=sum((statuses or {}).values()) + sum((errors or {}).values()) if is_counted else None,
        rps=summary.requests_per_s,
        bytes_total=summary.total_data,
        bytes_per_s=summary.size_per_s,
        latency=Latency(
            min_s=summary.fastest,
            mean_s=summary.average,
            max_s=summary.slowest,
            percentiles={
                name.removeprefix("p"): time for name, time in document.percentiles.items() if time is not None
            },
            resolution_s=None if summary.average is None else 1e-9,
            covers="connect+request",
        ),
        connect_mean_s=document.connect_mean_s,
        first_byte_mean_s=document.first_byte_mean_s,
        status=statuses or {},
        availability=_share(summary.success_rate),
    )
    # A document ends with its last brace: what an excerpt of one lacks was left out, and not cut off.
    return _with_counts(stated, errors if is_counted else None).model_copy(update={"complete": True})


_ROW = re.compile(r"[0-9.e-]+,[0-9.e-]+,[0-9.e-]+,[0-9.e-]+,([0-9]{1,9}(?:\.[0-9]{1,9})?),[0-9]+,([0-9]{3})")


def _read_csv(lines: list[str]) -> LoadResult:
    """Return the result of one row for each answered request; times are seconds with nine decimals."""
    times: list[int] = []
    statuses: Counter[str] = Counter()
    unread: list[str] = []
    if sum(line.strip() == _CSV for line in lines) > 1:
        raise several_runs("oha", _CSV)
    for line in lines:
        if match := _ROW.fullmatch(line.strip()):
            times.append(round(float(match[1]) * 1e9))
            statuses[match[2]] += 1
        elif line.strip() and line.strip() != _CSV:
            unread.append(line)
    return LoadResult(
        tool="oha",
        requests=len(times),
        latency=latency_of(times, 1e-9).model_copy(update={"corrected": None}),
        status=dict(sorted(statuses.items())),
        non_2xx=count_non_2xx(statuses),
        complete=bool(times) and not unread,
        notes=(
            Note(code="oha-csv", message="only answered requests have a row: the CSV has no failures and no duration"),
            no_end_mark("a CSV of oha"),
            *unread_notes(unread),
        ),
    )


def parse(text: str) -> LoadResult:
    """Return the result that oha printed. Raises ParseError for other text, and for several runs."""
    if text.lstrip().startswith(_CSV):
        return _read_csv(text.split("\n"))
    return _read_json(text) if _JSON.search(text) else _OhaReader().read(text)


FORMAT = OutputFormat("oha", has_any(_OWN, _JSON), parse, (line_with("Summary:", r'\{\s*"summary"', re.escape(_CSV)),))
