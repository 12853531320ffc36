"""Parser of the output of autocannon (3 to 8): its tables in any locale, and its JSON.

- "N requests" are those sent, from 1,000 on in thousands (`879k`); the exact number of answers is in the JSON alone.
- Req/Sec and Bytes/Sec are means of samples, one a second: "Avg" is the rate here. They are printed in the locale of
  the machine: `87,916.8`, `87.916,8`, `87 916,8`. Averages have at most two decimals, all other columns none.
- Times are whole milliseconds, cut off. With a rate (`-R`, `-r`) samples are added for coordinated omission, which the
  output does not say. Errors include timeouts; both have no answer. kB and MB are 1000 and 1000².
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, Reader, read_document, within
from benchkit.loadtools.text import (
    DECIMAL_SIZES,
    Count,
    Figure,
    all_of_unit,
    has_any,
    latency_by_name,
    line_with,
    parse_number,
    parse_quantity,
    without_times,
)
from benchkit.models.load_result import Errors, LoadResult, Note

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


def _size(token: str) -> float | None:
    return parse_quantity(token, DECIMAL_SIZES)


class _AutocannonReader(Reader):
    tool = "autocannon"
    own = _OWN
    figures: ClassVar[Figures] = {
        "bytes_total": _size,
        **dict.fromkeys(("requests", "failed", "timeouts", "samples", "pipelining"), _count),
    }

    pipelining: int | None = None
    timeouts: int | None = None
    samples: int | None = None
    """Number of seconds of which the rates are the means."""

    def __init__(self) -> None:
        super().__init__()
        self.columns: list[str] = []

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"Running \S+(?: requests?)? test @ (?P<target>\S+).*": None,
            r"(?P<connections>[1-9][0-9]*) connections?(?: with (?P<pipelining>[0-9]+) pipelining factor)?": None,
            r"(?P<threads>[0-9]+) workers?": None,
            rf"{_BORDER}\s*Stat\s*{_BORDER}(.*)": self.read_columns,
            rf"{_BORDER}\s*(Latency|Req/Sec|Bytes/Sec)\s*{_BORDER}(.*){_BORDER}": self.read_row,
            r"(?P<requests>[0-9]+k?) requests in (?P<duration_s>[0-9.]+)s, (?P<bytes_total>\S+ ?\w+) read": None,
            r"[0-9]+ 2xx responses, (?P<non_2xx>[0-9]+) non 2xx responses": None,
            r"(?P<failed>[0-9]+k?) errors \((?P<timeouts>[0-9]+k?) timeouts\)": None,
            r"# of samples: (?P<samples>[0-9]+)": None,
            rf"{_BORDER}\s*([1-5][0-9]{{2}})\s*{_BORDER}\s*([0-9]+)\s*{_BORDER}": self.add_status,
            rf"{_BORDER}\s*([0-9.]+)%?\s*{_BORDER}\s*([0-9.]+)\s*{_BORDER}": self.read_point,
        }

    def has_figures(self) -> bool:
        return bool(self.tokens.keys() - {"target"})

    def read_columns(self, match: re.Match[str]) -> None:
        self.columns = [cell.lower().removesuffix("%") for cell in re.sub(_BORDER, " ", match[1]).split()]

    def read_row(self, match: re.Match[str]) -> None:
        cells = [cell.strip() for cell in re.split(_BORDER, match[2])]
        named = dict(zip(self.columns, cells, strict=False))
        self.tokens[match[1]] = match[0]
        if match[1] == "Latency":
            numbers = {name: parse_number(re.sub(r" ?ms$", "", cell)) for name, cell in named.items()}
            self.times = dict(all_of_unit(numbers, 1e-3))
        elif match[1] == "Req/Sec":
            self.rps = parse_local(named.get("avg", ""))
        else:
            self.bytes_per_s = _size(named.get("avg", ""))
        if len(cells) != len(self.columns) or (match[1] == "Req/Sec" and self.rps is None):
            self.unread.append(match[0])

    def read_point(self, match: re.Match[str]) -> None:
        self.percentiles[match[1]] = float(match[2]) / 1000

    def result(self) -> LoadResult:
        is_whole = None not in (self.requests, self.rps) and "Latency" in self.tokens and not self.unread
        is_answered = self._is_answered()
        zero, no_errors = 0 if is_whole else None, 0 if is_whole and is_answered else None
        failed = no_errors if self.failed is None else self.failed
        timeouts = no_errors if self.timeouts is None else self.timeouts
        times = {**self.percentiles, **self.times, "mean": self.times.get("avg")}
        latency = latency_by_name(times, "request", step_s=1e-3, corrected=None)
        return self.load_result(
            latency=without_times(latency) if not latency.max_s and not self.rps else latency,
            status=self.statuses,
            errors=Errors(timeout=timeouts, other=None if failed is None else failed - (timeouts or 0)),
            non_2xx=zero if self.non_2xx is None else self.non_2xx,
            failed=failed,
            complete=is_whole and (self.samples is None or self.failed is not None or is_answered),
            notes=self._notes(),
        )

    def _is_answered(self) -> bool:
        """Return whether all requests sent have an answer or were in flight: else the line with errors is missing.

        At a target rate, autocannon counts one second of requests too many as sent (`initialiseClients` in lib/run.js).
        """
        if self.requests is None or self.rps is None or self.samples is None:
            return False
        in_flight = (self.connections or 0) * (self.pipelining or 1)
        rounding = 500 if self.tokens["requests"].endswith("k") else 1
        return self.requests - self.rps * self.samples <= in_flight + rounding + self.rps

    def _notes(self) -> Iterator[Note]:
        if (self.times.get("avg") or 1) < 0.01 and self.rps:  # noqa: PLR2004 - a step of 1 ms is more than a tenth
            yield Note(code="resolution", message="autocannon's times are whole milliseconds, cut off")
        if "k" in self.tokens.get("requests", ""):
            yield Note(code="autocannon-thousands", message="counts with a k are rounded to thousands by autocannon")
        if (self.pipelining or 1) > 1:
            message = f"each connection had up to {self.pipelining} requests in flight (pipelining)"
            yield Note(code="pipelining", message=message)


class _StatusCount(JsonOutput):
    count: int | str
    """Some documents have it as text."""


class _Document(JsonOutput):
    """JSON of `--json`, by the names of the reader; times are milliseconds."""

    target: str | None = within("url", default=None)
    connections: Count
    pipelining: Count = 1
    threads: Count | None = within("workers", default=None)
    duration_s: Figure = within("duration")
    requests: Count | None = within("requests", "total", default=None)
    rps: Figure = within("requests", "average")
    times: dict[str, Figure] = within("latency")
    bytes_total: Count | None = within("throughput", "total", default=None)
    bytes_per_s: Figure = within("throughput", "average")
    failed: Count = within("errors")
    timeouts: Count = 0
    non_2xx: Count = within("non2xx", default=0)
    statuses: dict[str, _StatusCount] = within("statusCodeStats", default={})


def _read_json(text: str) -> LoadResult:
    document, reader = read_document(text, _Document, "autocannon"), _AutocannonReader()
    vars(reader).update(document)
    times = {
        name[1:].replace("_", ".") if re.fullmatch(r"p[0-9_]+", name) else name: ms
        for name, ms in document.times.items()
    }
    named = {**times, "avg": times.get("average"), "stdev": times.get("stddev")}
    reader.times, reader.threads = dict(all_of_unit(named, 1e-3)), document.threads or None
    reader.statuses = {code: int(each.count) for code, each in document.statuses.items() if int(each.count)}
    return reader.result().model_copy(update={"complete": True})


def parse(text: str) -> LoadResult:
    """Return the result that autocannon printed. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) else _AutocannonReader().read(text)


FORMAT = OutputFormat("autocannon", has_any(_OWN, _JSON), parse)
