"""Parser of the output of Envoy's Nighthawk: its human text, old and new, and its JSON, also in fortio's form.

Meaning of the figures, read from its source (source/client/output_formatter_impl.cc, docs/root/statistics.md):

- Latency is the statistic "Request start to response end" (`benchmark_http_client.request_to_response`). It runs from
  sending a request on an open connection to the end of its answer, stream resets included. Waiting for a connection is
  a statistic of its own, and "Initiation to completion" has both.
- Percentiles are of a histogram, at shares such as 0.990625: the keys here are those shares, "99.0625".
- Text has whole microseconds, "0s 012ms 345us", and seconds beyond 999 begin at 0 again. The first versions printed
  "0.012345007s", and reports of Envoy Gateway have Go's "12.345007ms". Other statistics are sizes.
- Counters: `http_2xx` and its like are answers by class; together they are the requests here. A counter of zero is
  not printed. `pool_overflow` counts requests that were due and not sent, as no connection was free (closed loop).
- The text has no connections and no target, which JSON has. Its rates are counters ÷ duration.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from benchkit.errors import ParseError
from benchkit.loadtools.json_text import LaxJsonOutput, find_document, read_document
from benchkit.loadtools.output_format import OutputFormat
from benchkit.loadtools.reader import Reader
from benchkit.loadtools.text import (
    Count,
    Figure,
    implied_duration,
    latency_by_name,
    line_with,
    parse_duration,
    parse_number,
    several_runs,
    unread_notes,
)
from benchkit.models.load_result import Errors, LoadResult, Note
from benchkit.plugins.output_formats.fortio import FortioDocument, is_of_nighthawk, read_fortio

_REQUEST = "benchmark_http_client.request_to_response"
_BLOCKING = "sequencer.blocking"
_NAMES = {"Request start to response end": _REQUEST, "Blocking. Results are skewed": _BLOCKING}
"""Beginnings of headings, with the statistics that they stand for."""

_TITLE = re.compile(r"Nighthawk - A layer 7 protocol benchmarking tool\.")
_JSON = re.compile(r'"statistics"\s*:\s*\[')
_DEVIATION = re.compile(r'"(?:raw_)?pstdev"\s*:')
_HEADING = re.compile(r"(\S.*) \(([0-9]{1,18}) samples\)")
_FIRST_HEADING = re.compile(r"(\S+): ([0-9]{1,18}) samples, mean: (\S+), pstdev: (\S+)")
_OLD_SAMPLES = re.compile(r"samples:\s*([0-9]{1,18})")
_OLD_FIGURE = re.compile(r"(mean|pstdev):\s+(\S.*)")
_FIGURES = re.compile(r"min: (\S.*?) \| mean: (\S.*?) \| max: (\S.*?) \| pstdev: (\S.*)")
_PERCENTILE = re.compile(r"([01](?:\.[0-9]{1,12})?)\s+([0-9]{1,18})\s+([0-9].*)")
_COUNTER_HEADING = re.compile(r"Counter\s+Value\s+Per second")
_COUNTER = re.compile(r"([A-Za-z_]\S*)\s+([0-9]{1,18})\s+([0-9]{1,18}\.[0-9]{2})")
_CSV = re.compile(r"Min,Mean,Max,Pstdev")
_TIME = re.compile(r"([0-9]{1,3})s ([0-9]{3})ms ([0-9]{3})us")
_FIRST_TIME = re.compile(r"[0-9]{1,9}\.[0-9]{9}s")
_WHOLE_SECONDS = re.compile(r"[0-9]{1,9}s")
_DAMAGED_TIME = re.compile(r"[0-9.]*s(?: |$)")
_PREFIXES = ("benchmark.", "upstream_", "client.benchmark.", "client.upstream_")
_ANSWERS = re.compile(r"benchmark\.http_(?:[1-5x]xx)$")


_SECONDS = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,9})?s")


def _seconds(text: str | None) -> float | None:
    """Return the seconds of a duration in protobuf's JSON, `0.000180007s`."""
    return float(text[:-1]) if text is not None and _SECONDS.fullmatch(text) else None


def _time(token: str) -> float | None:
    """Return the seconds of a time as Nighthawk prints it; None for any other token."""
    match = _TIME.fullmatch(token.strip())
    if match:
        return float(f"{int(match[1])}.{match[2]}{match[3]}")
    return float(token.strip()[:-1]) if _FIRST_TIME.fullmatch(token.strip()) else parse_duration(token.strip())


@dataclass
class _Statistic:
    """Times of one statistic by the names of `latency_by_name`; a size has none."""

    samples: int
    times: dict[str, float] = field(default_factory=dict)


class _NighthawkReader(Reader):
    """Statistics and counters of the human text; times in seconds."""

    tool = "nighthawk"

    title: bool = False
    counting: bool = False
    """True behind the heading of the counters."""

    def __init__(self) -> None:
        super().__init__()
        self.statistics: dict[str, _Statistic] = {}
        self.counters: dict[str, tuple[int, float | None]] = {}
        """Value, and rate per second, by name."""
        self.current = _Statistic(0)
        self.previous = ""
        self._rules = (
            (_TITLE, self.mark(title=True)),
            (_HEADING, self.read_heading),
            (_FIRST_HEADING, self.read_first_heading),
            (_OLD_SAMPLES, self.read_old_samples),
            (_OLD_FIGURE, self.read_old_figure),
            (_FIGURES, self.read_figures),
            (_PERCENTILE, self.read_percentile),
            (_COUNTER_HEADING, self.mark(counting=True)),
            (_COUNTER, self.read_counter),
            (_CSV, self.read_csv),
        )

    def has_figures(self) -> bool:
        return bool(self.statistics or self.counters)

    def result(self) -> LoadResult:
        return _result(
            self.statistics,
            self.counters,
            complete=self.counting and not self.unread and self._has_last_counter(),
            counted=self._has_last_counter(),
            notes=(TEXT_LIMITS, *unread_notes(self.unread)),
        )

    def _has_last_counter(self) -> bool:
        """Return whether `upstream_rq_total` is there, which runs have near the end, or all counters are unknown."""
        known = any(name.startswith(_PREFIXES) for name in self.counters)
        return any(name.endswith("upstream_rq_total") for name in self.counters) or (bool(self.counters) and not known)

    def read_line(self, line: str) -> None:
        super().read_line(line)
        self.previous = line

    def _start(self, heading: str, samples: int) -> None:
        name = next((name for start, name in _NAMES.items() if heading.startswith(start)), heading)
        if name in self.statistics or self.counting:
            raise several_runs("nighthawk", heading)
        self.current = self.statistics[name] = _Statistic(samples)

    def read_heading(self, match: re.Match[str]) -> None:
        self._start(match[1], int(match[2]))

    def read_first_heading(self, match: re.Match[str]) -> None:
        self._start(match[1], int(match[2]))
        self._add("mean", match[3], match[0])
        self._add("stdev", match[4], match[0])

    def read_old_samples(self, match: re.Match[str]) -> None:
        self._start(self.previous, int(match[1]))

    def read_old_figure(self, match: re.Match[str]) -> None:
        self._add(match[1].removeprefix("p"), match[2], match[0])

    def read_figures(self, match: re.Match[str]) -> None:
        for name, token in zip(("min", "mean", "max", "stdev"), match.groups(), strict=True):
            self._add(name, token, match[0])

    def _add(self, name: str, token: str, line: str) -> None:
        is_cut = self.unterminated and _WHOLE_SECONDS.fullmatch(token.strip())  # of "0s 012ms 345us"
        time = None if is_cut else _time(token)
        if time is not None:
            self.current.times[name] = time
        elif _DAMAGED_TIME.match(token):
            self.unread.append(line)

    def read_percentile(self, match: re.Match[str]) -> None:
        share = float(match[1])
        self._add(_key(share) if 0 < share < 1 else "max" if share else "min", match[3], match[0])

    def read_counter(self, match: re.Match[str]) -> None:
        if self.counting:
            self.counters[match[1]] = int(match[2]), parse_number(match[3])

    def read_csv(self, _match: re.Match[str]) -> None:
        raise ParseError("this is the CSV of nighthawk, which benchkit does not read", hint=_HINT)


_HINT = "give its JSON: --output-format json, or nighthawk_output_transform"
TEXT_LIMITS = Note(
    code="nighthawk-text", message="the text of nighthawk has no connections and no target; its JSON has them"
)


def _key(share: float) -> str:
    return f"{share * 100:.10g}"


def _result(
    statistics: Mapping[str, _Statistic],
    counters: Mapping[str, tuple[int, float | None]],
    *,
    complete: bool,
    notes: tuple[Note, ...],
    counted: bool = True,
    duration_s: float | None = None,
    more: Mapping[str, object] | None = None,
) -> LoadResult:
    """Return the result by statistics, and by counters with their rates per second."""
    plain = {name.removeprefix("client."): number for name, (number, _) in counters.items()}
    answers = {name: number for name, number in plain.items() if _ANSWERS.match(name)}
    known = bool(answers) or any(name.startswith(_PREFIXES) for name in plain)
    times = statistics[_REQUEST].times if _REQUEST in statistics else {}
    step = 1e-6 if TEXT_LIMITS in notes and times.keys() & {"min", "mean", "max", "stdev"} else None
    connect, resets = plain.get("benchmark.pool_connection_failure", 0), plain.get("benchmark.stream_resets", 0)
    above = sum(n for name, n in answers.items() if name.removeprefix("benchmark.http_") in {"4xx", "5xx", "xxx"})
    rates = [rate for name, (_, rate) in counters.items() if _ANSWERS.match(name.removeprefix("client."))]
    summed = [rate for rate in rates if rate is not None]
    requests = sum(answers.values()) if known and counted else None
    rate = float(f"{sum(summed):.12g}") if counted and summed and len(summed) == len(answers) else None
    return LoadResult(
        tool="nighthawk",
        duration_s=implied_duration(requests, rate) if duration_s is None else duration_s,
        requests=requests,
        rps=rate,
        bytes_total=plain.get("upstream_cx_rx_bytes_total"),
        latency=latency_by_name(times, "request").model_copy(update={"resolution_s": step}),
        errors=Errors(connect=connect, read=resets) if known and complete else Errors(),
        non_2xx=sum(n for name, n in answers.items() if "2xx" not in name) if known and complete else None,
        failed=connect + resets + above if known and complete else None,
        dropped=plain.get("benchmark.pool_overflow", 0) if known and complete else None,
        complete=complete,
        notes=(*_notes(statistics, plain), *notes),
        **(more or {}),
    )


def _notes(statistics: Mapping[str, _Statistic], counters: Mapping[str, int]) -> Iterator[Note]:
    if overflow := counters.get("benchmark.pool_overflow"):
        yield Note(code="dropped", message=f"{overflow:,} requests that were due were not sent: no connection was free")
    blocked = statistics.get(_BLOCKING)
    if blocked is not None and blocked.samples:
        yield Note(
            code="rate-not-held", message=f"nighthawk was held up {blocked.samples:,} times: it says results are skewed"
        )
    if statistics and _REQUEST not in statistics:
        yield Note(code="no-latency", message="the text has no statistic of requests (request_to_response)")


class _NighthawkPercentile(LaxJsonOutput):
    percentile: Figure
    duration: str | None = None


class _NighthawkStatistic(LaxJsonOutput):
    id: str
    count: Count
    mean: str | None = None
    pstdev: str | None = None
    min: str | None = None
    max: str | None = None
    percentiles: tuple[_NighthawkPercentile, ...] = ()


class _NighthawkCounter(LaxJsonOutput):
    name: str
    value: Count = 0


class _NighthawkResult(LaxJsonOutput):
    name: str
    statistics: tuple[_NighthawkStatistic, ...] = ()
    counters: tuple[_NighthawkCounter, ...] = ()
    execution_duration: str | None = None


class _NighthawkOptions(LaxJsonOutput):
    connections: Count | None = None
    uri: str | None = None
    requests_per_second: Count | None = None
    open_loop: bool = False


class _NighthawkDocument(LaxJsonOutput):
    options: _NighthawkOptions = _NighthawkOptions()
    results: list[_NighthawkResult]


def _of_document(document: _NighthawkDocument) -> LoadResult:
    whole = next((each for each in document.results if each.name == "global"), None)
    if whole is None:
        raise ParseError("this JSON of nighthawk has no result 'global'", hint="was it cut?")
    options, workers = document.options, max(1, sum(1 for each in document.results if each.name != "global"))
    duration = _seconds(whole.execution_duration)
    notes = []
    if options.requests_per_second:
        rate = options.requests_per_second * workers
        loop = "open loop" if options.open_loop else "closed loop: a request without a free connection is not sent"
        notes.append(Note(code="target-rate", message=f"{rate}/s were asked for ({loop}); times count from sending"))
    return _result(
        {each.id: _of_json(each) for each in whole.statistics},
        {each.name: (each.value, each.value / duration if duration else None) for each in whole.counters},
        complete=True,
        notes=tuple(notes),
        duration_s=duration,
        more={
            "target": options.uri,
            "connections": options.connections * workers if options.connections else None,
            "threads": workers,
        },
    )


def _of_json(statistic: _NighthawkStatistic) -> _Statistic:
    if not statistic.count:
        return _Statistic(0)
    texts = {"min": statistic.min, "mean": statistic.mean, "stdev": statistic.pstdev, "max": statistic.max}
    texts |= {_key(each.percentile): each.duration for each in statistic.percentiles if 0 < each.percentile < 1}
    times = {name: _seconds(text) for name, text in texts.items()}
    return _Statistic(statistic.count, {name: time for name, time in times.items() if time is not None})


def _of_fortio(document: FortioDocument) -> LoadResult:
    """Return the result of `--output-format fortio`, whose rate is of all requests, and whose codes are 2xx alone."""
    times, duration = document.DurationHistogram, document.ActualDuration / 1e9
    answered = (document.RetCodes or {}).get("200", 0)
    requests = round(document.ActualQPS * duration)
    figures = {"min": times.Min, "mean": times.Avg, "stdev": times.StdDev, "max": times.Max}
    percentiles = {f"{each.Percentile:g}": each.Value for each in times.Percentiles or ()}
    return LoadResult(
        tool="nighthawk",
        target=document.URL,
        duration_s=duration or None,
        requests=requests,
        rps=document.ActualQPS,
        connections=document.NumThreads or None,
        bytes_total=document.BytesReceived,
        latency=latency_by_name(figures | percentiles if times.Count and times.Avg else {}, "request"),
        non_2xx=0 if answered == requests else None,
        failed=0 if answered == requests else None,
        notes=(_FORTIO_LIMITS, *_target_rate(document.RequestedQPS)),
    )


_FORTIO_LIMITS = Note(
    code="nighthawk-fortio",
    message="in fortio's form nighthawk counts answers of 2xx alone, and rounds the shares of percentiles down",
)


def _target_rate(rate: str | float | None) -> Iterator[Note]:
    if rate and float(rate):
        yield Note(code="target-rate", message=f"{float(rate):g}/s were asked for; times count from sending")


def parse(text: str) -> LoadResult:
    """Return the result of a run. Raises ParseError for other text, for several runs, and for nighthawk's CSV."""
    if is_of_nighthawk(text) and (fortio := read_fortio(text)) is not None:
        return _of_fortio(fortio)
    document = find_document(text, _JSON, "nighthawk")
    if document is None:
        return _NighthawkReader().read(text)
    return _of_document(read_document(document, _NighthawkDocument, "nighthawk"))


_MARK = line_with(
    _TITLE.pattern,
    r"benchmark_http_client\.\w+: [0-9]+ samples, mean: ",
    r"Request start to response end(?: \([0-9]+ samples\))?$",
    r"Queueing and connection setup latency(?: \([0-9]+ samples\))?$",
)
FORMAT = OutputFormat(
    "nighthawk",
    lambda text: (
        _MARK.search(text) is not None
        or all(mark.search(text) for mark in (_JSON, _DEVIATION))
        or is_of_nighthawk(text)
    ),
    parse,
    (line_with(_TITLE.pattern),),
)
