"""What ab prints, and the files of its `-e` and `-g`, as models in their own words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.load.tools.text import Action, Reader, Rules, count, not_output_of, number, several_runs
from benchkit.models.base import Frozen

_VERSION = re.compile(r"This is ApacheBench, Version (\S+).*")
_TEXTS = re.compile(r"(Server Hostname|Document Path|SSL/TLS Protocol):\s*(.*)")
_COUNTS = re.compile(
    r"(Server Port|Concurrency Level|Complete requests|Failed requests|Write errors|Non-2xx responses"
    r"|Keep-Alive requests):\s*(\S+)"
)
_SIZES = re.compile(r"(Total transferred|HTML transferred):\s*(\S+) bytes")
_TAKEN = re.compile(r"Time taken for tests:\s*(\S+) seconds")
_BREAKDOWN = re.compile(r"\(Connect: (\S+), (?:Receive: (\S+), )?Length: (\S+), Exceptions: (\S+)\)")
_RATE = re.compile(r"Requests per second:\s*(\S+) \[#/sec\] \(mean\)")
_PER_REQUEST = re.compile(r"Time per request:\s*(\S+) \[ms\] \((mean)(, across all concurrent requests)?\)")
_TRANSFER = re.compile(r"Transfer rate:\s*(\S+) (?:\[Kbytes/sec\]|kb/s) received")
_COLUMNS = re.compile(r"min\s+(mean\[\+/-sd\]\s+median|avg)\s+max")
_TOTAL = re.compile(r"Total:((?:\s+[0-9.]{1,20}){3,5})")
_PERCENTILE = re.compile(r"([0-9]{1,3})%\s+(\S+)(\s+\((?:longest|last) request\)?)?")
_COMPLETED = re.compile(r"Completed [0-9]+ requests")
_FINISHED = re.compile(r"Finished [0-9]+ requests")
_ABORTED = re.compile(
    r"(?:Benchmarking .{1,300}\(be patient\)\.*)?((?:apr_|ssl |SSL |socket|connect)[^:]*: .* \([0-9]+\)|Test aborted after .*)"
)
_INTERRUPT = re.compile(r"\^C|Benchmarking .{1,300}\(be patient\)\.{3,}(?:\^C)?")
_SUM = re.compile(r"Total of (\S+) requests completed")
_DAMAGED = re.compile(
    r"(?:Server Port|Concurrency Level|Complete requests|Failed requests|Write errors|Non-2xx responses"
    r"|Keep-Alive requests|Total transferred|HTML transferred|Time taken for tests|Requests per second"
    r"|Time per request|Transfer rate|Total|\(Connect): .*"
)
PERCENTAGES = frozenset({"50", "66", "75", "80", "90", "95", "98", "99", "100"})
"""The rows of "Percentage of the requests served" (`percs` in ab.c)."""
_MADE_BY_AB = frozenset(
    {
        "version",
        "concurrency_level",
        "time_taken_s",
        "complete_requests",
        "completed_before_abort",
        "failed_requests",
        "requests_per_second",
        "time_per_request_s",
        "time_per_request_all_s",
        "transfer_rate",
    }
)


class Spread(Frozen):
    """The Total row of "Connection Times (ms)", in seconds; "-S" leaves deviation and median out."""

    min: float
    mean: float
    sd: float | None
    median: float | None
    max: float


class Breakdown(Frozen):
    """The line below "Failed requests"; versions before 2.3 have no "Receive"."""

    connect: int
    receive: int | None
    length: int
    exceptions: int


class AbOutput(Frozen):
    """What ab printed, in its own words; times in seconds, sizes in bytes ("Kbytes" are 1024)."""

    version: str | None = None
    server_hostname: str | None = None
    server_port: int | None = None
    document_path: str | None = None
    ssl_tls_protocol: str | None = None
    concurrency_level: int | None = None
    time_taken_s: float | None = None
    time_taken_decimals: str = ""
    """The digits after the point, as printed: version 2.0 does not pad its microseconds."""
    complete_requests: int | None = None
    failed_requests: int | None = None
    breakdown: Breakdown | None = None
    write_errors: int | None = None
    non_2xx_responses: int | None = None
    keep_alive_requests: int | None = None
    total_transferred: int | None = None
    html_transferred: int | None = None
    requests_per_second: float | None = None
    time_per_request_s: float | None = None
    time_per_request_all_s: float | None = None
    transfer_rate: float | None = None
    total: Spread | None = None
    percentages: Mapping[str, float] = {}
    progress: bool = False
    """Whether lines "Completed … requests" stand there."""
    finished: bool = False
    interrupt: bool = False
    """Whether a terminal's ^C stands there, or the dots of a quiet run (`-q`) without "done"."""
    aborted: str | None = None
    """The error that ended the run."""
    completed_before_abort: int | None = None
    unread: tuple[str, ...] = ()
    """Lines that are ab's, with a figure that could not be read."""


def read(text: str) -> AbOutput:
    """`text` in ab's words. Raises ParseError where it holds no output of ab, or several."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "ab"

    def __init__(self) -> None:
        super().__init__()
        self.percentages: dict[str, float] = {}
        self.columns: str | None = None
        self.flags: dict[str, object] = {}
        self._rules: Rules = (
            (_PERCENTILE, self.percentile),
            (_COUNTS, self.counts),
            (_TAKEN, self.taken),
            (_SIZES, self.sizes),
            (_RATE, self.rate),
            (_PER_REQUEST, self.per_request),
            (_TRANSFER, self.transfer),
            (_COLUMNS, self.header),
            (_TOTAL, self.total),
            (_BREAKDOWN, self.breakdown),
            (_SUM, self.sum),
            (_COMPLETED, self.flag("progress")),
            (_FINISHED, self.flag("finished")),
            (_INTERRUPT, self.flag("interrupt")),
            (_VERSION, self.version),
            (_TEXTS, self.texts),
            (_ABORTED, self.aborted),
            (_DAMAGED, self.damaged),
        )

    @property
    def rules(self) -> Rules:
        return self._rules

    def read(self, text: str) -> AbOutput:
        lines = self.scan(text)
        if not self.found.values.keys() & _MADE_BY_AB:
            raise not_output_of("ab", lines)
        return AbOutput.model_validate(
            {**self.found.values, **self.flags, "percentages": self.percentages, "unread": tuple(self.found.unread)}
        )

    def flag(self, name: str) -> Action:
        def up(_match: re.Match[str]) -> None:
            self.flags[name] = True

        return up

    def version(self, match: re.Match[str]) -> None:
        self.found.once(match[0], version=match[1])

    def texts(self, match: re.Match[str]) -> None:
        if not self.cut:
            self.found.once(match[0], **{_field(match[1]): match[2].strip()})

    def counts(self, match: re.Match[str]) -> None:
        self.found.once(match[0], **{_field(match[1]): None if self.doubtful(match[0]) else count(match[2])})

    def sizes(self, match: re.Match[str]) -> None:
        self.found.once(match[0], **{_field(match[1]): count(match[2])})

    def taken(self, match: re.Match[str]) -> None:
        self.found.once(match[0], time_taken_s=number(match[1]), time_taken_decimals=match[1].partition(".")[2])

    def rate(self, match: re.Match[str]) -> None:
        self.found.once(match[0], requests_per_second=number(match[1]))

    def per_request(self, match: re.Match[str]) -> None:
        self.found.once(match[0], **{"time_per_request_all_s" if match[3] else "time_per_request_s": _ms(match[1])})

    def transfer(self, match: re.Match[str]) -> None:
        kbytes = number(match[1])
        self.found.once(match[0], transfer_rate=None if kbytes is None else kbytes * 1024)

    def header(self, match: re.Match[str]) -> None:
        self.columns = match[1]

    def total(self, match: re.Match[str]) -> None:
        names = ("min", "mean", "max") if self.columns == "avg" else ("min", "mean", "sd", "median", "max")
        times = [_ms(token) for token in match[1].split()]
        whole = len(times) == len(names) and None not in times and not self.doubtful(match[0])
        spread = {"sd": None, "median": None, **dict(zip(names, times, strict=False))}
        self.found.once(match[0], total=spread if whole else None)

    def breakdown(self, match: re.Match[str]) -> None:
        values = [token if token is None else count(token) for token in match.groups()]
        whole = None not in (values[0], values[2], values[3]) and (match[2] is None or values[1] is not None)
        named = dict(zip(Breakdown.model_fields, values, strict=True))
        self.found.once(match[0], breakdown=named if whole else None)

    def percentile(self, match: re.Match[str]) -> None:
        time = None if self.doubtful(match[0]) or match[1] not in PERCENTAGES else _ms(match[2])
        if match[1] in self.percentages:
            raise several_runs("ab", match[0])
        if time is None:
            self.found.unread.append(match[0])
        else:
            self.percentages[match[1]] = time

    def sum(self, match: re.Match[str]) -> None:
        self.found.once(match[0], completed_before_abort=count(match[1]))

    def aborted(self, match: re.Match[str]) -> None:
        self.flags.setdefault("aborted", match[1])


def _ms(token: str) -> float | None:
    """Milliseconds in seconds."""
    value = number(token)
    return None if value is None else float(f"{value / 1000:.15g}")


def _field(label: str) -> str:
    """The model's field of one of ab's labels: "Non-2xx responses" → non_2xx_responses."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower())
