"""Parser of locust's figures (0.9 to 2.4x): `_stats.csv`, `_stats_history.csv`, and the tables that it prints.

Meaning of the figures, read from its source (stats.py):

- Times are milliseconds, from before a request to the end of its body, connecting included; a failed request has one
  too. Mean, minimum and maximum are exact (in the tables: whole milliseconds). For percentiles, times of 100 ms and
  more are rounded to two digits first, shorter ones to 1 ms. So "100%" may be above the maximum, and is not stated.
- The row "Aggregated" ("Total" before 0.14) is of all requests. Its rate is requests ÷ time from the start to the last
  request. A table that locust prints during a run has the rate of the last ten seconds. Only the last table, which
  percentiles follow, has the run's rate. Rates and percentiles of the history are of ten seconds too.
- A request failed by its status (400 and more: "other" here), its connection, or the script's own judgement.
- Average size is of the body.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from benchkit.errors import ParseError
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    MAX_LINE,
    all_of_unit,
    csv_rows,
    errors_of,
    has_line,
    implied_duration,
    latency_by_name,
    no_end_mark,
    parse_count,
    parse_number,
    several_runs,
    split_lines,
    unread_notes,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

_DISTRIBUTION = frozenset({"Name", "# requests", "50%"})
"""Columns of `_distribution.csv`."""
_WHOLE_RUN = frozenset({"Aggregated", "Total"})
_NO_TYPE = frozenset({"", "None", None})
_STARTING = re.compile(r".*\bStarting Locust (\S+)")
_TABLE = re.compile(r"(?:Type\s+)?Name\s+# reqs\s+# fails\s*(?:\|\s*)?(Avg\s+Min\s+Max\b.*)")
_FAILS = r"([0-9]{1,18})(?:\([0-9.]+%\)|(?=\s*\|))"
_ROW = re.compile(rf"(?:None\s+)?(?:Aggregated|Total)\s+([0-9]{{1,18}})\s+{_FAILS}\s*(.*)")
_ENTRY = re.compile(rf"(?:[A-Z]+\s+)?\S.*?\s+([0-9]{{1,18}})\s+{_FAILS}\s*(.*)")
"""A row of the requests of one name."""
_PERCENTILES = re.compile(r"(?:Type\s+)?Name\s+((?:# reqs\s+)?50%\s.*)")
_PERCENTILE_ROW = re.compile(r"(?:None\s+)?(?:Aggregated|Total)((?:\s+[0-9]{1,9}){4,20})")
_COLUMNS_OF_0_13 = ["reqs", "50%", "66%", "75%", "80%", "90%", "95%", "98%", "99%", "100%"]
"""Headings before 0.14. Rows of 0.13 have two figures more, of 99.9 % and 99.99 %, which have no heading."""
_ERROR = re.compile(r"([0-9]{1,18})\s+((?:[A-Z]+ )?\S.*)")
_ERRORS = re.compile(r"(?:# )?occurrences\s+Error")
_BY_STATUS = re.compile(r"HTTPError\(|BadStatusCode|\b[45][0-9]{2} (?:Client|Server) Error")
_JSON = re.compile(r'"num_none_requests"\s*:')
_USERS = re.compile(r".*All users spawned: \{.*\} \(([0-9]{1,9}) total users\)")

_ROUNDED = Note(
    code="rounding", message="locust rounds times of 100 ms and more to two digits before it takes percentiles"
)


class _Entry(NamedTuple):
    """The requests of one name in a table, and its figures by heading."""

    requests: int
    failed: int
    figures: Mapping[str, float]


class _LocustReader(Reader):
    """Figures of the tables that locust prints; times in seconds."""

    tool = "locust"

    def __init__(self) -> None:
        super().__init__()
        self.users: int | None = None
        self.columns: list[str] = []
        self.figures: dict[str, float] = {}
        """Figures of the last table, by its headings."""
        self.entries: list[_Entry] = []
        """The names of the current table."""
        self.counts: tuple[int, int] | None = None
        """Requests and failures of the last table."""
        self.percentile_columns: list[str] = []
        self.percentiles: dict[str, float] = {}
        """Percentiles of the last table, in milliseconds."""
        self.percentile_requests: int | None = None
        self.is_final = False
        """True where percentiles follow the last table."""
        self.errors: Counter[str] | None = None
        self._rules = (
            (_STARTING, self.read_starting),
            (_USERS, self.read_users),
            (_TABLE, self.read_table),
            (_PERCENTILES, self.read_percentiles),
            (_ERRORS, self.read_errors),
            (_ROW, self.read_row),
            (_PERCENTILE_ROW, self.read_percentile_row),
            (_ENTRY, self.read_entry),
        )

    def has_figures(self) -> bool:
        return self.counts is not None or bool(self.percentiles) or len(self.entries) == 1

    def read_line(self, line: str) -> None:
        if self.errors is not None and not self.unterminated and (match := _ERROR.fullmatch(line)):
            self.errors[match[2].strip()] += int(match[1])
        else:
            super().read_line(line)

    def read_starting(self, match: re.Match[str]) -> None:
        self.set_once(match[0], starting=True)
        self.tool_version = match[1]

    def read_users(self, match: re.Match[str]) -> None:
        self.users = max(self.users or 0, int(match[1]))

    def read_table(self, match: re.Match[str]) -> None:
        if self.is_final:
            raise several_runs("locust", match[0])
        self.columns, self.entries = match[1].replace("|", " ").split(), []

    def read_entry(self, match: re.Match[str]) -> None:
        figures = [parse_number(token) for token in match[3].replace("|", " ").split()]
        if not self.is_final and len(figures) == len(self.columns):
            known = {name: n for name, n in zip(self.columns, figures, strict=True) if n is not None}
            self.entries.append(_Entry(int(match[1]), int(match[2]), known))

    def read_row(self, match: re.Match[str]) -> None:
        tokens = match[3].replace("|", " ").split()
        figures = [parse_number(token) for token in tokens]
        if not self.columns or self.is_final:
            return
        counts = int(match[1]), int(match[2])
        if self.counts is not None and counts[0] < self.counts[0]:
            raise several_runs("locust", match[0])
        self.counts = counts
        self.figures = {}
        if len(tokens) == len(self.columns) and None not in figures and not self.unterminated:
            self.figures = {name: n for name, n in zip(self.columns, figures, strict=True) if n is not None}
        elif len(tokens) == 1 and figures[0] is not None and not self.unterminated:
            # Before 1.0 this row has only a rate behind its counts.
            self.figures = {"req/s": figures[0], **_times_of_all(self.entries, counts[0])}
        else:
            self.unread.append(match[0])

    def read_percentiles(self, match: re.Match[str]) -> None:
        if self.is_final:
            raise several_runs("locust", match[0])
        self.is_final = True
        self.percentile_columns = match[1].replace("# reqs", "reqs").split()

    def read_percentile_row(self, match: re.Match[str]) -> None:
        tokens = match[1].split()
        if self.percentile_columns == _COLUMNS_OF_0_13 and len(tokens) == len(_COLUMNS_OF_0_13) + 2:
            self.percentile_columns = [*_COLUMNS_OF_0_13[:-1], "99.9%", "99.99%", "100%"]
        if len(tokens) != len(self.percentile_columns) or self.unterminated:
            self.unread.append(match[0])
            return
        named = dict(zip(self.percentile_columns, tokens, strict=True))
        self.percentile_requests = parse_count(named.get("reqs"))
        self.percentiles = {
            name.removesuffix("%"): int(ms) for name, ms in named.items() if name not in {"reqs", "100%"}
        }

    def read_errors(self, _match: re.Match[str]) -> None:
        self.errors = Counter()

    def result(self) -> LoadResult:
        if self.counts is None and len(self.entries) == 1:
            self.counts, self.figures = self.entries[0][:2], dict(self.entries[0].figures)
        requests, failed = self.counts or (self.percentile_requests, None)
        figures = self.figures if requests else {}
        rate = self.figures.get("req/s") if self.is_final else None
        times = {"min": figures.get("Min"), "mean": figures.get("Avg"), "max": figures.get("Max")}
        times["50"] = figures.get("Med", figures.get("Median"))
        if requests or self.counts is None:
            times |= self.percentiles
        unanswered = {text: number for text, number in (self.errors or {}).items() if not _BY_STATUS.search(text)}
        counted = failed == 0 or (self.errors is not None and self.errors.total() == failed)
        return self.load_result(
            duration_s=implied_duration(requests, rate),
            requests=requests,
            rps=rate,
            users=self.users,
            latency=_latency(times).model_copy(update={"resolution_s": 1e-3 if figures else None}),
            errors=errors_of(unanswered, (failed or 0) - sum(unanswered.values())) if counted else Errors(),
            failed=failed,
            complete=not self.unread and self._has_end(counted=counted),
            notes=self._notes(),
        )

    def _has_end(self, *, counted: bool) -> bool:
        """Return whether nothing is missing: an excerpt, which lacks the first line, may lack tables too."""
        has_percentiles = self.is_final and (bool(self.percentiles) or self.counts == (0, 0))
        if self.tool_version is None:
            return has_percentiles or not self.is_final
        return has_percentiles and counted

    def _notes(self) -> Iterator[Note]:
        if self.percentiles:
            yield _ROUNDED
        if not self.is_final:
            yield Note(
                code="live-table",
                message="no percentiles follow the last table: its rate may be of ten seconds, and is not stated",
            )


def _times_of_all(entries: Sequence[_Entry], requests: int) -> dict[str, float]:
    """Return minimum, mean and maximum of all requests by those of each name; empty where a name is missing."""
    timed = [each for each in entries if each.requests and {"Min", "Avg", "Max"} <= each.figures.keys()]
    if sum(each.requests for each in timed) != requests or not requests:
        return {}
    return {
        "Min": min(each.figures["Min"] for each in timed),
        "Avg": float(f"{sum(each.requests * each.figures['Avg'] for each in timed) / requests:.12g}"),
        "Max": max(each.figures["Max"] for each in timed),
    }


def _of_stats(rows: list[Mapping[str, str]], *, unread: list[str]) -> LoadResult:
    """Return the result of `_stats.csv`: its row for all requests, or its only row."""
    whole = [row for row in rows if row["Name"] in _WHOLE_RUN and _first(row, "Type", "Method") in _NO_TYPE]
    if len(whole) > 1:
        raise several_runs("locust", ",".join(whole[1].values()))
    row = whole[0] if whole else {}
    requests, failed = _first(row, "Request Count", "# requests"), _first(row, "Failure Count", "# failures")
    figure = {name.lower(): parse_number(value) for name, value in row.items()}
    count = parse_count(requests)
    size = figure.get("average content size")
    latency = _latency(_times(figure, "") | _percentiles(row) if count else {})
    notes = [_ROUNDED] if latency.percentiles else []
    if not whole:
        notes.append(
            Note(
                code="no-total", message="the file has no row 'Aggregated': it has no figures of all requests together"
            )
        )
    return LoadResult(
        tool="locust",
        duration_s=implied_duration(count, figure.get("requests/s")),
        requests=count,
        rps=figure.get("requests/s"),
        bytes_total=None if size is None or count is None else float(round(size * count)),
        latency=latency,
        failed=parse_count(failed),
        complete=bool(whole) and not unread,
        notes=(*notes, *unread_notes(unread)),
    )


def _of_history(rows: list[Mapping[str, str]], *, unread: list[str]) -> LoadResult:
    """Return the result of `_stats_history.csv`: the totals of its last row for all requests."""
    whole = [row for row in rows if row["Name"] in _WHOLE_RUN and row["Type"] in _NO_TYPE]
    counts = [parse_count(row["Total Request Count"]) for row in whole]
    known = [number for number in counts if number is not None]
    if known != sorted(known):
        raise several_runs("locust", "a total that is below the one before it")
    row = whole[-1] if whole else {}
    figure = {name.lower(): parse_number(value) for name, value in row.items()}
    count = counts[-1] if counts else None
    size = figure.get("total average content size")
    users = [number for each in whole if (number := parse_count(each["User Count"])) is not None]
    return LoadResult(
        tool="locust",
        requests=count,
        users=max(users, default=None),
        bytes_total=None if size is None or count is None else float(round(size * count)),
        latency=_latency(_times(figure, "total ") if count else {}),
        failed=parse_count(row.get("Total Failure Count")),
        complete=bool(whole) and not unread,
        notes=(
            Note(
                code="history",
                message="rates and percentiles of a history are of ten seconds each: only its totals are stated",
            ),
            no_end_mark("a history of locust"),
            *unread_notes(unread),
        ),
    )


def _of_early_history(_rows: list[Mapping[str, str]], *, unread: list[str]) -> LoadResult:  # noqa: ARG001 - one shape
    raise ParseError("this is the history of locust before 1.0, which benchkit does not read", hint="give _stats.csv")


def _of_distribution(rows: list[Mapping[str, str]], *, unread: list[str]) -> LoadResult:
    """Return the result of `_distribution.csv` before 1.0, with the percentiles of each name."""
    whole = [row for row in rows if row["Name"].removeprefix("None ") in _WHOLE_RUN]
    if len(whole) > 1:
        raise several_runs("locust", ",".join(whole[1].values()))
    row = whole[0] if whole else {}
    return LoadResult(
        tool="locust",
        requests=parse_count(row.get("# requests")),
        latency=_latency(_percentiles(row)),
        complete=bool(whole) and not unread,
        notes=(_ROUNDED, *unread_notes(unread)),
    )


def _latency(times: Mapping[str, float | None]) -> Latency:
    """Return the latency of times in milliseconds, by the names of `latency_by_name`."""
    return latency_by_name(all_of_unit(times, 1e-3), "connect+request")


def _times(figure: Mapping[str, float | None], prefix: str) -> dict[str, float | None]:
    """Return the times in columns whose headings begin with `prefix`."""
    columns = {"min": "min", "mean": "average", "50": "median", "max": "max"}
    return {name: figure.get(f"{prefix}{column} response time") for name, column in columns.items()}


def _percentiles(row: Mapping[str, str]) -> dict[str, float | None]:
    stated = {name.removesuffix("%"): parse_number(value) for name, value in row.items() if name.endswith("%")}
    return {name: ms for name, ms in stated.items() if ms is not None and name != "100"}


def _first(row: Mapping[str, str], *names: str) -> str | None:
    return next((row[name] for name in names if name in row), None)


_TABLES: Sequence[tuple[frozenset[str], Callable[..., LoadResult]]] = (
    (frozenset({"Timestamp", "User Count", "Type", "Name", "Total Request Count"}), _of_history),
    (frozenset({"Name", "Request Count", "Failure Count"}), _of_stats),
    (frozenset({"Timestamp", "Name", "# requests"}), _of_early_history),
    (frozenset({"Name", "# requests", "# failures"}), _of_stats),
    (_DISTRIBUTION, _of_distribution),
)
"""Columns that a file has, and its reader."""


def _parse_csv(text: str) -> LoadResult | None:
    """Return the result of a CSV file of locust; None for other text."""
    lines = [line for line in split_lines(text) if line.strip() and len(line) <= MAX_LINE]
    rows = list(csv_rows(lines))
    header = [name.strip() for name in rows[0]] if rows else []
    read = next((read for columns, read in _TABLES if columns <= set(header)), None)
    if read is None:
        return None
    if any(row == rows[0] for row in rows[1:]):
        raise ParseError("two files of locust in one text", hint="parse each file separately")
    if not text.endswith("\n"):
        rows[-1][-1] = ""  # its last figure may lack digits
    end = next((number for number, row in enumerate(rows[1:], 1) if set(row) >= _DISTRIBUTION), len(rows))
    whole = [dict(zip(header, row, strict=True)) for row in rows[1:end] if len(row) == len(header)]
    for row in rows[end + 1 :]:  # the second file of versions before 1.0, with the percentiles of each name
        named = dict(zip(rows[end], row, strict=False))
        if named["Name"].removeprefix("None ") in _WHOLE_RUN:
            shares = {name: value for name, value in named.items() if name.endswith("%")}
            whole = [each | shares if each["Name"] in _WHOLE_RUN else each for each in whole]
    return read(whole, unread=[",".join(row) for row in rows[1:end] if len(row) != len(header)])


def parse(text: str) -> LoadResult:
    """Return the result of a file or of printed tables. Raises ParseError for other text, and for several runs."""
    if _JSON.search(text):
        raise ParseError(
            "this is the JSON of locust, which benchkit does not read", hint="give _stats.csv (--csv NAME)"
        )
    return _parse_csv(text) or _LocustReader().read(text)


_has_mark = has_line(
    r"(?:Type\s+)?Name\s+(?:# reqs\s+)?50%\s+66%\s",
    r"(?:Type\s+)?Name\s+# reqs\s+# fails\b",
    r"\"?(?:Type|Method)\"?,\"?Name\"?,\"?(?:Request Count|# requests)\"?,\"?(?:Failure Count|# failures)\"?,",
    r"\"?Name\"?,\"?# requests\"?,\"?50%\"?,",
    r"\"?Timestamp\"?,\"?User Count\"?,\"?Type\"?,\"?Name\"?,",
    r"\[.*\] \S+/INFO/locust\.",
)
FORMAT = OutputFormat("locust", lambda text: _has_mark(text) or _JSON.search(text) is not None, parse)
