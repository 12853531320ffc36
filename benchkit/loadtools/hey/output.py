"""Parser of hey's summary, and of boom's, as it was called before 2016.

Meaning of the figures, read from its source (requester/report.go, print.go):

- It keeps the times and statuses of 1,000,000 answers. For more answers, percentiles and status counts are of the first
  million. "Average" is then the sum of all times ÷ one million: wrong, and not stated here. The rate counts every
  request, failed ones too (in boom and early versions of hey only answered ones). The number of requests is not
  printed; below the limit it is the sum of statuses and errors.
- A time runs from before connecting to the end of the body, and is rounded to 0.1 ms.
- Percentiles that need more requests are printed as "0% in 0.0000 secs". Where every request failed, average is
  "NaN" and slowest and fastest are 0.0000, which are no measured times.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, OutputFormat, SectionReader
from benchkit.loadtools.text import (
    count_non_2xx,
    errors_of,
    has_line,
    latency_by_name,
    line_with,
    not_output_of,
    parse_number,
    without_times,
)
from benchkit.loadtools.tool import RequestRows
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

MAX_RESULTS = 1_000_000
"""`maxRes` in requester/report.go."""
ROWS = RequestRows("hey")
"""The first million answers, printed by the template; failed requests have no row."""
_SECS = r"secs?\.?"

_is_of_oha = has_line("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ")
"""True for a text with lines of oha, whose output resembles hey's."""


class _HeyReader(SectionReader):
    tool = "hey"
    figures: ClassVar[Figures] = dict.fromkeys(("slowest", "fastest", "average"), parse_number)
    heading = re.compile(
        r"(Summary|Response time histogram|Latency distribution|Details \(.*\)|Detailed Report|HTTP Trace|HttpTrace"
        r"|Status code distr[iu]bution|Error distribution):"
    )

    def lines(self) -> Mapping[str, Action | None]:
        summary = {
            rf"Total:\s*(?P<duration_s>\S+) {_SECS}": None,
            rf"Slowest:\s*(?P<slowest>\S+) {_SECS}": None,
            rf"Fastest:\s*(?P<fastest>\S+) {_SECS}": None,
            rf"Average:\s*(?P<average>\S+) {_SECS}": None,
            r"Requests/sec:\s*(?P<rps>\S+)": None,
            r"Total data:\s*(?P<bytes_total>\S+) bytes\.?": None,
            r"Total Data (?:Rece?ie?ved|Transferred):\s*(?P<bytes_total>\S+) bytes\.?": None,
        }
        return {
            **{pattern: self.within(self.set_figures, "Summary") for pattern in summary},
            rf"([0-9]{{1,3}})%{{1,2}}(?: in)?\s+(\S+) {_SECS}": self.within(
                self.read_percentile, "Latency distribution"
            ),
            r"\[([0-9]{1,3})\]\s+(\S+) responses": self.within(self.add_status, "Status code distribution"),
            r"\[([0-9]{1,18})\]\s+(\S.*)": self.within(self.add_message, "Error distribution"),
        }

    def has_figures(self) -> bool:
        return bool(
            self.tokens.keys() & {"duration_s", "average"} or self.percentiles or self.statuses or self.messages
        )

    def read_percentile(self, match: re.Match[str]) -> None:
        time = parse_number(match[2])
        if match[1] != "0" or time != 0:  # printed for percentiles that need more requests
            self.add(self.percentiles, match[1], time, match[0])

    def result(self) -> LoadResult:
        is_counted, is_capped = self._is_counted(), self._is_capped()
        # Before 2016 a run without an answer printed its errors alone.
        is_known = is_counted or is_capped or (self.duration_s is None and "Error distribution" in self.sections)
        has_times = None not in (self.average, self.slowest, self.fastest) or not self.statuses
        return self.load_result(
            requests=self.counted if is_counted else None,
            latency=self._latency(is_capped=is_capped),
            errors=errors_of(self.messages) if is_known and not self.unread else Errors(),
            status=self.statuses,
            non_2xx=count_non_2xx(self.statuses) if is_counted else None,
            failed=self.messages.total() if is_known else None,
            complete=has_times and not self.unread and (is_counted or is_capped),
            notes=self._notes(is_capped=is_capped),
        )

    def _by_rate(self) -> tuple[float, float] | None:
        """Return (rate x time, its largest rounding error); None where one of them is missing."""
        if self.rps is None or self.duration_s is None:
            return None
        return self.rps * self.duration_s, 5e-5 * (self.rps + self.duration_s) + 1e-3

    def _is_counted(self) -> bool:
        """Return whether statuses and errors account for every request: in truncated text they do not."""
        expected = self._by_rate()
        if "Status code distribution" not in self.sections or expected is None:
            return False
        answered = sum(self.statuses.values())
        totals = (self.counted, answered if self.messages else math.nan)  # early versions rated answers alone
        return any(abs(total - expected[0]) <= expected[1] for total in totals)

    def _is_capped(self) -> bool:
        """Return whether hey dropped results: it counts a million statuses, and its rate implies more."""
        expected = self._by_rate()
        is_more = expected is None or expected[0] - self.counted > expected[1]
        return sum(self.statuses.values()) == MAX_RESULTS and is_more

    def _is_unmeasured(self) -> bool:
        """Return whether no request was answered: the average is then "NaN" and the extremes are zero."""
        return self.average is None and 0 in (self.slowest, self.fastest)

    def _latency(self, *, is_capped: bool) -> Latency:
        times = {"min": self.fastest, "mean": None if is_capped else self.average, "max": self.slowest}
        latency = latency_by_name(times | self.percentiles, "connect+request", step_s=1e-4)
        return without_times(latency) if self._is_unmeasured() else latency

    def _notes(self, *, is_capped: bool) -> Iterator[Note]:
        if is_capped:
            message = (
                f"hey keeps {MAX_RESULTS:,} results and there were more. Percentiles, extremes and status counts "
                "are of the first million; the average it prints is wrong and is not stated"
            )
            yield Note(code="hey-cap", message=message)
        if self._is_unmeasured():
            message = "no request was answered: hey's times of 0.0000 secs are not measured"
            yield Note(code="no-samples", message=message)
        if self.average is not None and self.average < 1e-3:  # noqa: PLR2004 - a step of 0.1 ms is more than a tenth
            yield Note(code="resolution", message="hey's times are rounded to 0.1 ms")


def parse(text: str) -> LoadResult:
    """Return the result that hey or boom printed. Raises ParseError for other text, and for several runs."""
    if _is_of_oha(text):
        raise not_output_of("hey", text.split("\n"))
    return _HeyReader().read(text)


_has_own = has_line(
    r"(?:req write|resp wait|resp read):[ \t]",
    r"(?:Total data|Total Data (?:Rece?ie?ved|Transferred)|Size/request|Response Size per [Rr]equest):[ \t]+[0-9]+ bytes",
    r"\[[0-9]+\][ \t]+(?:Get|Head|Post|Put|Patch|Delete) \"?https?://",
)
_begins = has_line(r"Summary:\n(?:[ \t]*\n)*[ \t]*Total:[ \t]")
FORMAT = OutputFormat(
    "hey",
    lambda text: _has_own(text) or (_begins(text) and not _is_of_oha(text)),
    parse,
    (line_with("Summary:"),),
)
