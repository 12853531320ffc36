"""Parser of the output of oha (0.4 to 1.x): its text, its JSON and its CSV.

Meaning of the figures, read from its source (src/printer.rs, result_data.rs, client.rs):

- The rate is (answers + errors) ÷ total time. At the end of a run by time (`-z`) the requests in flight are
  aborted, and counted as the error "aborted due to deadline". They are no failures, and the success rate leaves
  them out. Here they are `aborted`, and the rate is that of the other requests.
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

from benchkit.loadtools.json_text import JsonOutput, read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.text import (
    Count,
    Figure,
    Reader,
    Rules,
    errors_of,
    has_line,
    latency_of,
    line_with,
    no_end_mark,
    not_output_of,
    parse_count,
    parse_number,
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
_ANY = re.compile(r".+")
_CSV = "request-start,DNS,DNS+dialup,Response-delay,request-duration,bytes,status"
_OWN = has_line("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ", re.escape(_CSV))
_JSON = re.compile(r'"(?:latencyPercentiles|responseTimeHistogram|statusCodeDistribution|successRate)"\s*:')


class _OhaReader(Reader):
    """Figures of oha's text by its own labels; times in seconds, sizes in bytes."""

    tool = "oha"

    total: float | None = None
    slowest: float | None = None
    fastest: float | None = None
    average: float | None = None
    requests_per_s: float | None = None
    success_rate: float | None = None
    total_data: float | None = None
    size_per_s: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.sections: set[str] = set()
        self.percentiles: dict[str, float] = {}
        self.statuses: dict[str, int] = {}
        self.errors: dict[str, int] = {}
        """Number of times that each error occurred, by its text."""
        self.step: float | None = None
        headings: Rules = ((_SECTION, self.read_start),)
        rows: Rules = ((_DAMAGED_ROW, self.add_unread), (_ANY, self.end_section))
        self._rules_of: Mapping[str, Rules] = {
            "Summary": (
                *headings,
                (_TIME, self.read_time),
                (_RATE, self.once(requests_per_s=parse_number, whole=True)),
                (_SUCCESS, self.read_success),
                (_SIZE, self.read_size),
                (_DAMAGED, self.add_unread),
            ),
            "Response time distribution": (*headings, (_PERCENTILE, self.read_percentile), *rows),
            "Status code distribution": (*headings, (_STATUS, self.read_status), *rows),
            "Error distribution": (*headings, (_ERROR, self.read_error), *rows),
        }
        self._rules_of = {**self._rules_of, "Latency distribution": self._rules_of["Response time distribution"]}
        self._headings = headings
        self._rules = self._rules_of["Summary"]

    def read(self, text: str) -> LoadResult:
        lines = self.read_lines(text)
        if not _OWN(text) or not (self.stated or self.percentiles):
            raise not_output_of("oha", lines)
        return self.result()

    def read_start(self, match: re.Match[str]) -> None:
        if match[1] in self.sections:
            raise several_runs("oha", match[0])
        self.sections.add(match[1])
        self._rules = self._rules_of.get(match[1], self._headings)

    def end_section(self, _match: re.Match[str]) -> None:
        """End a section of rows at a line of another kind: the text of an author, whose figures are none of oha's."""
        self._rules = self._headings

    def seconds(self, number: str, unit: str) -> float | None:
        """Return a time in seconds; None for one that is damaged, or may lack the end of its unit."""
        value = parse_number(number)
        if value is None or unit not in _UNITS or self.unterminated:
            return None
        step = _UNITS[unit] * 10.0 ** -len(number.partition(".")[2])
        self.step = max(self.step or 0, float(f"{step:.15g}"))
        return float(f"{value * _UNITS[unit]:.15g}")

    def read_time(self, match: re.Match[str]) -> None:
        name, number, unit = match.groups()
        if number in {"NaN", "inf", "-inf"}:  # no request was answered
            return
        self.set_once(match[0], **{name.lower(): self.seconds(number, unit)})

    def read_success(self, match: re.Match[str]) -> None:
        """Read the share of answers; versions up to 0.4 print it without a percent sign."""
        rate, unit = parse_number(match[1]), match[2]
        if match[1] == "NaN":
            return
        if rate is None or self.ends_mid_number(match[0]):
            self.set_once(match[0], success_rate=None)
        else:
            self.set_once(match[0], success_rate=float(f"{rate / 100:.15g}") if unit else rate)

    def read_size(self, match: re.Match[str]) -> None:
        value = parse_number(match[2])
        size = None if value is None or match[3] not in _SIZES or self.unterminated else value * _SIZES[match[3]]
        self.set_once(match[0], **{"total_data" if match[1] == "Total data" else "size_per_s": size})

    def read_percentile(self, match: re.Match[str]) -> None:
        if match[2] == "NaN":
            return
        time = self.seconds(match[2], match[3])
        if time is None:
            self.unread.append(match[0])
        else:
            self.percentiles[f"{float(match[1]):g}"] = time

    def read_status(self, match: re.Match[str]) -> None:
        responses = parse_count(match[2])
        if responses is None:
            self.unread.append(match[0])
        else:
            self.statuses[match[1]] = responses

    def read_error(self, match: re.Match[str]) -> None:
        if self.unterminated:
            self.unread.append(match[0])  # its kind may be in the missing end
        self.errors[match[2]] = self.errors.get(match[2], 0) + int(match[1])

    def result(self) -> LoadResult:
        counted = self._all_counted()
        requests = sum(self.statuses.values()) + sum(self.errors.values())
        latency = Latency(
            min_s=self.fastest,
            mean_s=self.average,
            max_s=self.slowest,
            percentiles=self.percentiles,
            resolution_s=self.step if self.percentiles or self.slowest is not None else None,
            covers="connect+request",
        )
        stated = LoadResult(
            tool="oha",
            duration_s=self.total,
            requests=requests if counted else None,
            rps=self.requests_per_s,
            bytes_total=self.total_data,
            bytes_per_s=self.size_per_s,
            latency=latency,
            status=self.statuses,
            availability=_share(self.success_rate),
            complete=not self.unread,
            notes=tuple(unread_notes(self.unread)),
        )
        return _with_counts(stated, self.errors if counted else None)

    def _all_counted(self) -> bool:
        """Return whether statuses and errors account for every request of the rate: in truncated text they do not."""
        if self.requests_per_s is None or self.total is None or self.unread or not (self.statuses or self.errors):
            return False
        rounding = (self.step or 1e-4) / 2 * self.requests_per_s + 5e-5 * self.total + 1e-6
        counted = sum(self.statuses.values()) + sum(self.errors.values())
        return abs(self.requests_per_s * self.total - counted) <= rounding


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
            "non_2xx": sum(n for code, n in stated.status.items() if code[0] != "2"),
            "failed": sum(failures.values()),
            "aborted": aborted,
            "complete": stated.complete and bool(stated.latency.percentiles or not stated.status),
            "notes": notes,
        }
    )


def _share(rate: float | None) -> float | None:
    """Return a success rate that is a share; an old one is not."""
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


class _Triple(JsonOutput):
    average: Figure | None = None


class _Details(JsonOutput):
    dialup: _Triple = Field(default=_Triple(), alias="DNSDialup")
    first_byte: _Triple = Field(default=_Triple(), alias="firstByte")


class _Document(JsonOutput):
    """JSON of `--output-format json`; times are seconds. What was not measured is null, and excerpts lack parts."""

    summary: _Summary
    percentiles: dict[str, Figure | None] = Field(default={}, alias="latencyPercentiles")
    details: _Details = _Details()
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
        connect_mean_s=document.details.dialup.average,
        first_byte_mean_s=document.details.first_byte.average,
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
        latency=latency_of(times, 1e-9, resolution_s=1e-9).model_copy(update={"corrected": None}),
        status=dict(sorted(statuses.items())),
        non_2xx=sum(n for code, n in statuses.items() if code[0] != "2"),
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


def _is_output(text: str) -> bool:
    return _OWN(text) or _JSON.search(text) is not None


FORMAT = OutputFormat("oha", _is_output, parse, (line_with("Summary:", r'\{\s*"summary"', re.escape(_CSV)),))
