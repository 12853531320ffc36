"""Parser of siege's output (2 to 4.1): its text, its JSON and its log file.

Meaning of the figures, read from its source (src/main.c, data.c, log.c):

- Times are counted in ticks of the kernel (`times()`), which are 10 ms. They are printed in seconds, in the
  text since 4.1.7 in milliseconds. A "Response time" of 0.00 is below that, not zero. It includes connecting.
- "MB" is 1024². The log file truncates to whole megabytes.
- "Transactions" are answered requests (without those of a status above 399), "Successful" those of a good status.
  Availability is transactions ÷ (transactions + failed). "Concurrency" is the sum of times ÷ elapsed time.
- JSON (since 4.0.5) is printed on stdout, the text on stderr.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    BINARY_SIZES,
    NOT_A_NUMBER,
    TEXT_AFTER_LINE,
    has_line,
    line_with,
    not_output_of,
    of_unit,
    parse_count,
    parse_number,
    several_runs,
    without_times,
)
from benchkit.models.load_result import Latency, LoadResult, Note

TICK_S = 0.01
"""One tick of `times()` (sysconf _SC_CLK_TCK is 100 on Linux)."""

_SIZES: Mapping[str, float] = {"bytes": 1.0, **BINARY_SIZES}
_HITS = {"hits": 1.0}
_PLAIN = {"": 1.0}
_ELAPSED = {"secs": 1.0}
_MEAN = {"secs": 1.0, "ms": 1e-3}
_EXTREME = {"": 1.0, **_MEAN}
"""Times of transactions: milliseconds in the text since 4.1.7, seconds before; the extremes then have no unit."""
_UNITS: Mapping[str, Mapping[str, float]] = {
    "transactions": _HITS,
    "availability": {"%": 1.0},
    "elapsed_time": _ELAPSED,
    "data_transferred": _SIZES,
    "response_time": _MEAN,
    "transaction_rate": {"trans/sec": 1.0},
    "throughput": {f"{unit}/sec": size for unit, size in _SIZES.items()},
    "concurrency": _PLAIN,
    "successful_transactions": _PLAIN,
    "failed_transactions": _PLAIN,
    "longest_transaction": _EXTREME,
    "shortest_transaction": _EXTREME,
}
"""Fields of the JSON, whose names are also the labels of the text, each with its units in the text."""
_SECONDS_AND_MB = {"data_transferred": 1024.0**2, "throughput": 1024.0**2}
"""Units of the JSON and the log file that are not the base unit."""
_SHARED_FIELDS = frozenset({"availability", "throughput", "concurrency", "response_time"})
"""Fields whose labels other tools print too."""
_COUNTS = frozenset({"transactions", "successful_transactions", "failed_transactions"})

_LABELS = "|".join(field.capitalize().replace("_", " ") for field in _UNITS)
_LINE = re.compile(rf"({_LABELS}):\s*([^\s%]{{1,40}})(?:\s*([a-zA-Z%/]{{1,40}}))?")
_DAMAGED = re.compile(rf"(?:{_LABELS}):.*")
_JSON = re.compile(rf'"({"|".join(_UNITS)})"\s*:\s*([^\s,}}]+)(\s*[,}}\n])?')
_VERSION = re.compile(r"(?:\*\* )?SIEGE ([0-9]\S*)", re.IGNORECASE)
_USERS = re.compile(r"(?:\*\* )?Preparing ([0-9]+) concurrent users for battle\.")
_ABORTED = re.compile(r".*\baborted due to excessive socket failure.*")
_LOG_ROW = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},(.*)")
_LOG_FIELDS = tuple(
    field for field in _UNITS if field not in {"availability", "longest_transaction", "shortest_transaction"}
)


class _SiegeReader(Reader):
    """Figures of one run by siege's own labels; "MB" are 1024²."""

    tool = "siege"
    _behind_lines = TEXT_AFTER_LINE
    _prints_no_bar = True

    transactions: int | None = None
    availability: float | None = None
    """In per cent, as printed."""
    elapsed_time: float | None = None
    data_transferred: float | None = None
    response_time: float | None = None
    transaction_rate: float | None = None
    throughput: float | None = None
    failed_transactions: int | None = None
    longest_transaction: float | None = None
    shortest_transaction: float | None = None
    log_rows: int | None = None
    """Number of rows of the log file, of which this is the last; None where it is no log file."""
    aborted: bool = False

    def __init__(self) -> None:
        super().__init__()
        self.milliseconds: bool | None = None
        self.log_row: re.Match[str] | None = None
        self.is_log_row_cut = False
        self.rows_seen = 0
        self._rules = (
            (_LINE, self.read_figure),
            (_DAMAGED, self.add_unread),
            (_LOG_ROW, self.read_row),
            (_USERS, self.latest(connections=parse_count)),
            (_VERSION, self.latest(tool_version=str)),
            (_ABORTED, self.put(aborted=True)),
        )

    def read_line(self, line: str) -> None:
        if not line.startswith(("HTTP/", '"')):  # rows of a verbose run, one per request; JSON is read as a whole
            super().read_line(line)

    def read(self, text: str) -> LoadResult:
        lines = self.read_lines(text)
        if '"transactions"' in text:
            self.read_json("\n".join(lines))
        if not self.stated and self.log_row:
            self.read_last_row(self.log_row)
        if not self.has_figures():
            raise not_output_of("siege", lines)
        return self.result()

    def has_figures(self) -> bool:
        return bool(self.stated - _SHARED_FIELDS) or self.connections is not None

    def read_figure(self, match: re.Match[str]) -> None:
        field = match[1].lower().replace(" ", "_")
        unit = match[3] or ""
        if field == "response_time":
            self.milliseconds = {"ms": True, "secs": False}.get(unit)
        value = _value(field, match[2], _UNITS[field].get(unit))
        if value is None and match[2] in NOT_A_NUMBER:  # without a transaction there is no mean
            return
        if unit == "" and _UNITS[field] is _EXTREME and self.milliseconds is not False:
            value = None  # its unit may be in the missing end
        if self.ends_mid_number(match[0]) and not re.fullmatch(
            r"[0-9]+\.[0-9]{2}", match[2]
        ):  # it always prints two decimals
            value = None
        self.set_once(match[0], **{field: value})

    def read_json(self, text: str) -> None:
        """Read the JSON form. A summary in the text is used instead: it is finer, and must agree."""
        document: dict[str, object] = {}
        for match in _JSON.finditer(text):
            field = match[1]
            if field in document:
                raise several_runs("siege", match[0])
            whole = match[3] is not None
            document[field] = _value(field, match[2], _SECONDS_AND_MB.get(field, 1.0)) if whole else None
            if document[field] is None and match[2] not in NOT_A_NUMBER:
                self.unread.append(match[0])
        if "transactions" in self.stated:
            if self.transactions != document.get("transactions"):
                raise several_runs("siege", "transactions")
        else:
            self._set(document)

    def _set(self, figures: Mapping[str, object]) -> None:
        self.stated |= figures.keys()
        for field, figure in figures.items():
            setattr(self, field, figure)

    def read_row(self, match: re.Match[str]) -> None:
        self.log_row, self.is_log_row_cut, self.aborted = match, self.ends_mid_number(match[0]), False
        self.rows_seen += 1

    def read_last_row(self, match: re.Match[str]) -> None:
        """Read the last run in a log file; a column without a comma or line end after it may lack digits."""
        cells = [cell.strip() for cell in match[1].split(",")]
        for field, cell in zip(_LOG_FIELDS, cells[:-1] if self.is_log_row_cut else cells, strict=False):
            value = _value(field, cell, _SECONDS_AND_MB.get(field, 1.0))
            self._set({field: value})
            if value is None and cell not in NOT_A_NUMBER:
                self.unread.append(match[0])
        if self.is_log_row_cut or len(cells) < len(_LOG_FIELDS):  # authors add columns
            self.unread.append(match[0])
        self.log_rows = self.rows_seen

    def result(self) -> LoadResult:
        return self.load_result(
            duration_s=self.elapsed_time,
            requests=self.transactions,
            rps=self._measured_rate(self.transaction_rate),
            bytes_total=self.data_transferred,
            bytes_per_s=self._measured_rate(self.throughput),
            latency=self._latency(),
            failed=self.failed_transactions,
            availability=of_unit(self.availability, 0.01),
            complete=self._complete(),
            notes=self._notes(),
        )

    def _measured_rate(self, rate: float | None) -> float | None:
        """Return a rate, but None for the 0 that siege prints where it measured nothing."""
        return None if rate == 0 and self._too_fast() else rate

    def _too_fast(self) -> bool:
        """Return whether the elapsed time is printed as zero: below 10 ms siege prints rates of zero."""
        return not self.elapsed_time and self.transactions != 0

    def _latency(self) -> Latency:
        latency = Latency(
            min_s=self.shortest_transaction,
            mean_s=self.response_time,
            max_s=self.longest_transaction,
            resolution_s=TICK_S,
            covers="connect+request",
            corrected=False,
        )
        return latency if self.transactions else without_times(latency)  # none, or an unknown number

    def _complete(self) -> bool:
        """Return whether the run ended normally, and the text has all that siege always prints."""
        required = [self.transactions, self.elapsed_time, self.transaction_rate, self.failed_transactions]
        if self.log_rows is None:
            required += [self.availability, self.longest_transaction, self.shortest_transaction]
            required += [self.data_transferred, self.throughput]
            if self.transactions:
                required.append(self.response_time)
        return None not in required and not self.unread and not self.aborted

    def _notes(self) -> Iterator[Note]:
        yield Note(
            code="siege-resolution", message="siege counts times in steps of 10 ms; 0.00 means less than that, not zero"
        )
        if self.log_rows is not None:
            yield Note(
                code="siege-log",
                message=f"the last of {self.log_rows} runs in a log file, which truncates to whole megabytes",
            )
        if self._too_fast():
            yield Note(code="short-run", message="the run took less than 10 ms: siege's rates of 0.00 are not measured")
        if self.transactions == 0:
            yield Note(code="no-samples", message="no transaction: siege's times of 0.00 are not measured")
        if self.aborted:
            yield Note(code="aborted", message="siege aborted the run: too many sockets failed")


def _value(field: str, token: str, unit: float | None) -> float | int | None:
    """Return a figure in the base unit; None where it is no figure, or has a unit that the field never has."""
    if unit is None:
        return None
    if field in _COUNTS:
        return parse_count(token)
    value = parse_number(token)
    return None if field == "availability" and (value or 0) > 100 else of_unit(value, unit)  # noqa: PLR2004 - per cent


def parse(text: str) -> LoadResult:
    """Return the result that siege printed, or wrote to its log file.

    Raises ParseError for other text, and several runs. A log file has a row for every run: the last row is the result,
    and a note states it.
    """
    return _SiegeReader().read(text)


_MARKS = ("Transaction rate", "Longest transaction", "Shortest transaction", "Successful transactions", "Elapsed time")
FORMAT = OutputFormat(
    "siege",
    has_line(
        rf"(?:{'|'.join(_MARKS)}):\s",
        r"Transactions:\s+[0-9]+ hits",
        r"(?:\*\* )?SIEGE [0-9]",
        r"(?:\*\* )?Preparing [0-9]+ concurrent users for battle",
        "The server is now under siege",
        r"Date & Time,\s+Trans,\s+Elap Time,",
        r'\{?\s*"(?:elapsed_time|transaction_rate|(?:longest|shortest|successful|failed)_transactions?)"\s*:',
        rf"{_LOG_ROW.pattern[:-4]}(?:\s*[0-9.]+,){{{len(_LOG_FIELDS) - 1}}}\s*[0-9]+$",
    ),
    parse,
    (
        line_with(r"(?:\*\* )?SIEGE [0-9]"),
        line_with(r"Transactions:\s+[0-9]+ hits"),
        line_with(r"\{?\s*\"transactions\"\s*:"),
    ),
)
