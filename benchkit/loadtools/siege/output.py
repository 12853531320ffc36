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
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, OutputFormat, Reader
from benchkit.loadtools.text import (
    BINARY_SIZES,
    has_line,
    is_not_a_number,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_number,
    parse_quantity,
    several_runs,
    without_times,
)
from benchkit.models.load_result import Latency, LoadResult, Note

TICK_S = 0.01
"""One tick of `times()` (sysconf _SC_CLK_TCK is 100 on Linux)."""
_MEGA = 1024.0**2

_TIMES: Mapping[str, float] = {"secs": 1.0, "ms": 1e-3}


def _size(token: str) -> float | None:
    return parse_quantity(token.removesuffix("/sec"), BINARY_SIZES)


def _percent(token: str) -> float | None:
    share = of_unit(parse_number(token), 0.01)
    return share if share is None or share <= 1 else None


def _time(token: str) -> float | None:
    return parse_quantity(token, _TIMES)


class _SiegeReader(Reader):
    """Figures of one run; "MB" are 1024²."""

    tool = "siege"
    figures: ClassVar[Figures] = {
        "availability": _percent,
        "bytes_total": _size,
        "bytes_per_s": _size,
        **dict.fromkeys(("mean", "longest", "shortest"), _time),
    }

    availability: float | None = None
    mean: float | None = None
    longest: float | None = None
    shortest: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.unit = "ms"
        """Unit of the response time; the extremes have none before 4.1.7."""
        self.log_rows: list[list[str]] = []
        self.is_aborted = False

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"Transactions:\s*(?P<requests>\S+)(?:\s+hits)?": None,
            r"Availability:\s*(?P<availability>\S+?)\s*%": None,
            r"Elapsed time:\s*(?P<duration_s>\S+) secs": None,
            r"Data transferred:\s*(?P<bytes_total>\S+\s*\w+)": None,
            r"Response time:\s*(?P<mean>\S+\s*(?:secs|ms))": self.read_mean,
            r"Transaction rate:\s*(?P<rps>\S+) trans/sec": None,
            r"Throughput:\s*(?P<bytes_per_s>\S+\s*\w+/sec)": None,
            r"Failed transactions:\s*(?P<failed>\S+)": None,
            r"(Longest|Shortest) transaction:\s*([0-9.]+)\s*(secs|ms|)": self.read_extreme,
            r"(?:Transactions|Elapsed time|Transaction rate|Longest transaction):.*": self.unread_line,
            r"\{?\s*\"?(transactions|availability|elapsed_time|data_transferred|response_time|transaction_rate|throughput"
            r"|failed_transactions|longest_transaction|shortest_transaction)\"\s*:\s*([^\s,}]+)\s*[,}]?": self.read_json,
            r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},(.*)": self.read_row,
            r"(?:\*\* )?Preparing (?P<connections>[0-9]+) concurrent users for battle\.": None,
            r"(?:\*\* )?(?:SIEGE|Siege) (?P<tool_version>[0-9]\S*).*": None,
            r".*\baborted due to excessive socket failure.*": lambda _match: setattr(self, "is_aborted", True),
        }

    def has_figures(self) -> bool:
        return bool(self.tokens.keys() - {"availability", "mean", "bytes_per_s", "tool_version"} or self.log_rows)

    def unread_line(self, match: re.Match[str]) -> None:
        self.unread.append(match[0])

    def read_mean(self, match: re.Match[str]) -> None:
        number, self.unit = match["mean"].split()
        if not is_not_a_number(number):  # without a transaction there is no mean
            self.set_figures(match)

    def read_extreme(self, match: re.Match[str]) -> None:
        name, token = match[1].lower(), f"{match[2]}{match[3] or self.unit}"
        if self.tokens.get(name, token) != token:
            raise several_runs("siege", match[0])
        self.tokens[name] = token
        is_cut = self.is_cut(match[0]) or (self.unit == "ms" and not match[3])  # its unit may be in the missing end
        setattr(self, name, None if is_cut else _time(token))
        if is_cut:
            self.unread.append(match[0])

    def read_json(self, match: re.Match[str]) -> None:
        """Read a figure of the JSON, which is in seconds and MB. A summary in the text is finer, and must agree."""
        names = {
            "transactions": "requests",
            "elapsed_time": "duration_s",
            "data_transferred": "bytes_total",
            "response_time": "mean",
            "transaction_rate": "rps",
            "throughput": "bytes_per_s",
            "failed_transactions": "failed",
            "longest_transaction": "longest",
            "shortest_transaction": "shortest",
        }
        name, token = names.get(match[1], match[1]), match[2]
        if name in self.tokens:
            if name == "requests" and self.tokens[name] != token:
                raise several_runs("siege", match[0])
            return
        parse_figure = parse_count if name in {"requests", "failed"} else parse_number
        value = None if self.is_last else parse_figure(token)
        unit = {"availability": 0.01, "bytes_total": _MEGA, "bytes_per_s": _MEGA}.get(name, 1.0)
        self.tokens[name] = token
        setattr(self, name, value if isinstance(value, int) else of_unit(value, unit))
        if value is None and not is_not_a_number(token):
            self.unread.append(match[0])

    def read_row(self, match: re.Match[str]) -> None:
        self.log_rows.append([cell.strip() for cell in match[1].split(",")])
        self.is_aborted = False

    def read_last_row(self) -> None:
        """Read the last run in a log file; all of its columns are needed, as the last one may lack digits."""
        requests, elapsed, data, mean, rate, throughput, _, _, failed, *_ = [*self.log_rows[-1], *[""] * 9]
        self.requests, self.failed = parse_count(requests), parse_count(failed)
        self.duration_s, self.rps, self.mean = map(parse_number, (elapsed, rate, mean))
        self.bytes_total, self.bytes_per_s = (of_unit(parse_number(cell), _MEGA) for cell in (data, throughput))

    def result(self) -> LoadResult:
        if is_log := bool(self.log_rows) and "requests" not in self.tokens:
            self.read_last_row()
        required = [self.requests, self.duration_s, self.rps, self.failed]
        if not is_log:
            required += [self.availability, self.longest, self.shortest, self.bytes_total, self.bytes_per_s]
            required += [self.mean] if self.requests else []
        rates = {} if not self._is_too_fast() else {"rps": self.rps or None, "bytes_per_s": self.bytes_per_s or None}
        return self.load_result(
            **rates,
            latency=self._latency(),
            availability=self.availability,
            complete=None not in required and not self.unread and not self.is_aborted,
            notes=self._notes(is_log=is_log),
        )

    def _is_too_fast(self) -> bool:
        """Return whether the elapsed time is printed as zero: below 10 ms siege prints rates of zero."""
        return not self.duration_s and self.requests != 0

    def _latency(self) -> Latency:
        times = {"min": self.shortest, "mean": self.mean, "max": self.longest}
        latency = latency_by_name(times, "connect+request", step_s=TICK_S)
        return latency if self.requests else without_times(latency)  # none, or an unknown number

    def _notes(self, *, is_log: bool) -> Iterator[Note]:
        message = "siege counts times in steps of 10 ms; 0.00 means less than that, not zero"
        yield Note(code="siege-resolution", message=message)
        if is_log:
            message = f"the last of {len(self.log_rows)} runs in a log file, which truncates to whole megabytes"
            yield Note(code="siege-log", message=message)
        if self._is_too_fast():
            yield Note(code="short-run", message="the run took less than 10 ms: siege's rates of 0.00 are not measured")
        if self.requests == 0:
            yield Note(code="no-samples", message="no transaction: siege's times of 0.00 are not measured")
        if self.is_aborted:
            yield Note(code="aborted", message="siege aborted the run: too many sockets failed")


def parse(text: str) -> LoadResult:
    """Return the result that siege printed, or the last one in its log file.

    Raises ParseError for other text, and several runs.
    """
    return _SiegeReader().read(text)


FORMAT = OutputFormat(
    "siege",
    has_line(
        r"(?:Transaction rate|(?:Longest|Shortest|Successful) transactions?|Elapsed time):\s",
        r"Transactions:\s+[0-9]+ hits",
        r"(?:\*\* )?SIEGE [0-9]",
        r"(?:\*\* )?Preparing [0-9]+ concurrent users for battle",
        "The server is now under siege",
        r"Date & Time,\s+Trans,\s+Elap Time,",
        r'\{?\s*"(?:elapsed_time|transaction_rate|(?:longest|shortest|successful|failed)_transactions?)"\s*:',
        r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2},(?:\s*[0-9.]+,){8}\s*[0-9]+$",
    ),
    parse,
    (
        line_with(r"(?:\*\* )?SIEGE [0-9]"),
        line_with(r"Transactions:\s+[0-9]+ hits"),
        line_with(r"\{?\s*\"transactions\"\s*:"),
    ),
)
