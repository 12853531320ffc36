"""Parser of locust's figures (1.0 to 2.4x): `_stats.csv`, and the tables that it prints.

- Times are milliseconds, from before a request to the end of its body, connecting included; a failed request has one
  too. For percentiles, times of 100 ms and more are rounded to two digits first, shorter ones to 1 ms. So "100%" may be
  above the maximum, and is not stated.
- The row "Aggregated" is of all requests. Its rate is requests ÷ time from the start to the last request. A table that
  locust prints during a run has the rate of the last ten seconds: only the last table, which percentiles follow, has
  the run's rate.
- A request failed by its status (400 and more: "other" here), its connection, or the script's own judgement.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from benchkit.errors import ParseError
from benchkit.loadtools.reader import Action, OutputFormat, Reader
from benchkit.loadtools.text import (
    all_of_unit,
    csv_rows,
    errors_of,
    has_line,
    implied_duration,
    latency_by_name,
    parse_count,
    parse_number,
    several_runs,
    unread_notes,
)
from benchkit.models.load_result import Errors, LoadResult

_WHOLE_RUN = frozenset({"Aggregated", "Total"})
_BY_STATUS = re.compile(r"HTTPError\(|BadStatusCode|\b[45][0-9]{2} (?:Client|Server) Error")
_CSV = re.compile(r'"?Type"?,"?Name"?,"?Request Count"?,"?Failure Count"?,')


class _LocustReader(Reader):
    """Figures of the tables that locust prints; times in milliseconds."""

    tool = "locust"

    columns: Sequence[str] = ()
    row: Mapping[str, float | None] = {}
    """Figures of all requests in the last table, by its headings."""
    is_final = False
    """True where percentiles follow the last table."""

    def lines(self) -> Mapping[str, Action | None]:
        aggregated = r"(?:Aggregated|Total)"
        return {
            r".*\bStarting Locust (?P<tool_version>\S+)": None,
            r".*All users spawned: \{.*\} \(([0-9]{1,9}) total users\)": self.read_users,
            r"(?:Type\s+)?Name\s+# reqs\s+# fails\s*(?:\|\s*)?(Avg\s+Min\s+Max\b.*)": self.read_columns,
            r"(?:Type\s+)?Name\s+((?:# reqs\s+)?50%\s.*)": self.read_ranks,
            rf"{aggregated}\s+([0-9]{{1,18}})\s+([0-9]{{1,18}})\([0-9.]+%\)\s*(.*)": self.read_row,
            rf"{aggregated}((?:\s+[0-9]{{1,9}}){{4,20}})": self.read_percentiles,
            r"(?P<report># occurrences)\s+Error": None,
            r"([0-9]{1,18})\s+((?:[A-Z]+ )?\S.*)": self.read_error,
        }

    def has_figures(self) -> bool:
        return self.requests is not None or bool(self.percentiles)

    def read_users(self, match: re.Match[str]) -> None:
        self.users = max(self.users or 0, int(match[1]))

    def read_columns(self, match: re.Match[str]) -> None:
        if self.is_final:
            raise several_runs("locust", match[0])
        self.columns = match[1].replace("|", " ").split()

    def read_row(self, match: re.Match[str]) -> None:
        figures = [parse_number(token) for token in match[3].replace("|", " ").split()]
        if int(match[1]) < (self.requests or 0):
            raise several_runs("locust", match[0])
        self.requests, self.failed = int(match[1]), int(match[2])
        self.row = dict(zip(self.columns, figures, strict=False))
        if len(figures) != len(self.columns) or None in figures or self.is_last:
            self.row = {}
            self.unread.append(match[0])

    def read_ranks(self, match: re.Match[str]) -> None:
        self.is_final, self.columns = True, match[1].replace("# reqs", "reqs").split()

    def read_percentiles(self, match: re.Match[str]) -> None:
        tokens = match[1].split()
        if len(tokens) != len(self.columns):
            self.unread.append(match[0])
        named = {name.removesuffix("%"): float(ms) for name, ms in zip(self.columns, tokens, strict=False)}
        self.requests = int(named.get("reqs", 0)) if self.requests is None else self.requests
        self.percentiles = {name: ms for name, ms in named.items() if name not in {"reqs", "100"}}

    def read_error(self, match: re.Match[str]) -> None:
        if "report" in self.tokens and not self.is_last:
            self.messages[match[2].strip()] += int(match[1])

    def result(self) -> LoadResult:
        rate = self.row.get("req/s") if self.is_final else None
        unanswered = {text: number for text, number in self.messages.items() if not _BY_STATUS.search(text)}
        is_counted = self.failed == 0 or ("report" in self.tokens and self.messages.total() == self.failed)
        others = (self.failed or 0) - sum(unanswered.values())
        times = all_of_unit({**self.row, **self.percentiles} if self.requests else {}, 1e-3)
        return self.load_result(
            duration_s=implied_duration(self.requests, rate),
            rps=rate,
            latency=latency_by_name(times, "connect+request", step_s=1e-3 if self.row and self.requests else None),
            errors=errors_of(unanswered, others) if is_counted else Errors(),
            complete=self.is_final and is_counted and not self.unread,
        )


def _read_csv(lines: Sequence[str]) -> LoadResult:
    header, *rows = csv_rows(lines)
    if header in rows:
        raise ParseError("two files of locust in one text", hint="parse each file separately")
    whole = [dict(zip(header, row, strict=True)) for row in rows if len(row) == len(header)]
    row = next((each for each in whole if each["Name"] in _WHOLE_RUN), {})
    figure = {name: parse_number(value) for name, value in row.items()}
    requests, size = parse_count(row.get("Request Count")), figure.get("Average Content Size")
    times = {name.removesuffix(" Response Time"): ms for name, ms in figure.items() if name != "100%"}
    unread = [",".join(each) for each in rows if len(each) != len(header)]
    return LoadResult(
        tool="locust",
        duration_s=implied_duration(requests, figure.get("Requests/s")),
        requests=requests,
        rps=figure.get("Requests/s"),
        bytes_total=None if size is None or requests is None else float(round(size * requests)),
        latency=latency_by_name(all_of_unit(times if requests else {}, 1e-3), "connect+request"),
        failed=parse_count(row.get("Failure Count")),
        complete=bool(row) and not unread,
        notes=tuple(unread_notes(unread)),
    )


def parse(text: str) -> LoadResult:
    """Return the result of a file or of printed tables. Raises ParseError for other text, and for several runs."""
    heading = _CSV.search(text)
    lines = [line for line in text[heading.start() :].split("\n") if line.strip()] if heading else []
    return _read_csv(lines) if lines else _LocustReader().read(text)


FORMAT = OutputFormat(
    "locust",
    has_line(
        r"(?:Type\s+)?Name\s+(?:# reqs\s+)?50%\s+66%\s",
        r"(?:Type\s+)?Name\s+# reqs\s+# fails\b",
        _CSV.pattern,
        r"\[.*\] \S+/INFO/locust\.",
    ),
    parse,
)
