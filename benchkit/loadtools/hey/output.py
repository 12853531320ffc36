"""Parser of hey's output, and of boom's, as it was called before 2016: its summary and its CSV.

Meaning of the figures, read from its source (requester/report.go, print.go):

- It keeps the times and statuses of 1,000,000 answers. For more answers, percentiles and status counts are of the first
  million. "Average" is then the sum of all times ÷ one million: wrong, and not stated here. The rate counts every
  request, failed ones too (in boom and early versions of hey only answered ones). The number of requests is not
  printed; below the limit it is the sum of statuses and errors.
- A time runs from before connecting to the end of the body. Summary and CSV round to 0.1 ms.
- Percentiles that need more requests are printed as "0% in 0.0000 secs". Where every request failed, average is
  "NaN" and slowest and fastest are 0.0000, which are no measured times.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping

from benchkit.errors import ParseError
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import TIMES, Rules, SectionReader
from benchkit.loadtools.text import (
    TEXT_AFTER_LINE,
    count_non_2xx,
    errors_of,
    has_line,
    latency_of,
    line_with,
    no_end_mark,
    not_output_of,
    parse_count,
    parse_number,
    split_lines,
    unread_notes,
    without_times,
)
from benchkit.loadtools.tool import RequestRows
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

MAX_RESULTS = 1_000_000
"""`maxRes` in requester/report.go."""

_TIMES = re.compile(r"(Total|Slowest|Fastest|Average):\s*(\S+) secs?\.?")
_RATE = re.compile(r"Requests/sec:\s*(\S+)")
_SIZES = re.compile(r"(?:(Total data|Total Data (?:Rece?ie?ved|Transferred))|[\w/ ]*[Rr]equest):\s*(\S+) bytes\.?")
_SECTION = re.compile(
    r"(Summary|Response time histogram|Latency distribution|Details \(.*\)|Detailed Report|HTTP Trace|HttpTrace"
    r"|Status code distr[iu]bution|Error distribution):"
)

ROWS = RequestRows("hey")
"""The first million answers, printed by the template; failed requests have no row."""
_PERCENTILE = re.compile(r"([0-9]{1,3})%{1,2}(?: in)?\s+(\S+) secs?\.?")
_STATUS = re.compile(r"\[([0-9]{1,3})\]\s+(\S+) responses")
_ERROR = re.compile(r"\[([0-9]{1,18})\]\s+(\S.*)")
_DAMAGED = re.compile(r"(?:Total|Slowest|Fastest|Average|Requests/sec|Total data):.*")
_DAMAGED_PERCENTILE = re.compile(r"[0-9].*|.*(?:%|secs?).*")
_DAMAGED_STATUS = re.compile(r"\[.*|.*responses")
_NOT_A_NUMBER = frozenset({"NaN", "+Inf", "-Inf", "Inf"})


_is_of_oha = has_line("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ")
"""True for a text with lines of oha, whose output resembles hey's."""


class _HeyReader(SectionReader):
    tool = "hey"
    _heading = _SECTION
    _behind_lines = TEXT_AFTER_LINE

    def section_rules(self) -> Mapping[str, Rules]:
        return {
            "Summary": (
                (_TIMES, self.read_time),
                (_RATE, self.read_rate),
                (_SIZES, self.read_size),
                (_DAMAGED, self.add_unread),
            ),
            "Latency distribution": ((_PERCENTILE, self.read_percentile), (_DAMAGED_PERCENTILE, self.add_unread)),
            "Status code distribution": ((_STATUS, self.read_status), (_DAMAGED_STATUS, self.add_unread)),
            "Error distribution": ((_ERROR, self.read_error),),
        }

    def has_figures(self) -> bool:
        return bool(self.stated & {"duration_s", "average"} or self.percentiles or self.statuses or self.errors)

    def read_time(self, match: re.Match[str]) -> None:
        value = parse_number(match[2])
        if value is not None or match[2] not in _NOT_A_NUMBER:
            self.set_once(match[0], **{TIMES[match[1]]: value})

    def read_rate(self, match: re.Match[str]) -> None:
        whole = not self.unterminated or re.search(r"\.[0-9]{4}$", match[1])  # always four decimals
        self.set_once(match[0], rps=parse_number(match[1]) if whole else None)

    def read_size(self, match: re.Match[str]) -> None:
        if match[1]:
            self.set_once(match[0], bytes_total=parse_count(match[2]))

    def read_percentile(self, match: re.Match[str]) -> None:
        time = parse_number(match[2])
        if match[1] != "0" or time != 0:  # printed for percentiles that need more requests
            self.add_once(self.percentiles, match[1], time, match[0])

    def result(self) -> LoadResult:
        all_counted = self._all_counted()
        # Before 2016 a run without an answer printed its errors alone.
        failures_known = (
            all_counted or self._capped() or (self.duration_s is None and "Error distribution" in self.sections)
        )
        return self.load_result(
            requests=self._counted() if all_counted else None,
            latency=self._latency(),
            errors=errors_of(self.errors) if failures_known and not self.unread else Errors(),
            status=self.statuses,
            non_2xx=count_non_2xx(self.statuses) if all_counted else None,
            failed=self.errors.total() if failures_known else None,
            complete=self._complete(),
            notes=self._notes(),
        )

    def _counted(self) -> int:
        return sum(self.statuses.values()) + self.errors.total()

    def _requests_by_rate(self) -> tuple[float, float] | None:
        """Return (rate x time, its largest rounding error); None where one of them is missing."""
        if self.rps is None or self.duration_s is None:
            return None
        return self.rps * self.duration_s, 5e-5 * (self.rps + self.duration_s) + 1e-3

    def _all_counted(self) -> bool:
        """Return whether statuses and errors account for every request: in truncated text they do not."""
        expected = self._requests_by_rate()
        if "Status code distribution" not in self.sections or expected is None:
            return False
        answered = sum(self.statuses.values())
        totals = (self._counted(), answered if self.errors else math.nan)  # early versions rated answers alone
        return any(abs(total - expected[0]) <= expected[1] for total in totals)

    def _capped(self) -> bool:
        """Return whether hey dropped results: it counts a million statuses, and its rate implies more."""
        expected = self._requests_by_rate()
        counted = sum(self.statuses.values())
        return counted == MAX_RESULTS and (expected is None or expected[0] - self._counted() > expected[1])

    def _unmeasured(self) -> bool:
        """Return whether no request was answered: the average is then "NaN" and the extremes are zero."""
        return self.average is None and 0 in (self.slowest, self.fastest)

    def _latency(self) -> Latency:
        latency = Latency(
            min_s=self.fastest,
            mean_s=None if self._capped() else self.average,
            max_s=self.slowest,
            percentiles=self.percentiles,
            resolution_s=1e-4,
            covers="connect+request",
            corrected=False,
        )
        return without_times(latency) if self._unmeasured() else latency

    def _complete(self) -> bool:
        """Return whether the text has all that hey always prints."""
        times = (self.average, self.slowest, self.fastest)
        stated = None not in times or not self.statuses
        return stated and not self.unread and (self._all_counted() or self._capped())

    def _notes(self) -> Iterator[Note]:
        if self._capped():
            yield Note(
                code="hey-cap",
                message=f"hey keeps {MAX_RESULTS:,} results and there were more. Percentiles, extremes and status counts "
                "are of the first million; the average it prints is wrong and is not stated",
            )
        if self._unmeasured():
            yield Note(
                code="no-samples", message="no request was answered: hey's times of 0.0000 secs are not measured"
            )
        if self.average is not None and self.average < 1e-3:  # noqa: PLR2004 - below 1 ms a step of 0.1 ms is more than a tenth
            yield Note(code="resolution", message="hey's times are rounded to 0.1 ms")


def parse(text: str) -> LoadResult:
    """Return the result that hey or boom printed. Raises ParseError for other text, and for several runs."""
    if _is_of_oha(text):
        raise not_output_of("hey", split_lines(text))
    return _parse_csv(text) or _HeyReader().read(text)


_HEADING = re.compile(
    r"response-time(,DNS\+dialup,DNS,Request-write,Response-delay,Response-read)?(,status-code)?(,offset)?"
)
_TIME = r"[0-9]{1,9}\.[0-9]{4}"
_BOOM = re.compile(r"([0-9]{1,9}),([0-9]{1,9})\.([0-9]{4})")
"""Row of boom, which prints no heading: its number from 1, and its time."""


def _parse_csv(text: str) -> LoadResult | None:
    """Return the result of a CSV of hey or boom; None for other text. Raises ParseError for two files in one text."""
    lines = [line.strip() for line in split_lines(text) if line.strip()]
    if not lines:
        return None
    if heading := _HEADING.fullmatch(lines[0]):
        phases, status, offset = heading.groups()
        row = re.compile(
            rf"([0-9]{{1,9}})\.([0-9]{{4}})(?:,{_TIME}){{{5 if phases else 0}}}"
            + (",([0-9]{3})" if status else "()")
            + (f",{_TIME}" if offset else "")
        )
        return _rows(lines[1:], row)
    boom = _BOOM.fullmatch(lines[0])
    return _numbered(lines) if boom and boom[1] == "1" else None


def _rows(lines: list[str], row: re.Pattern[str]) -> LoadResult:
    times: list[int] = []
    statuses: Counter[str] = Counter()
    unread: list[str] = []
    for line in lines:
        if match := row.fullmatch(line):
            times.append(int(match[1] + match[2]))  # in steps of 0.1 ms
            statuses[match[3]] += 1
        elif _HEADING.fullmatch(line):
            raise ParseError("two CSV files of hey in one text", hint="parse each file separately")
        else:
            unread.append(line)
    del statuses[""]
    return _result(times, statuses, unread)


def _numbered(lines: list[str]) -> LoadResult:
    times: list[int] = []
    unread: list[str] = []
    for line in lines:
        match = _BOOM.fullmatch(line)
        if match and int(match[1]) == len(times) + 1:
            times.append(int(match[2] + match[3]))
        elif match and match[1] == "1":
            raise ParseError("two CSV files of boom in one text", hint="parse each file separately")
        else:
            unread.append(line)
    return _result(times, Counter(), unread)


def _result(times: list[int], statuses: Counter[str], unread: list[str]) -> LoadResult:
    """Return the result of rows: `times` in steps of 0.1 ms, and counts by status."""
    capped = len(times) >= MAX_RESULTS
    message = "only answered requests have a row: the CSV has no failures, and no duration of the run"
    notes = [Note(code="hey-csv", message=message)]
    if capped:
        notes.append(Note(code="hey-cap", message=f"hey keeps only {MAX_RESULTS:,} results: there may have been more"))
    return LoadResult(
        tool="hey",
        requests=None if capped or (unread and not times) else len(times),
        latency=latency_of(times, 1e-4),
        status=dict(sorted(statuses.items())),
        non_2xx=count_non_2xx(statuses) if statuses and not capped else None,
        complete=bool(times) and not unread,
        notes=(*notes, no_end_mark("a CSV of hey"), *unread_notes(unread)),
    )


_HEYS_OWN = has_line(
    r"(?:req write|resp wait|resp read):[ \t]",
    r"(?:Total data|Total Data (?:Rece?ie?ved|Transferred)|Size/request|Response Size per [Rr]equest|Total Data Received):[ \t]+[0-9]+ bytes",
    _HEADING.pattern + "$",
    r"\[[0-9]+\][ \t]+(?:Get|Head|Post|Put|Patch|Delete) \"?https?://",
)
_BEGINNING = has_line(r"Summary:\n(?:[ \t]*\n)*[ \t>|*#]*Total:[ \t]")


def _is_output(text: str) -> bool:
    """Return whether the text has lines that only hey prints, or begins as hey's and has no lines of oha's."""
    return _HEYS_OWN(text) or (_BEGINNING(text) and not _is_of_oha(text))


FORMAT = OutputFormat("hey", _is_output, parse, (line_with("Summary:", _HEADING.pattern + "$"),))
