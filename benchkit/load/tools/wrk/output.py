"""What wrk and wrk2 print, line by line, as a model in their own words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.load.tools.text import SECONDS, Reader, Rules, count, not_output_of, number, scaled, several_runs
from benchkit.models.base import Frozen

BYTES: Mapping[str, float] = {
    "B": 1,
    **{f"{prefix}B": 1024.0**power for power, prefix in enumerate("KMGTP", 1)},
    "kB": 1024,  # Hyperfoil's clone of wrk
}
_RATES: Mapping[str, float] = {"": 1, **{prefix: 1000.0**power for power, prefix in enumerate("kMGTP", 1)}}
_NOT_A_NUMBER = frozenset({"nan", "-nan", "inf", "-inf"})

_FIGURE = r"(-?(?:nan|inf)(?:us|ms|s)?|[0-9.]{1,24}[^\s0-9.%]{0,2})"
_SHARE = r"(-?nan|[0-9.]{1,24})%?"
_VERSION = re.compile(r"wrk\s+(\S+) \[\w+\] Copyright.*")
_RUNNING = re.compile(r"(?:Running \S+ test @|Making \S+ requests to) (\S.*)")
_CONNECTIONS = re.compile(r"(\S+) threads? and (\S+) connections?")
_COLUMNS = re.compile(r"Thread Stats\s+Avg\s+Stdev\s+(\S+)\s+\+/- Stdev")
_ROW = re.compile(  # 999.995 ms and more fills the third column and stands against the second
    rf"(Latency|Req/Sec)\s+{_FIGURE}\s+{_FIGURE}(?:\s+|(?=1000\.00ms)){_FIGURE}\s+{_SHARE}"
)
_DAMAGED_PERCENTILE = re.compile(r"[0-9.]{1,9}\s?%\s.*")
_DAMAGED = re.compile(
    r"(?:Latency\s(?!\s*Distribution)|Req/Sec\s|Socket errors:|Non-2xx or 3xx|(?:Requests|Transfer)/sec).*"
)
_CALIBRATION = re.compile(r"Thread calibration: mean lat.*")
_DISTRIBUTION = re.compile(r"Latency Distribution(?: \(HdrHistogram - (.*)\))?")
_PERCENTILE = re.compile(rf"([0-9]{{1,3}}(?:\.[0-9]{{1,6}})?)%\s+{_FIGURE}")
_REQUESTS = re.compile(r"(\S+) requests in (\S+),\s+(\S+) read")
_SOCKET_ERRORS = re.compile(r"Socket errors: connect (\S+), read (\S+), write (\S+), timeout (\S+)")
_NON_2XX = re.compile(r"Non-2xx or 3xx responses:\s*(\S+)")
_PER_SECOND = re.compile(r"(Requests|Transfer)/sec:\s*(\S+)")


class Spread(Frozen):
    """A row of "Thread Stats"; the step is the coarsest of its figures.

    Its third column is the maximum, but in DeathStarBench's wrk2 the 99th percentile.
    """

    avg: float | None
    stdev: float | None
    max: float | None = None
    p99: float | None = None
    within_stdev_pct: float | None
    step: float | None


class SocketErrors(Frozen):
    """The "Socket errors" line."""

    connect: int
    read: int
    write: int
    timeout: int


class WrkOutput(Frozen):
    """What wrk or wrk2 printed, in its own words; times in seconds, sizes in bytes."""

    version: str | None = None
    url: str | None = None
    threads: int | None = None
    connections: int | None = None
    calibrated: int = 0
    """Lines "Thread calibration": one a thread, in wrk2 alone."""
    latency: Spread | None = None
    req_sec: Spread | None = None
    distribution_of: str | None = None
    """What wrk2 says the distribution is of: "Recorded Latency"."""
    distribution: Mapping[str, float] = {}
    uncorrected: Mapping[str, float] = {}
    """wrk2's second distribution (`-U`)."""
    distribution_step: float | None = None
    requests: int | None = None
    duration_s: float | None = None
    bytes_read: float | None = None
    socket_errors: SocketErrors | None = None
    non_2xx_or_3xx: int | None = None
    requests_per_s: float | None = None
    transfer_per_s: float | None = None
    unread: tuple[str, ...] = ()
    """Lines that are wrk's, with a figure that could not be read."""
    ended: bool = False
    """Whether "Transfer/sec", wrk's last line, was reached."""


_MADE_BY_WRK = frozenset({"url", "threads", "latency", "requests", "socket_errors", "transfer_per_s"})
"""What no other tool prints in these words; "Requests/sec:" is hey's, too."""


def read(text: str) -> WrkOutput:
    """`text` in wrk's words. Raises ParseError where it holds no output of wrk, or several."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "wrk"

    def __init__(self) -> None:
        super().__init__()
        self.section: dict[str, float] | None = None
        self.step: float | None = None
        self.calibrated = 0
        self.third: str | None = None
        self.ended = False
        self._headings = (
            (_RUNNING, self.running),
            (_CONNECTIONS, self.connections),
        )
        self._rules = (
            *self._headings,
            (_PERCENTILE, self.percentile),
            (_COLUMNS, self.columns),
            (_ROW, self.row),
            (_REQUESTS, self.requests),
            (_SOCKET_ERRORS, self.socket_errors),
            (_NON_2XX, self.non_2xx),
            (_PER_SECOND, self.per_second),
            (_DISTRIBUTION, self.distribution),
            (_CALIBRATION, self.calibration),
            (_VERSION, self.version),
            (_DAMAGED, self.damaged),
            (_DAMAGED_PERCENTILE, self.damaged_percentile),
        )

    @property
    def rules(self) -> Rules:
        """Behind wrk's last line stands what a Lua script's done() prints, or another run."""
        return self._headings if self.ended else self._rules

    def read(self, text: str) -> WrkOutput:
        lines = self.scan(text)
        if not self.found.values.keys() & _MADE_BY_WRK:
            raise not_output_of("wrk", lines)
        return WrkOutput.model_validate(
            {
                **self.found.values,
                "calibrated": self.calibrated,
                "distribution_step": self.step,
                "unread": tuple(self.found.unread),
                "ended": self.ended,
            }
        )

    def running(self, match: re.Match[str]) -> None:
        self.found.once(match[0], url=None if self.cut else match[1].strip())

    def connections(self, match: re.Match[str]) -> None:
        self.found.once(match[0], threads=count(match[1]), connections=count(match[2]))

    def columns(self, match: re.Match[str]) -> None:
        self.third = match[1]

    def row(self, match: re.Match[str]) -> None:
        name, *tokens, within = match.groups()
        cells = [scaled(token, SECONDS if name == "Latency" else _RATES) for token in tokens]
        if tokens[0] == "1000.00m" and cells[2] and cells[2][0] < 60_000:  # noqa: PLR2004 - 1000 minutes in seconds
            cells[0] = (1.0, 1e-5)
        if any(cell is None and not _no_number(token) for cell, token in zip(cells, tokens, strict=True)):
            self.found.unread.append(match[0])
        avg, stdev, third = (cell and cell[0] for cell in cells)
        step = max((cell[1] for cell in cells if cell), default=None)
        named = {"Max": "max", "99%": "p99"}.get(self.third or "")
        spread = {"avg": avg, "stdev": stdev, "within_stdev_pct": number(within), "step": step}
        if named:
            spread[named] = third
        else:
            self.found.unread.append(match[0])
        self.found.once(match[0], **{"latency" if name == "Latency" else "req_sec": spread})

    def distribution(self, match: re.Match[str]) -> None:
        uncorrected = (match[1] or "").startswith("Uncorrected")
        self.section = {}
        self.found.once(match[0], **{"uncorrected" if uncorrected else "distribution": self.section})
        if match[1] and not uncorrected:
            self.found.values["distribution_of"] = match[1]

    def percentile(self, match: re.Match[str]) -> None:
        figure = scaled(match[2], SECONDS)
        key = f"{float(match[1]):g}"
        if self.section is None or _no_number(match[2]):
            return
        if key in self.section:
            raise several_runs("wrk", match[0])
        if figure is None or (self.cut and match[2].endswith("m")):  # "22.67m" may have been "22.67ms"
            self.found.unread.append(match[0])
            return
        self.section[key] = figure[0]
        self.step = max(self.step or 0.0, figure[1])

    def damaged_percentile(self, match: re.Match[str]) -> None:
        if self.section is not None:
            self.damaged(match)

    def requests(self, match: re.Match[str]) -> None:
        duration, size = scaled(match[2], SECONDS), scaled(match[3], BYTES)
        requests = None if self.headless else count(match[1])
        self.found.once(match[0], requests=requests, duration_s=duration and duration[0], bytes_read=size and size[0])

    def socket_errors(self, match: re.Match[str]) -> None:
        values = [count(token) for token in match.groups()]
        whole = not self.doubtful(match[0]) and None not in values
        named = dict(zip(SocketErrors.model_fields, values, strict=True))
        self.found.once(match[0], socket_errors=named if whole else None)

    def non_2xx(self, match: re.Match[str]) -> None:
        self.found.once(match[0], non_2xx_or_3xx=None if self.doubtful(match[0]) else count(match[1]))

    def per_second(self, match: re.Match[str]) -> None:
        token = match[2]
        if match[1] == "Transfer":
            self.ended = True
            size = scaled(token, BYTES)
            self.found.once(match[0], transfer_per_s=size and size[0])
        else:
            whole = not self.cut or re.search(r"\.[0-9]{2}$", token)  # always two decimals
            self.found.once(match[0], requests_per_s=number(token) if whole else None)

    def calibration(self, _match: re.Match[str]) -> None:
        self.calibrated += 1

    def version(self, match: re.Match[str]) -> None:
        self.found.values.setdefault("version", match[1])


def _no_number(token: str) -> bool:
    """Whether a figure is what C prints for no number; wrk2 puts a unit behind it."""
    return token.rstrip("ums") in _NOT_A_NUMBER
