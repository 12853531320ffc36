"""Parser of h2load's output (nghttp2).

Meaning of the figures, read from its source (src/h2load.cc):

- "total" are the requests asked for, or those made in a run by time. Requests that a lost connection never sent are
  counted as failed and errored. The rate is of answered requests alone.
- Status counts are by class; "succeeded" are answers of status 200 to 399.
- "time for request" runs from sending to the end of the answer, without connecting. Its quantiles (median, p95, p99)
  are printed since 1.68, over at most a million samples drawn at random (`MAX_SAMPLES`).
- "time to 1st byte" runs from opening a connection to the first byte of its first answer.
- With a warm-up, "finished in" includes it, and all other figures are of the measured time alone.
- Protocol and cipher are those of the first client alone.
- Times have two decimals in a unit that fits. K, M and G are 1024. Traffic includes headers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from benchkit.loadtools.text import (
    SECONDS,
    Reader,
    not_output_of,
    parse_count,
    parse_number,
    parse_scaled,
    several_runs,
    unread_notes,
    without_times,
)
from benchkit.models.base import Frozen
from benchkit.models.load_result import Errors, Latency, LoadResult, Note
from benchkit.models.protocol import HttpProtocol, Negotiated

_SIZES: Mapping[str, float] = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_SPAWNING = re.compile(r"spawning thread #([0-9]+): ([0-9]+) (?:total client\(s\)\.|concurrent clients,).*")
_WARM_UP = re.compile(r"Timing-based test with ([0-9.]+)s of warm-up time and ([0-9.]+)s of main duration")
_FINISHED = re.compile(r"finished in ([^,]+), (\S+) req/s, (\S+)/s")
_FINISHED_OLD = re.compile(
    r"finished in ([0-9]+) sec, ([0-9]+) millisec and ([0-9]+) microsec, (\S+) req/s, (\S+) kbytes/s"
)
_REQUESTS = re.compile(
    r"requests: (\S+) total, (\S+) started, (\S+) done, (\S+) succeeded, (\S+) failed, (\S+) errored(?:, (\S+) timeout)?"
)
_STATUS = re.compile(r"status codes: (\S+) 2xx, (\S+) 3xx, (\S+) 4xx, (\S+) 5xx")
_TRAFFIC = re.compile(r"traffic: (?:(\S+) bytes total|\S+ \((\S+)\) total),.*")
_COLUMNS = re.compile(r"min\s+max\s+(?:(median)\s+(p95)\s+(p99)\s+)?mean\s+sd\s+\+/- sd")
_TIMES = re.compile(r"(?:time (?:for|to) )?(request|connect|1st byte)\s*:\s*(\S.*)")
_ROWS = {"request": "request", "connect": "connect", "1st byte": "first_byte"}
_TLS = re.compile(r"(?:TLS )?(Protocol|Cipher): (\S+)")
_PROTOCOL = re.compile(r"Application protocol: (\S+)")
_DAMAGED = re.compile(r"(?:finished in|requests:|status codes:|traffic:) .*")


class Spread(Frozen):
    """Row of times in seconds; the step is that of its coarsest figure. Median, p95 and p99 are printed since 1.68."""

    min: float
    max: float
    median: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float
    sd: float
    step: float


class H2loadOutput(Frozen):
    """Fields of h2load's output by its own labels; times in seconds, sizes in bytes."""

    threads: int | None = None
    clients: int | None = None
    protocol: str | None = None
    """Name in the handshake of TLS (ALPN), or h2c."""
    tls_protocol: str | None = None
    cipher: str | None = None
    finished_in: float | None = None
    main_duration: float | None = None
    """Measured time of a run with a warm-up, which `finished_in` includes."""
    requests_per_s: float | None = None
    bytes_per_s: float | None = None
    total: int | None = None
    started: int | None = None
    done: int | None = None
    succeeded: int | None = None
    failed: int | None = None
    errored: int | None = None
    timeout: int | None = None
    status_2xx: int | None = None
    status_3xx: int | None = None
    status_4xx: int | None = None
    status_5xx: int | None = None
    traffic: int | None = None
    request: Spread | None = None
    connect: Spread | None = None
    first_byte: Spread | None = None
    unread: tuple[str, ...] = ()
    """Lines that h2load printed, with a figure that could not be read."""


def read(text: str) -> H2loadOutput:
    """Return the printed text as h2load's own fields. Raises ParseError for other text, and for several runs."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "h2load"

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[int, int] = {}
        self.columns: tuple[str, ...] | None = None
        self._rules = (
            (_SPAWNING, self.spawning),
            (_FINISHED, self.finished),
            (_FINISHED_OLD, self.finished_old),
            (_REQUESTS, self.requests),
            (_STATUS, self.status),
            (_TRAFFIC, self.traffic),
            (_COLUMNS, self.header),
            (_TIMES, self.times),
            (_PROTOCOL, self.protocol),
            (_TLS, self.tls),
            (_DAMAGED, self.add_unread),
        )

    def read(self, text: str) -> H2loadOutput:
        lines = self.read_lines(text)
        if not self.fields.values.keys() & {"finished_in", "total", "status_2xx"} and not self.clients:
            raise not_output_of("h2load", lines)
        if "finished_in" not in self.fields.values or not self.clients or max(self.clients) != len(self.clients) - 1:
            return self.output(H2loadOutput)  # some threads may be missing in the text
        return self.output(H2loadOutput, threads=len(self.clients), clients=sum(self.clients.values()))

    def spawning(self, match: re.Match[str]) -> None:
        thread, clients = parse_count(match[1]), parse_count(match[2])
        if (times := _WARM_UP.search(match[0])) and parse_number(times[1]):
            self.fields.values["main_duration"] = parse_number(times[2])
        if thread in self.clients:
            raise several_runs("h2load", match[0])
        if thread is None or clients is None:
            self.fields.unread.append(match[0])
        else:
            self.clients[thread] = clients

    def finished(self, match: re.Match[str]) -> None:
        taken, size = parse_scaled(match[1], SECONDS), parse_scaled(match[3], _SIZES)
        self.fields.set_once(
            match[0],
            finished_in=taken and taken[0],
            requests_per_s=_rate(match[2]),
            bytes_per_s=size and size[0],
        )

    def finished_old(self, match: re.Match[str]) -> None:
        seconds, milliseconds, microseconds = (parse_count(part) for part in match.groups()[:3])
        kbytes = parse_number(match[5])
        whole = None not in (seconds, milliseconds, microseconds)
        taken = (seconds or 0) + (milliseconds or 0) / 1e3 + (microseconds or 0) / 1e6
        self.fields.set_once(
            match[0],
            finished_in=float(f"{taken:.15g}") if whole else None,
            requests_per_s=_rate(match[4]),
            bytes_per_s=None if kbytes is None else kbytes * 1024,
        )

    def requests(self, match: re.Match[str]) -> None:
        names = ("total", "started", "done", "succeeded", "failed", "errored", "timeout")
        self.fields.set_once(
            match[0], **{name: parse_count(token) for name, token in zip(names, match.groups(), strict=True) if token}
        )

    def status(self, match: re.Match[str]) -> None:
        names = ("status_2xx", "status_3xx", "status_4xx", "status_5xx")
        self.fields.set_once(match[0], **{name: parse_count(t) for name, t in zip(names, match.groups(), strict=True)})

    def traffic(self, match: re.Match[str]) -> None:
        self.fields.set_once(match[0], traffic=parse_count(match[1] or match[2]))

    def header(self, match: re.Match[str]) -> None:
        self.columns = (
            ("min", "max", "median", "p95", "p99", "mean", "sd") if match[1] else ("min", "max", "mean", "sd")
        )

    def times(self, match: re.Match[str]) -> None:
        *cells, within = match[2].split()
        figures = [parse_scaled(cell, SECONDS) for cell in cells]
        spread: dict[str, float] | None = None
        if self.columns and len(cells) == len(self.columns) and None not in figures and within.endswith("%"):
            known = [figure for figure in figures if figure]
            spread = {name: figure[0] for name, figure in zip(self.columns, known, strict=True)}
            spread["step"] = max(figure[1] for figure in known)
        self.fields.set_once(match[0], **{_ROWS[match[1]]: spread})

    def protocol(self, match: re.Match[str]) -> None:
        if not self.unterminated:
            self.fields.values.setdefault("protocol", match[1])

    def tls(self, match: re.Match[str]) -> None:
        if not self.unterminated:
            self.fields.values.setdefault("cipher" if match[1] == "Cipher" else "tls_protocol", match[2])


def _rate(token: str) -> float | None:
    """Return a rate; C++ streams print large and small ones with an exponent, to six digits."""
    match = re.fullmatch(r"([0-9]\.[0-9]{1,5})e([+-])([0-9]{2})", token)
    return float(token) if match else parse_number(token)


def parse(text: str) -> LoadResult:
    """Return the result that h2load printed. Raises ParseError for other text, and for several runs."""
    return to_result(read(text))


def to_result(output: H2loadOutput) -> LoadResult:
    """Return h2load's fields as a LoadResult."""
    not_2xx = [n for n in (output.status_3xx, output.status_4xx, output.status_5xx) if n is not None]
    return LoadResult(
        tool="h2load",
        duration_s=output.finished_in if output.main_duration is None else output.main_duration,
        requests=output.total,
        rps=output.requests_per_s,
        connections=output.clients,
        threads=output.threads,
        bytes_total=output.traffic,
        bytes_per_s=output.bytes_per_s,
        latency=_latency(output),
        connect_mean_s=_mean(output.connect),
        first_byte_mean_s=_mean(output.first_byte),
        errors=Errors(timeout=output.timeout, other=_other(output)),
        non_2xx=sum(not_2xx) if not_2xx else None,
        failed=output.failed,
        complete=_complete(output),
        negotiated=_negotiated(output),
        notes=tuple(_notes(output)),
    )


def _negotiated(output: H2loadOutput) -> Negotiated | None:
    """Return what the first client negotiated; None where no connection was made."""
    if output.protocol is None:
        return None
    names: Mapping[str, HttpProtocol] = {"h2": "h2", "h2c": "h2c"}
    if output.tls_protocol or output.cipher:
        names = {"h2": "h2", "http/1.1": "https1"}
    elif output.clients is not None:  # the text has its beginning, where the lines on TLS would be
        names = {"h2c": "h2c", "http/1.1": "http1"}
    return Negotiated(
        protocol=names.get(output.protocol),
        tls_version=output.tls_protocol and output.tls_protocol.removeprefix("TLSv"),
        cipher=output.cipher,
    )


def _other(output: H2loadOutput) -> int | None:
    """Return the requests without an answer that did not time out; "errored" includes both."""
    if output.errored is None:
        return None
    return max(0, output.errored - (output.timeout or 0))


def _latency(output: H2loadOutput) -> Latency:
    row = output.request
    if row is None:
        return Latency(covers="request", corrected=False)
    latency = Latency(
        min_s=row.min,
        mean_s=row.mean,
        stdev_s=row.sd,
        max_s=row.max,
        percentiles={name: t for name, t in (("50", row.median), ("95", row.p95), ("99", row.p99)) if t is not None},
        resolution_s=row.step,
        covers="request",
        corrected=False,
    )
    return without_times(latency) if output.done == 0 or row.max == 0 else latency


def _mean(row: Spread | None) -> float | None:
    """Return the mean of a row; None where all of it is 0, which h2load prints without any sample."""
    return row.mean if row is not None and row.max else None


def _complete(output: H2loadOutput) -> bool:
    """Return whether the text has all that h2load prints (times since 0.7)."""
    totals = (output.clients, output.finished_in, output.requests_per_s, output.total, output.traffic)
    times = (output.request, output.connect, output.first_byte)
    return None not in (*totals, output.status_2xx, *times) and not output.unread


def _notes(output: H2loadOutput) -> Iterator[Note]:
    if output.done == 0:
        yield Note(code="no-samples", message="no request was done: h2load's times of 0us are not measured")
    if output.errored:
        yield Note(
            code="h2load-errored", message="requests that a lost connection never sent are counted as failed too"
        )
    yield from unread_notes(output.unread)
