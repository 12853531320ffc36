"""Parser of the output of autocannon (3 to 8): its tables in any locale, and its JSON.

- "N requests" are those sent, from 1,000 on in thousands (`879k`); the exact number of answers is in the JSON alone.
- Req/Sec and Bytes/Sec are means of samples, one a second: "Avg" is the rate here. They are printed in the locale of
  the machine: `87,916.8`, `87.916,8`, `87 916,8`. Averages have at most two decimals, all other columns none.
- Times are whole milliseconds, cut off. With a rate (`-R`, `-r`) samples are added for coordinated omission, which the
  output does not say. Errors include timeouts; both have no answer. kB and MB are 1000 and 1000².
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

from pydantic import Field

from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, Reader, Times, within
from benchkit.loadtools.text import DECIMAL_SIZES, Count, Figure, has_any, line_with, parse_quantity
from benchkit.models.load_result import LoadResult

_BORDER = r"[│|]"
_LOCAL = re.compile(r"([0-9]+|[0-9]{1,3}(?:[.,][0-9]{2,3})*[.,][0-9]{3})(?:[.,]([0-9]{1,2}))?")
_OWN = line_with(
    rf"{_BORDER}\s*Latency\s*{_BORDER}\s*[0-9.]+ ?ms",
    r"Req/Bytes counts sampled ",
    r"[0-9]+k? requests in [0-9.]+s, [0-9.]+ [kMGTP]?B read",
)
_JSON = re.compile(r'"(?:p97_5|p2_5|mismatches|non2xx)"\s*:')


def parse_local(cell: str) -> float | None:
    """Return a number with at most two decimals, as any locale prints it; None for any other text.

    Three digits behind the last separator are thousands, one or two are decimals. Blanks and apostrophes group too.
    """
    match = _LOCAL.fullmatch(re.sub("['\u2019\\s]", "", cell))
    return float(f"{re.sub('[^0-9]', '', match[1])}.{match[2] or 0}") if match else None


def _count(token: str) -> int:
    return int(token.removesuffix("k")) * (1000 if token.endswith("k") else 1)


class _AutocannonReader(Reader):
    tool = "autocannon"
    covers = "request"
    corrected = None
    own = _OWN
    units: ClassVar[Mapping[str, float]] = {"": 1e-3, "ms": 1e-3}
    figures: ClassVar[Figures] = {
        "bytes_total": lambda token: parse_quantity(token, DECIMAL_SIZES),
        **dict.fromkeys(("requests", "failed", "errors_timeout", "samples"), _count),
    }

    samples: int | None = None
    """Number of seconds of which the rates are the means."""

    columns: Sequence[str] = ()

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"Running \S+(?: requests?)? test @ (?P<target>\S+).*": None,
            r"(?P<connections>[1-9][0-9]*) connections?(?: with [0-9]+ pipelining factor)?": None,
            r"(?P<threads>[0-9]+) workers?": None,
            rf"{_BORDER}\s*Stat\s*{_BORDER}(.*)": self.read_columns,
            rf"{_BORDER}\s*(Latency|Req/Sec|Bytes/Sec)\s*{_BORDER}(.*){_BORDER}": self.read_row,
            r"(?P<requests>[0-9]+k?) requests in (?P<duration_s>[0-9.]+)s, (?P<bytes_total>\S+ ?\w+) read": None,
            r"[0-9]+ 2xx responses, (?P<non_2xx>[0-9]+) non 2xx responses": None,
            r"(?P<failed>[0-9]+k?) errors \((?P<errors_timeout>[0-9]+k?) timeouts\)": None,
            r"# of samples: (?P<samples>[0-9]+)": None,
            rf"{_BORDER}\s*([1-5][0-9]{{2}})\s*{_BORDER}\s*([0-9]+)\s*{_BORDER}": self.add_status,
            rf"{_BORDER}\s*([0-9.]+)%?\s*{_BORDER}\s*([0-9.]+)\s*{_BORDER}": self.add_percentile,
        }

    def read_columns(self, match: re.Match[str]) -> None:
        self.columns = [cell.lower().removesuffix("%") for cell in re.sub(_BORDER, " ", match[1]).split()]

    def read_row(self, match: re.Match[str]) -> None:
        cells = [cell.strip() for cell in re.split(_BORDER, match[2])]
        named = dict(zip(self.columns, cells, strict=False))
        self.tokens[match[1]] = match[0]
        if match[1] == "Latency":
            self.times = {name: self.time(cell) for name, cell in named.items()}
        elif match[1] == "Req/Sec":
            self.rps = parse_local(named.get("avg", ""))
        else:
            self.bytes_per_s = parse_quantity(named.get("avg"), DECIMAL_SIZES)
        if len(cells) != len(self.columns) or (match[1] == "Req/Sec" and self.rps is None):
            self.unread.append(match[0])

    def result(self) -> LoadResult:
        is_whole = None not in (self.requests, self.rps) and "Latency" in self.tokens and not self.unread
        # More requests without an answer than connections: the line with their number is missing. At a target rate
        # one second of requests too many counts as sent (`initialiseClients` in lib/run.js).
        rounding = 500 if "k" in self.tokens.get("requests", "") else 1
        unanswered = (self.requests or 0) - (self.rps or 0) * (self.samples or 0)
        is_answered = self.samples is not None and unanswered <= (self.connections or 0) + rounding + (self.rps or 0)
        if is_whole:
            self.non_2xx = self.non_2xx or 0
        if is_whole and is_answered:
            self.failed, self.errors_timeout = self.failed or 0, self.errors_timeout or 0
        if self.failed is not None:
            self.errors_other = self.failed - (self.errors_timeout or 0)
        self.step_s = 1e-3
        return self.load_result(
            is_measured=bool(self.times.get("max") or self.rps),
            complete=is_whole and (self.samples is None or self.failed is not None or is_answered),
        )


class _StatusCount(JsonOutput):
    count: Annotated[int, Field(strict=False)]


class _Document(JsonOutput):
    """JSON of `--json`, by the names of the reader; times are milliseconds."""

    target: str | None = within("url", default=None)
    connections: Count
    threads: Count | None = within("workers", default=None)
    duration_s: Figure = within("duration")
    requests: Count | None = within("requests", "total", default=None)
    rps: Figure = within("requests", "average")
    times: Times = within("latency")
    bytes_total: Count | None = within("throughput", "total", default=None)
    bytes_per_s: Figure = within("throughput", "average")
    failed: Count = within("errors")
    errors_timeout: Count = within("timeouts", default=0)
    non_2xx: Count = within("non2xx", default=0)
    status_counts: dict[str, _StatusCount] = within("statusCodeStats", default={})


def parse(text: str) -> LoadResult:
    """Return the result that autocannon printed. Raises ParseError for other text, and for several runs."""
    reader = _AutocannonReader()
    if not _JSON.search(text):
        return reader.read(text)
    document = reader.set_document(text, _Document, 1e-3)
    reader.threads = document.threads or None
    reader.statuses = {code: each.count for code, each in document.status_counts.items() if each.count}
    return reader.result().model_copy(update={"complete": True})


FORMAT = OutputFormat("autocannon", has_any(_OWN, _JSON), parse)
