"""What h2load prints, as a model in its own words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from benchkit.load.tools.text import SECONDS, Reader, Rules, count, not_output_of, number, scaled, several_runs
from benchkit.models.base import Frozen

_SIZES: Mapping[str, float] = {"B": 1, "KB": 1024, "MB": 1024**2, "GB": 1024**3}
_SPAWNING = re.compile(r"spawning thread #([0-9]+): ([0-9]+) (?:total client\(s\)\.|concurrent clients,).*")
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
_TIMES = re.compile(r"(?:time for )?(request|connect)\s*:\s*(\S.*)")
_PROTOCOL = re.compile(r"Application protocol: (\S+)")
_DAMAGED = re.compile(r"(?:finished in|requests:|status codes:|traffic:) .*")


class Spread(Frozen):
    """A row of times in seconds; the step is the coarsest of its figures. Median, p95 and p99 since 1.68."""

    min: float
    max: float
    median: float | None = None
    p95: float | None = None
    p99: float | None = None
    mean: float
    sd: float
    step: float


class H2loadOutput(Frozen):
    """What h2load printed, in its own words; times in seconds, sizes in bytes."""

    threads: int | None = None
    clients: int | None = None
    protocol: str | None = None
    finished_in: float | None = None
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
    unread: tuple[str, ...] = ()
    """Lines that are h2load's, with a figure that could not be read."""


def read(text: str) -> H2loadOutput:
    """`text` in h2load's words. Raises ParseError where it holds no output of h2load, or several."""
    return _Reader().read(text)


class _Reader(Reader):
    tool = "h2load"

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[int, int] = {}
        self.columns: tuple[str, ...] | None = None
        self._rules: Rules = (
            (_SPAWNING, self.spawning),
            (_FINISHED, self.finished),
            (_FINISHED_OLD, self.finished_old),
            (_REQUESTS, self.requests),
            (_STATUS, self.status),
            (_TRAFFIC, self.traffic),
            (_COLUMNS, self.header),
            (_TIMES, self.times),
            (_PROTOCOL, self.protocol),
            (_DAMAGED, self.damaged),
        )

    @property
    def rules(self) -> Rules:
        return self._rules

    def read(self, text: str) -> H2loadOutput:
        lines = self.scan(text)
        if not self.found.values.keys() & {"finished_in", "total", "status_2xx"} and not self.clients:
            raise not_output_of("h2load", lines)
        spawned = {"threads": len(self.clients), "clients": sum(self.clients.values())}
        if (
            "finished_in" not in self.found.values
            or not self.clients
            or set(self.clients) != set(range(len(self.clients)))
        ):
            spawned = {}  # there were more threads, or may have been
        return H2loadOutput.model_validate({**self.found.values, **spawned, "unread": tuple(self.found.unread)})

    def spawning(self, match: re.Match[str]) -> None:
        thread, clients = count(match[1]), count(match[2])
        if thread in self.clients:
            raise several_runs("h2load", match[0])
        if thread is None or clients is None:
            self.found.unread.append(match[0])
        else:
            self.clients[thread] = clients

    def finished(self, match: re.Match[str]) -> None:
        taken, size = scaled(match[1], SECONDS), scaled(match[3], _SIZES)
        self.found.once(
            match[0],
            finished_in=taken and taken[0],
            requests_per_s=_number(match[2]),
            bytes_per_s=size and size[0],
        )

    def finished_old(self, match: re.Match[str]) -> None:
        seconds, milliseconds, microseconds = (count(part) for part in match.groups()[:3])
        kbytes = number(match[5])
        whole = None not in (seconds, milliseconds, microseconds)
        taken = (seconds or 0) + (milliseconds or 0) / 1e3 + (microseconds or 0) / 1e6
        self.found.once(
            match[0],
            finished_in=float(f"{taken:.15g}") if whole else None,
            requests_per_s=_number(match[4]),
            bytes_per_s=None if kbytes is None else kbytes * 1024,
        )

    def requests(self, match: re.Match[str]) -> None:
        names = ("total", "started", "done", "succeeded", "failed", "errored", "timeout")
        self.found.once(
            match[0], **{name: count(token) for name, token in zip(names, match.groups(), strict=True) if token}
        )

    def status(self, match: re.Match[str]) -> None:
        names = ("status_2xx", "status_3xx", "status_4xx", "status_5xx")
        self.found.once(match[0], **{name: count(t) for name, t in zip(names, match.groups(), strict=True)})

    def traffic(self, match: re.Match[str]) -> None:
        self.found.once(match[0], traffic=count(match[1] or match[2]))

    def header(self, match: re.Match[str]) -> None:
        self.columns = (
            ("min", "max", "median", "p95", "p99", "mean", "sd") if match[1] else ("min", "max", "mean", "sd")
        )

    def times(self, match: re.Match[str]) -> None:
        *cells, within = match[2].split()
        figures = [scaled(cell, SECONDS) for cell in cells]
        spread: dict[str, float] | None = None
        if self.columns and len(cells) == len(self.columns) and None not in figures and within.endswith("%"):
            known = [figure for figure in figures if figure]
            spread = {name: figure[0] for name, figure in zip(self.columns, known, strict=True)}
            spread["step"] = max(figure[1] for figure in known)
        self.found.once(match[0], **{match[1]: spread})

    def protocol(self, match: re.Match[str]) -> None:
        self.found.values.setdefault("protocol", match[1])


def _number(token: str) -> float | None:
    """A rate; streams of C++ print large and small ones with an exponent, to six digits."""
    match = re.fullmatch(r"([0-9]\.[0-9]{1,5})e([+-])([0-9]{2})", token)
    return float(token) if match else number(token)
