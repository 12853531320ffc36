"""Parser of Gatling's figures (2 to 3.15), as it prints them.

- Figures are of all requests, failed ones (KO) included. A request also fails by a check of the script. Times are whole
  milliseconds, and include connecting.
- The rate is requests ÷ time, which is rounded up to whole seconds. "3s elapsed" is rounded down.
- Users arrive at rates (open) or are kept at a number (closed): the figures do not say which.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchkit.loadtools.reader import Action, OutputFormat, Reader
from benchkit.loadtools.text import (
    all_of_unit,
    errors_of,
    has_any,
    latency_by_name,
    line_with,
    parse_count,
    several_runs,
)
from benchkit.models.load_result import Errors, LoadResult, Note

_NUMBER = r"[0-9]{1,3}(?:,[0-9]{3})+(?:\.[0-9]{1,3})?|[0-9]{1,15}(?:\.[0-9]{1,3})?|-"
_PERCENTILE = re.compile(r"response time ([0-9]{1,3}(?:\.[0-9]{1,4})?)(?:st|nd|rd|th) percentile")
_NAMES: Mapping[str, str] = {
    "request count": "requests",
    "min response time": "min",
    "max response time": "max",
    "mean response time": "mean",
    "std deviation": "stdev",
    "response time std deviation": "stdev",
    "mean requests/sec": "rate",
    "mean throughput": "rate",
}
_CHECK = re.compile(r"status\.|regex|jsonPath|css|xpath|substring|bodyString|header|Time\.", re.IGNORECASE)
_MARK = line_with(r"-{4} Global Information -", r"> request count ", r"> Global {1,120}(?:\||\(OK=)")


def _number(token: str) -> float | None:
    return None if token == "-" else float(token.replace(",", ""))  # noqa: S105 - no such request


class _GatlingReader(Reader):
    """Figures that Gatling prints, by its own labels; times in milliseconds."""

    tool = "gatling"

    def __init__(self) -> None:
        super().__init__()
        self.section = ""
        self.rows: dict[str, float | None] = {}
        """Figures of all requests under "Global Information", and percentiles by their rank."""
        self.progress: tuple[int, int] | None = None
        """Requests and failures so far."""
        self.elapsed_s: float | None = None
        self.is_ended = False

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:]{8}.*?\s(?:([0-9]+)h )?(?:([0-9]+)m )?([0-9]+)s elapsed": self.read_elapsed,
            r"-{4} (.+?) -+(?:\|.*)?": self.read_section,
            r"={20,}": self.read_end,
            rf"> (\S.*?)\s*\|\s*({_NUMBER})\s*\|\s*(?:{_NUMBER})\s*\|\s*({_NUMBER})": self.read_row,
            rf"> (\S.*?)\s+({_NUMBER})\s+\(OK=(?:{_NUMBER})\s*KO=({_NUMBER})\s*\)": self.read_row,
            rf"> (\S.*?)\s+\(OK=({_NUMBER})\s*KO=({_NUMBER})\s*\)": self.read_old_progress,
            r"> (\S.*?)\s+([0-9][0-9,]*)\s+\(\s*[0-9.,]+ ?%\)": self.read_error,
            rf"> (?:{'|'.join(_NAMES)})\s.*": lambda match: self.unread.append(match[0]),
        }

    def has_figures(self) -> bool:
        return bool(self.rows) or self.progress is not None

    def read_elapsed(self, match: re.Match[str]) -> None:
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        self.elapsed_s = float(3600 * hours + 60 * minutes + seconds)

    def read_section(self, match: re.Match[str]) -> None:
        self.section = match[1]
        if self.section in {"Requests", "Global Information"}:
            self.messages.clear()

    def read_end(self, _match: re.Match[str]) -> None:
        self.is_ended, self.section = self.is_ended or bool(self.rows), ""

    def read_old_progress(self, match: re.Match[str]) -> None:
        if match[1] == "Global":
            ok, ko = (int(_number(token) or 0) for token in match.groups()[1:])
            self.progress = ok + ko, ko

    def read_row(self, match: re.Match[str]) -> None:
        label, total, ko = re.sub(r" \((?:ms|rps)\)$", "", match[1]), _number(match[2]), int(_number(match[3]) or 0)
        if self.section == "Requests" and label == "Global":
            self.progress = int(total or 0), ko
        percentile = _PERCENTILE.fullmatch(label)
        name = percentile[1] if percentile else _NAMES.get(label)
        if self.section != "Global Information" or name is None:
            return
        if name in self.rows:
            raise several_runs("gatling", match[0])
        self.rows[name] = total
        if name == "requests":
            self.failed = ko

    def read_error(self, match: re.Match[str]) -> None:
        if self.section == "Errors":
            self.messages[match[1]] += parse_count(match[2]) or 0

    def result(self) -> LoadResult:
        count, is_whole = self.rows.get("requests"), "rate" in self.rows
        requests = None if count is None else int(count)
        if not self.rows and self.progress is not None:
            requests, self.failed = self.progress
        checks = {text: number for text, number in self.messages.items() if _CHECK.match(text)}
        others = {text: number for text, number in self.messages.items() if text not in checks}
        is_counted = self.failed is not None and self.messages.total() == self.failed
        has_times = requests != 0 and any(self.rows.get(name) is not None for name in ("min", "mean", "max"))
        times = all_of_unit({name: each for name, each in self.rows.items() if name not in {"requests", "rate"}}, 1e-3)
        return self.load_result(
            requests=requests,
            rps=self.rows.get("rate"),
            duration_s=self.elapsed_s if self.rows else None,
            latency=latency_by_name(times, "connect+request", step_s=1e-3 if has_times else None),
            errors=errors_of(others, sum(checks.values())) if is_counted else Errors(),
            complete=is_whole and (self.is_ended or self.elapsed_s is None) and not self.unread,
            notes=self._notes(),
        )

    def _notes(self) -> Iterator[Note]:
        if self.failed:
            yield Note(code="failures-counted", message="failed requests (KO) are in Gatling's rate and latencies")
        if self.rows and self.elapsed_s is not None:
            yield Note(code="whole-seconds", message="the duration is rounded down to whole seconds")
        if not self.rows:
            yield Note(code="progress", message="the text has only what Gatling prints during a run")


def parse(text: str) -> LoadResult:
    """Return the result of a run. Raises ParseError for other text, and for several runs."""
    return _GatlingReader().read(text)


FORMAT = OutputFormat("gatling", has_any(_MARK), parse)
