"""Parser of h2load's output (nghttp2): its text, and the JSON of `--output-file`.

Meaning of the figures, read from its source (src/h2load.cc):

- "total" are the requests asked for, or those made in a run by time. Requests that a lost connection never sent are
  counted as failed and errored. The rate is of answered requests alone.
- Status counts are by class; "succeeded" are answers of status 200 to 399.
- "time for request" runs from sending to the end of the answer, without connecting. Its quantiles (median, p95, p99)
  are printed since 1.68, over at most a million samples drawn at random (`MAX_SAMPLES`).
- Since 1.69 the rows are called "request", "connect" and "TTFB". Over HTTP/3 there are rows on packets too.
- "time to 1st byte" (TTFB) runs from opening a connection to the first byte of its first answer.
- With a warm-up, "finished in" includes it, and all other figures are of the measured time alone.
- Lines of threads and clients may be torn apart, or filtered out by a harness: a text is whole with its last rows.
- Times in JSON are seconds, with all samples.
- Protocol and cipher are of the first client only.
- Times have two decimals in a unit that fits. K, M and G are 1024. Traffic includes headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchkit.loadtools.json_text import JsonOutput, read_document, within
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    BINARY_SIZES,
    SECONDS,
    Count,
    Figure,
    has_any,
    latency_by_name,
    line_with,
    of_unit,
    parse_count,
    parse_number,
    parse_quantity,
    parse_scaled,
    without_times,
)
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.models.protocol import HttpProtocol, Negotiated

_SPAWNING = re.compile(r"spawning thread #([0-9]+): ([0-9]+) (?:total client\(s\)\.|concurrent clients,).*")
_WARM_UP = re.compile(r"Timing-based test with ([0-9.]+)s of warm-up time and ([0-9.]+)s of main duration")
_FINISHED = re.compile(r"finished in ([^,]+), (\S+) req/s, (\S+)/s")
_FINISHED_OLD = re.compile(
    r"finished in ([0-9]{1,9}) sec, ([0-9]{1,3}) millisec and ([0-9]{1,3}) microsec, (\S+) req/s, (\S+) kbytes/s"
)
_REQUESTS = re.compile(
    r"requests: (\S+) total, (\S+) started, (\S+) done, (\S+) succeeded(?:, (\S+) failed)?(?:, (\S+) errored)?(?:, (\S+) timeout)?"
)
_STATUS = re.compile(r"status codes: (\S+) 2xx, (\S+) 3xx, (\S+) 4xx, (\S+) 5xx")
_TRAFFIC = re.compile(r"traffic: (?:(\S+) bytes total|(\S+)(?: \((\S+)\))? total),.*")
_COLUMNS = re.compile(r"min\s+max\s+(median\s+p95\s+p99\s+)?mean\s+sd(?:\s+\+/- sd)?")
_TIMES = re.compile(r"(?:time (?:for|to) )?(request|connect|1st byte|TTFB)\s*:\s*(\S.*)")
_FIRST_BYTE = {"1st byte": "first_byte", "TTFB": "first_byte"}
_STARTING = re.compile(r"starting benchmark\.\.\.")
_JSON = re.compile(r'"generator"\s*:\s*"h2load ')
_TLS = re.compile(r"(?:TLS )?(Protocol|Cipher): (\S+)")
_PROTOCOL = re.compile(r"Application protocol: (\S+)(?:\s+[^\w\s].*)?")
_DAMAGED = re.compile(r"(?:finished in|requests:|status codes:|traffic:) .*")


class _H2loadReader(Reader):
    tool = "h2load"

    protocol: str | None = None
    """Name in the handshake of TLS (ALPN), or h2c."""
    tls_protocol: str | None = None
    cipher: str | None = None
    finished_in: float | None = None
    main_duration: float | None = None
    """Measured time of a run with a warm-up, which `finished_in` includes."""
    done: int | None = None
    failed: int | None = None
    errored: int | None = None
    timeout: int | None = None
    status_2xx: int | None = None
    status_3xx: int | None = None
    status_4xx: int | None = None
    status_5xx: int | None = None
    request: Latency | None = None
    connect: Latency | None = None
    first_byte: Latency | None = None

    def __init__(self) -> None:
        super().__init__()
        self.has_beginning = False
        self.clients_of: dict[str, int] = {}
        """Number of clients by the number of their thread."""
        self.columns: tuple[str, ...] | None = None
        self._rules = (
            (_SPAWNING, self.read_spawning),
            (_STARTING, self.mark(has_beginning=True)),
            (_FINISHED, self.read_finished),
            (_FINISHED_OLD, self.read_finished_old),
            (_REQUESTS, self.read_requests),
            (_STATUS, self.read_status),
            (_TRAFFIC, self.read_traffic),
            (_COLUMNS, self.read_header),
            (_TIMES, self.read_times),
            (_PROTOCOL, self.read_protocol),
            (_TLS, self.read_tls),
            (_DAMAGED, self.add_unread),
        )

    def has_figures(self) -> bool:
        return bool(self.stated & {"finished_in", "requests", "status_2xx", "has_beginning"} or self.clients_of)

    def read_spawning(self, match: re.Match[str]) -> None:
        if (times := _WARM_UP.search(match[0])) and parse_number(times[1]):
            self.main_duration = parse_number(times[2])
        self.add_once(self.clients_of, match[1], parse_count(match[2]), match[0])

    def read_finished(self, match: re.Match[str]) -> None:
        self.set_once(
            match[0],
            finished_in=parse_quantity(match[1], SECONDS),
            rps=_rate(match[2]),
            bytes_per_s=parse_quantity(match[3], BINARY_SIZES),
        )

    def read_finished_old(self, match: re.Match[str]) -> None:
        seconds, milliseconds, microseconds = (int(part) for part in match.groups()[:3])
        self.set_once(
            match[0],
            finished_in=of_unit(seconds * 1_000_000 + milliseconds * 1000 + microseconds, 1e-6),
            rps=_rate(match[4]),
            bytes_per_s=of_unit(parse_number(match[5]), 1024),
        )

    def read_requests(self, match: re.Match[str]) -> None:
        names = ("requests", "started", "done", "succeeded", "failed", "errored", "timeout")
        self.set_once(
            match[0], **{name: parse_count(token) for name, token in zip(names, match.groups(), strict=True) if token}
        )

    def read_status(self, match: re.Match[str]) -> None:
        names = ("status_2xx", "status_3xx", "status_4xx", "status_5xx")
        self.set_once(match[0], **{name: parse_count(t) for name, t in zip(names, match.groups(), strict=True)})

    def read_traffic(self, match: re.Match[str]) -> None:
        exact = match[1] or match[3]
        self.set_once(match[0], bytes_total=parse_count(exact) if exact else parse_quantity(match[2], BINARY_SIZES))

    def read_header(self, match: re.Match[str]) -> None:
        self.columns = ("min", "max", *(("50", "95", "99") if match[1] else ()), "mean", "stdev")

    def read_times(self, match: re.Match[str]) -> None:
        *cells, within = match[2].split() if "%" in match[2] else [*match[2].split(), "%"]
        figures = [parse_scaled(cell, SECONDS) for cell in cells]
        row: Latency | None = None
        if self.columns and len(cells) == len(self.columns) and None not in figures and within.endswith("%"):
            known = [figure for figure in figures if figure]
            times = {name: figure[0] for name, figure in zip(self.columns, known, strict=True)}
            step = max(figure[1] for figure in known)
            row = latency_by_name(times, "request").model_copy(update={"resolution_s": step})
        self.set_once(match[0], **{_FIRST_BYTE.get(match[1], match[1]): row})

    def read_protocol(self, match: re.Match[str]) -> None:
        if not self.unterminated:
            self.protocol = self.protocol or match[1]

    def read_tls(self, match: re.Match[str]) -> None:
        if not self.unterminated:
            name = "cipher" if match[1] == "Cipher" else "tls_protocol"
            setattr(self, name, getattr(self, name) or match[2])

    def result(self) -> LoadResult:
        not_2xx = [n for n in (self.status_3xx, self.status_4xx, self.status_5xx) if n is not None]
        # A text without its end, or with a gap in the numbers of threads, may lack some.
        if "finished_in" in self.stated and max(map(int, self.clients_of), default=0) == len(self.clients_of) - 1:
            self.threads, self.connections = len(self.clients_of), sum(self.clients_of.values())
        return self.load_result(
            duration_s=self.finished_in if self.main_duration is None else self.main_duration,
            latency=self._latency(),
            connect_mean_s=_mean(self.connect),
            first_byte_mean_s=_mean(self.first_byte),
            errors=Errors(timeout=self.timeout, other=self._other()),
            non_2xx=sum(not_2xx) if not_2xx else None,
            failed=self.failed,
            complete=self._complete(),
            negotiated=self._negotiated(),
            notes=self._notes(),
        )

    def _negotiated(self) -> Negotiated | None:
        """Return what the first client negotiated; None where no connection was made."""
        if self.protocol is None:
            return None
        names: Mapping[str, HttpProtocol] = {"h2": "h2", "h2c": "h2c", "h3": "h3"}
        if self.tls_protocol or self.cipher:
            names = {"h2": "h2", "http/1.1": "https1", "h3": "h3"}
        elif self.connections is not None:  # the text has its beginning, where the lines on TLS would be
            names = {"h2c": "h2c", "http/1.1": "http1"}
        return Negotiated(
            protocol=names.get(self.protocol),
            tls_version=self.tls_protocol and self.tls_protocol.removeprefix("TLSv"),
            cipher=self.cipher,
        )

    def _other(self) -> int | None:
        """Return the requests without an answer that did not time out; "errored" includes both."""
        if self.errored is None:
            return None
        return max(0, self.errored - (self.timeout or 0))

    def _latency(self) -> Latency:
        row = self.request
        if row is None:
            return Latency(covers="request", corrected=False)
        return without_times(row) if self.done == 0 or row.max_s == 0 else row

    def _complete(self) -> bool:
        """Return whether the text has all that h2load prints (times since 0.7)."""
        totals = (self.finished_in, self.rps, self.requests, self.bytes_total)
        times = (self.request, self.connect, self.first_byte)
        return None not in (*totals, self.status_2xx, *times) and not self.unread

    def _notes(self) -> Iterator[Note]:
        if self.done == 0:
            yield Note(code="no-samples", message="no request was done: h2load's times of 0us are not measured")
        if self.errored:
            yield Note(
                code="h2load-errored", message="requests that a lost connection never sent are counted as failed too"
            )


def _rate(token: str) -> float | None:
    """Return a rate; C++ streams print large and small ones with an exponent, to six digits."""
    match = re.fullmatch(r"([0-9]\.[0-9]{1,5})e([+-])([0-9]{2})", token)
    return float(token) if match else parse_number(token)


class _Times(JsonOutput):
    min: Figure
    max: Figure
    median: Figure
    p95: Figure
    p99: Figure
    mean: Figure
    sd: Figure

    @property
    def latency(self) -> Latency:
        times = {"min": self.min, "mean": self.mean, "stdev": self.sd, "max": self.max}
        return latency_by_name({**times, "50": self.median, "95": self.p95, "99": self.p99}, "request")


class _Document(JsonOutput):
    """JSON of --output-file (`write_result` in src/h2load.cc), by the names of the reader; times are seconds."""

    generator: str = within("metadata", "generator")
    finished_in: Figure = within("measurements", "duration")
    rps: Figure = within("measurements", "request_per_second")
    bytes_per_s: Figure = within("measurements", "bytes_per_second")
    bytes_total: Count = within("measurements", "traffic", "total")
    requests: Count = within("measurements", "requests", "total")
    done: Count = within("measurements", "requests", "done")
    failed: Count = within("measurements", "requests", "failed")
    errored: Count = within("measurements", "requests", "errored")
    timeout: Count = within("measurements", "requests", "timeout")
    status_2xx: Count = within("measurements", "status_codes", "2xx")
    status_3xx: Count = within("measurements", "status_codes", "3xx")
    status_4xx: Count = within("measurements", "status_codes", "4xx")
    status_5xx: Count = within("measurements", "status_codes", "5xx")
    request: _Times = within("measurements", "performance", "request")
    connect: _Times = within("measurements", "performance", "connect")
    first_byte: _Times = within("measurements", "performance", "ttfb")


def _read_json(text: str) -> LoadResult:
    """Return the result of the JSON, by the rules of the text."""
    document, reader = read_document(text, _Document, "h2load"), _H2loadReader()
    for name, figure in document:
        setattr(reader, name, figure.latency if isinstance(figure, _Times) else figure)
    reader.tool_version = document.generator.rpartition("/")[2].split()[-1]
    return reader.result()


def parse(text: str) -> LoadResult:
    """Return the result that h2load printed or wrote. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) else _H2loadReader().read(text)


def _mean(row: Latency | None) -> float | None:
    """Return the mean of a row; None where all of it is 0, which h2load prints without any sample."""
    return row.mean_s if row is not None and row.max_s else None


_OWN = line_with(
    r"spawning thread #[0-9]+: [0-9]+ (?:total client|concurrent clients)",
    r"finished in \S+, \S+ req/s, \S+B/s",
    _FINISHED_OLD.pattern,
    r"requests: [0-9]+ total, [0-9]+ started, [0-9]+ done, [0-9]+ succeeded, [0-9]+ failed, [0-9]+ errored, [0-9]+ timeout",
    r"status codes: [0-9]+ 2xx, [0-9]+ 3xx, [0-9]+ 4xx, [0-9]+ 5xx$",
    r"traffic: .*\([0-9]+\) (?:total|headers|data)",
    r"time (?:for request|for connect|to 1st byte)\s*:",
    r"(?:request|connect|TTFB)\s*:\s+[0-9.]+[mun]?s\s+[0-9.]+[mun]?s\s",
    r"UDP datagram: [0-9]+ sent",
)


FORMAT = OutputFormat(
    "h2load",
    has_any(_OWN, _JSON),
    parse,
    (line_with("starting benchmark"), line_with("finished in "), line_with(r'\{"version":"v1","metadata":')),
)
