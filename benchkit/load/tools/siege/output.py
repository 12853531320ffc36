"""What siege prints, as text or as JSON, and a line of its log file, as a model in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.load.tools.text import Reader, Rules, count, not_output_of, number, several_runs
from benchkit.models.base import Frozen

_SIZES: Mapping[str, float] = {"bytes": 1.0, "KB": 1024.0, "MB": 1024.0**2, "GB": 1024.0**3}
_NOT_A_NUMBER = frozenset({"nan", "-nan", "inf", "-inf"})

_HITS = {"hits": 1.0}
_PLAIN = {"": 1.0}
_ELAPSED = {"secs": 1.0}
_MEAN = {"secs": 1.0, "ms": 1e-3}
_EXTREME = {"": 1.0, **_MEAN}
"""Times of transactions are milliseconds in the text since 4.1.7; before, they are seconds and these have no unit."""
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
"""The fields of the JSON, which are the labels of the text too, and the units that a label has in the text."""
_SECONDS_AND_MB = {"data_transferred": 1024.0**2, "throughput": 1024.0**2}
"""The units of the JSON and the log file, where they are not the base unit."""
_COUNTS = frozenset({"transactions", "successful_transactions", "failed_transactions"})

_LABELS = "|".join(field.capitalize().replace("_", " ") for field in _UNITS)
_LINE = re.compile(rf"({_LABELS}):\s*([^\s%]{{1,40}})(?:\s*([a-zA-Z%/]{{1,40}}))?")
_DAMAGED = re.compile(rf"(?:{_LABELS}):.*")
_JSON = re.compile(rf'"({"|".join(_UNITS)})"\s*:\s*([^\s,}}]+)(\s*[,}}\n])?')
_VERSION = re.compile(r"(?:\*\* )?SIEGE ([0-9]\S*)", re.IGNORECASE)
_USERS = re.compile(r"(?:\*\* )?Preparing ([0-9]+) concurrent users for battle\.")
_ABORTED = re.compile(r"\w+ aborted due to excessive socket failure.*")
_LOG_ROW = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},(.*)")
_LOG_FIELDS = tuple(
    field for field in _UNITS if field not in {"availability", "longest_transaction", "shortest_transaction"}
)


class SiegeOutput(Frozen):
    """What siege said of one run, in its own words; times in seconds, sizes in bytes ("MB" are 1024²)."""

    version: str | None = None
    users: int | None = None
    transactions: int | None = None
    availability: float | None = None
    """In per cent, as printed."""
    elapsed_time: float | None = None
    data_transferred: float | None = None
    response_time: float | None = None
    transaction_rate: float | None = None
    throughput: float | None = None
    concurrency: float | None = None
    """Sum of response times ÷ elapsed time: measured, not asked for."""
    successful_transactions: int | None = None
    failed_transactions: int | None = None
    longest_transaction: float | None = None
    shortest_transaction: float | None = None
    log_rows: int | None = None
    """Rows of the log file of which this is the last; None where it is no log file."""
    aborted: bool = False
    unread: tuple[str, ...] = ()
    """Lines that are siege's, with a figure that could not be read."""


def read(text: str) -> SiegeOutput:
    """`text` in siege's words. Raises ParseError where it holds no output of siege, or several."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "siege"

    def __init__(self) -> None:
        super().__init__()
        self.banner: dict[str, object] = {}
        self.milliseconds: bool | None = None
        self.log_row: re.Match[str] | None = None
        self.log_cut = False
        self.log_rows = 0
        self._rules: Rules = (
            (_LINE, self.line),
            (_DAMAGED, self.damaged),
            (_LOG_ROW, self.row),
            (_USERS, self.users),
            (_VERSION, self.version),
            (_ABORTED, self.aborted),
        )

    @property
    def rules(self) -> Rules:
        return self._rules

    def take(self, line: str) -> None:
        if not line.startswith(("HTTP/", '"')):  # a verbose run has a line a request; JSON is read as a whole
            super().take(line)

    def read(self, text: str) -> SiegeOutput:
        lines = self.scan(text)
        if '"transactions"' in text:
            self.json("\n".join(lines))
        if not self.found.values and self.log_row:
            self.last_row(self.log_row)
        if not self.found.values and "users" not in self.banner:
            raise not_output_of("siege", lines)
        return SiegeOutput.model_validate({**self.found.values, **self.banner, "unread": tuple(self.found.unread)})

    def line(self, match: re.Match[str]) -> None:
        field = match[1].lower().replace(" ", "_")
        unit = match[3] or ""
        if field == "response_time":
            self.milliseconds = {"ms": True, "secs": False}.get(unit)
        value = _value(field, match[2], _UNITS[field].get(unit))
        if value is None and match[2] in _NOT_A_NUMBER:  # of no transaction there is no mean
            return
        if unit == "" and _UNITS[field] is _EXTREME and self.milliseconds is not False:
            value = None  # a unit may have been lost
        if self.doubtful(match[0]) and not re.fullmatch(r"[0-9]+\.[0-9]{2}", match[2]):  # two decimals are all
            value = None
        self.found.once(match[0], **{field: value})

    def json(self, text: str) -> None:
        """The JSON form; where the text stands beside it, that is the finer one and must agree."""
        document: dict[str, object] = {}
        for match in _JSON.finditer(text):
            field = match[1]
            if field in document:
                raise several_runs("siege", match[0])
            whole = match[3] is not None
            document[field] = _value(field, match[2], _SECONDS_AND_MB.get(field, 1.0)) if whole else None
            if document[field] is None and match[2] not in _NOT_A_NUMBER:
                self.found.unread.append(match[0])
        if "transactions" in self.found.values:
            if self.found.values["transactions"] != document.get("transactions"):
                raise several_runs("siege", "transactions")
        else:
            self.found.values.update(document)

    def row(self, match: re.Match[str]) -> None:
        self.log_row, self.log_cut = match, self.doubtful(match[0])
        self.log_rows += 1

    def last_row(self, match: re.Match[str]) -> None:
        """The last run in a log file; a column that no comma or line end follows may lack digits."""
        cells = [cell.strip() for cell in match[1].split(",")]
        for field, cell in zip(_LOG_FIELDS, cells[:-1] if self.log_cut else cells, strict=False):
            value = _value(field, cell, _SECONDS_AND_MB.get(field, 1.0))
            self.found.values[field] = value
            if value is None and cell not in _NOT_A_NUMBER:
                self.found.unread.append(match[0])
        if self.log_cut or len(cells) != len(_LOG_FIELDS):
            self.found.unread.append(match[0])
        self.banner["log_rows"] = self.log_rows

    def users(self, match: re.Match[str]) -> None:
        self.banner["users"] = count(match[1])

    def version(self, match: re.Match[str]) -> None:
        self.banner["version"] = match[1]

    def aborted(self, _match: re.Match[str]) -> None:
        self.banner["aborted"] = True


def _value(field: str, token: str, unit: float | None) -> float | int | None:
    """A figure in the base unit; None where it is none, or its unit is not one of the field's."""
    if unit is None:
        return None
    if field in _COUNTS:
        return count(token)
    value = number(token)
    if value is None or (field == "availability" and value > 100):  # noqa: PLR2004 - per cent
        return None
    return float(f"{value * unit:.15g}")
