"""Parser of the output of loadtest, the load tool on npm (1 to 8).

Meaning of the figures, read from its source (lib/latency.js, result.js; lib/loadtest.js before 6):

- Times of requests are rounded down to whole milliseconds, but the mean, which is rounded to 0.1 ms. They include
  connecting: without `--keepalive` every request has a connection of its own. A percentile is the first millisecond
  below which more than that share of the requests is; "false" stands for none.
- Completed requests include failed ones; the rate is completed requests ÷ time, rounded to a whole number.
- Errors are counted by status (400 and more), or by the name of an exception; "-1" stands for any of them.
- With a rate (`--rps`) requests are sent when due, whatever is unanswered; times count from sending.
- A script may print what its function returns (`totalRequests`, `meanLatencyMs`, ...), as JSON or as node prints an
  object. That has the same figures, and the shortest time.
- Early versions print "Concurrency level" and "Requests per second", and the total time twice.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    errors_of,
    has_line,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_number,
    several_runs,
)
from benchkit.models.load_result import Errors, LoadResult, Note

_LOGGED = re.compile(r"^(?:\[[^\]]{1,80}\]\s+)?(?:INFO|WARN|ERROR|NOTICE)\b\s*")


def _parse_seconds(token: str) -> float | None:
    return parse_number(token.removesuffix(" s")) if token.endswith(" s") else None


def _parse_mean(token: str) -> float | None:
    return of_unit(parse_number(token.removesuffix(" ms")), 1e-3) if token.endswith(" ms") else None


_FIGURES: Mapping[str, tuple[str, Callable[[str], object]]] = {
    "Target URL": ("target", str),
    "Target rps": ("target_rps", parse_number),
    "Requests per second": ("rps", parse_number),
    "Effective rps": ("rps", parse_number),
    "Concurrency level": ("connections", parse_count),
    "Concurrent clients": ("connections", parse_count),
    "Completed requests": ("requests", parse_count),
    "Total errors": ("errors", parse_count),
    "Total time": ("duration_s", _parse_seconds),
    "Mean latency": ("mean", _parse_mean),
}
"""Labels in front of figures, each with its attribute and parser."""
_LINE = re.compile(rf"({'|'.join(map(re.escape, _FIGURES))}):\s*(.*)")
_PERCENTILE = re.compile(r"(50|90|95|99|100)%\s+(\S+) ms(?: \(longest request\))?")
_ERROR = re.compile(r"(-?\w+):\s+([0-9]{1,18}) errors")
_SETTINGS_END = "Completed requests"
_KEY = r"""(?<!\w)["']?%s["']?\s*:\s*"""
_RETURNED = re.compile(_KEY % "totalRequests" + "[0-9]")
_MEAN_KEY = re.compile(_KEY % "meanLatencyMs")
_RETURNED_FIGURE = re.compile(_KEY % "([A-Za-z]+)" + r"""(?:(-?[0-9][0-9.e+-]*)|["']([^"'\n]*)["'])""")
_RETURNED_MAP = re.compile(_KEY % "(percentiles|errorCodes|histogramMs)" + r"\{([^{}]*)\}")
_PAIR = re.compile(_KEY % r"(-?\w+)" + "([0-9]{1,18})(?![0-9.])")


class _LoadtestReader(Reader):
    tool = "loadtest"

    target_rps: float | None = None
    errors: int | None = None
    mean: float | None = None
    longest: float | None = None
    shortest: float | None = None

    def __init__(self) -> None:
        super().__init__()
        self.seen: dict[str, str] = {}
        self.percentiles: dict[str, float] = {}
        self.kinds: Counter[str] = Counter()
        self._rules = ((_LINE, self.read_figure), (_PERCENTILE, self.read_percentile), (_ERROR, self.read_kind))

    def read(self, text: str) -> LoadResult:
        if _is_returned(text):
            self.read_returned(text)
            return self.result()
        return super().read(text)

    def has_figures(self) -> bool:
        return bool(self.stated & {"requests", "mean", "rps", "longest"})

    def read_line(self, line: str) -> None:
        super().read_line(_LOGGED.sub("", line))

    def read_returned(self, text: str) -> None:
        """Read the object that loadtest's function returns."""
        if len(_RETURNED.findall(text)) > 1:
            raise several_runs("loadtest", "an object")
        maps = {match[1]: dict(_PAIR.findall(match[2])) for match in _RETURNED_MAP.finditer(text)}
        figures = dict[str, str]()
        for match in _RETURNED_FIGURE.finditer(_RETURNED_MAP.sub("", text)):
            figures.setdefault(match[1], match[2] or match[3])  # the settings of the next run may follow
        number = {name: parse_number(token) for name, token in figures.items()}
        self.target = figures.get("url")
        self.connections = parse_count(figures.get("concurrency"))
        self.target_rps = number.get("requestsPerSecond")
        self.kinds.update({name: int(count) for name, count in maps.get("errorCodes", {}).items()})
        stated = {
            "requests": parse_count(figures.get("totalRequests")),
            "errors": parse_count(figures.get("totalErrors")),
            "duration_s": number.get("elapsedSeconds", number.get("totalTimeSeconds")),
            "mean": of_unit(number.get("meanLatencyMs"), 1e-3),
            "rps": number.get("effectiveRps", number.get("rps")),
            "longest": of_unit(number.get("maxLatencyMs"), 1e-3),
            "shortest": of_unit(number.get("minLatencyMs"), 1e-3),
        }
        for name, figure in stated.items():
            if figure is not None:
                self.set_once(name, **{name: figure})
        if self.requests:
            self.percentiles = {name: int(ms) / 1000 for name, ms in maps.get("percentiles", {}).items()}

    def read_figure(self, match: re.Match[str]) -> None:
        (name, parse_token), token = _FIGURES[match[1]], match[2].strip()
        if match[1] == "Requests per second" and _SETTINGS_END not in self.seen:
            name = "target_rps"  # early versions have the target rate, under this name, among the settings
        if self.seen.get(name) == token:
            return  # early versions print the total time twice
        self.seen |= {match[1]: token, name: token}
        if name == "mean" and token.startswith("NaN"):
            return  # no request was answered
        is_cut = self.unterminated and name not in {"duration_s", "mean"}  # these end with their unit
        self.set_once(match[0], **{name: None if is_cut else parse_token(token)})

    def read_percentile(self, match: re.Match[str]) -> None:
        ms = parse_count(match[2])
        if self.seen.get(match[1]) == match[0]:
            return  # versions before 6 print the longest twice where there were errors
        if match[1] in self.seen:
            raise several_runs("loadtest", match[0])
        self.seen[match[1]] = match[0]
        if match[1] == "100":
            self.set_once(match[0], longest=of_unit(ms, 1e-3))
        elif ms is not None:
            self.percentiles[match[1]] = ms / 1000
        elif match[2] != "false":
            self.unread.append(match[0])

    def read_kind(self, match: re.Match[str]) -> None:
        if "longest" in self.stated:
            self.kinds[match[1]] += int(match[2])

    @property
    def statuses(self) -> dict[str, int]:
        """Failed requests by status."""
        return {code: number for code, number in self.kinds.items() if re.fullmatch(r"[1-5][0-9]{2}", code)}

    def result(self) -> LoadResult:
        is_measured = self.requests != 0 and not self.seen.get("mean", "").startswith("NaN")
        others = {name: number for name, number in self.kinds.items() if name not in self.statuses}
        counted = self.kinds.total() == self.errors
        times = {"min": self.shortest, "mean": self.mean, "max": self.longest, **self.percentiles}
        latency = latency_by_name(times if is_measured else {}, "connect+request")
        return self.load_result(
            latency=latency.model_copy(update={"resolution_s": 1e-3}),
            errors=errors_of(others, sum(self.statuses.values())) if counted and "-1" not in others else Errors(),
            status=self.statuses,
            failed=self.errors,
            complete=not self.unread
            and {"requests", "duration_s", "rps", "longest"} <= self.stated
            and (counted or not self.errors or "-1" in others),
            notes=self._notes(),
        )

    def _notes(self) -> Iterator[Note]:
        yield Note(code="resolution", message="loadtest rounds times down to whole milliseconds, and the rate too")
        if self.target_rps:
            yield Note(
                code="open-loop", message=f"requests were due at {self.target_rps:g}/s; times count from sending"
            )
        if self.statuses:
            yield Note(code="status-of-errors", message="only the statuses of failed requests are counted")


def _is_returned(text: str) -> bool:
    return bool(_MEAN_KEY.search(text) and _RETURNED.search(text))


def parse(text: str) -> LoadResult:
    """Return the result that loadtest printed. Raises ParseError for other text, and for several runs."""
    return _LoadtestReader().read(text)


_has_mark = has_line(
    r"(?:INFO\s+)?(?:Completed requests|Total errors|Mean latency|Effective rps|Concurrent clients):(?:\s{2,}|\t)",
    r"(?:INFO\s+)?Requests: [0-9]+(?: \([0-9]+%\))?, requests per second: ",
    r"100%\s+[0-9]+ ms \(longest request\)$",
)
_SQUEEZED = tuple(line_with(rf"(?:INFO\s+)?{label}: [0-9]+$") for label in ("Completed requests", "Total errors"))
"""Both lines where a page shows several blanks as one: either may be another program's."""
FORMAT = OutputFormat(
    "loadtest",
    lambda text: _has_mark(text) or all(each.search(text) for each in _SQUEEZED) or _is_returned(text),
    parse,
    (
        line_with(r"(?:INFO\s+)?Target URL:\s", r"(?:[^\n{]{0,120}\{)?\s*[\"']?totalRequests[\"']?\s*:"),
        *(line_with(rf"(?:INFO\s+)?{label}:\s") for label in ("Completed requests", "Effective rps")),
    ),
)
