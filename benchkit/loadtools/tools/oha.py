"""oha: its command line, and its output.

Its command line, read from its source (1.16.0: src/lib.rs, client.rs, tls_config.rs):

- At a rate (`-q`) requests are due at the ticks of one clock, and wait for a connection that is free. With
  `--latency-correction` their times count from when they were due.
- Requests in flight at the end of the time are waited for (`-w`). `-t` limits that to 30 s, and without a rate to the
  window's length if that is shorter.
- Its rows (`--output-format csv`) lack failed requests, so that benchkit reads its JSON.
- Certificates are verified by the host's authorities and by `--cacert`. Sessions are resumed.

Its output, read from its source (src/printer.rs, result_data.rs, client.rs):

- The rate is (answers + errors) ÷ total time. At the end of a run by time the requests in flight are aborted, and
  counted as the error "aborted due to deadline". Here they are `aborted`, and the rate counts the other requests.
- Times are of answered requests alone, from before connecting to the end of the body.
- The text rounds to four decimals of one unit for all times: seconds up to 1.5, since then as the slowest time needs.
- "Total data" is of bodies alone, and KiB are 1024.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, SectionReader, read_document, within
from benchkit.loadtools.text import (
    BINARY_SIZES,
    Count,
    Figure,
    count_non_2xx,
    errors_of,
    has_any,
    latency_by_name,
    line_with,
    of_unit,
    parse_number,
    parse_quantity,
    parse_scaled,
)
from benchkit.loadtools.tool import (
    ParsedOutput,
    RateSupport,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    body_file,
    files_of_paths,
    header_lines,
    longest_answer_s,
    with_zero_length,
)
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult, Note
from benchkit.models.protocol import has_streams

DEADLINE = "aborted due to deadline"
"""Error of the requests in flight at the end of a run by time (`ClientError::Deadline`)."""

_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "sec": 1,
    "secs": 1,
    "min": 60,
    "hr": 3600,
}
_TENS = re.compile(r"(\S+) 10 (\w+)")
_OWN = line_with("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ")
_JSON = re.compile(r'"(?:latencyPercentiles|responseTimeHistogram|statusCodeDistribution|successRate)"\s*:')


def _time(token: str) -> float | None:
    """Return a time in seconds; large ones are in units of `10 sec` or `10 min`."""
    tens = _TENS.fullmatch(token)
    return of_unit(parse_quantity(f"{tens[1]} {tens[2]}", _UNITS), 10) if tens else parse_quantity(token, _UNITS)


def _size(token: str) -> float | None:
    return parse_quantity(token, BINARY_SIZES)


def _share(token: str) -> float | None:
    """Return the share of answers; versions up to 0.4 print it without a percent sign."""
    rate = parse_number(token.removesuffix("%"))
    share = of_unit(rate, 0.01) if token.endswith("%") else rate
    return share if share is None or share <= 1 else None


class _OhaReader(SectionReader):
    tool = "oha"
    own = _OWN
    figures: ClassVar[Figures] = {
        **dict.fromkeys(("duration_s", "slowest", "fastest", "average"), _time),
        "bytes_total": _size,
        "bytes_per_s": _size,
        "availability": _share,
    }
    heading = re.compile(
        r"(Summary|Response time histogram(?: \(.*\))?|(?:Response time|Latency) distribution"
        r"|Response time distribution \(.*\)|Details \(.*\)|Status code distribution|Error distribution):"
    )

    availability: float | None = None
    step: float | None = None

    def lines(self) -> Mapping[str, Action | None]:
        time = r"\S+ (?:10 )?[a-z]{1,4}"
        summary = (
            rf"Total:\s*(?P<duration_s>{time})",
            rf"Slowest:\s*(?P<slowest>{time})",
            rf"Fastest:\s*(?P<fastest>{time})",
            rf"Average:\s*(?P<average>{time})",
            r"Requests/sec:\s*(?P<rps>\S+)",
            r"Success rate:\s*(?P<availability>\S+)",
            r"Total data:\s*(?P<bytes_total>\S+ ?\w+)",
            r"Size/sec:\s*(?P<bytes_per_s>\S+ ?\w+)",
        )
        return {
            **{pattern: self.within(self.read_figure, "Summary") for pattern in summary},
            rf"([0-9]{{1,2}}(?:\.[0-9]{{1,2}})?)% in ({time})": self.within(
                self.read_percentile, "Response time distribution", "Latency distribution"
            ),
            r"\[([0-9]{3})\] (\S+) responses": self.within(self.add_status, "Status code distribution"),
            r"\[([0-9]{1,18})\] (\S.*)": self.within(self.add_message, "Error distribution"),
        }

    def read_figure(self, match: re.Match[str]) -> None:
        if not re.search(r"NaN|inf\b", match[0]):  # no request was answered
            self.set_figures(match)

    def has_figures(self) -> bool:
        return bool(self.tokens or self.percentiles)

    def read_percentile(self, match: re.Match[str]) -> None:
        if not match[2].startswith("NaN"):
            self.add(self.percentiles, f"{float(match[1]):g}", _time(match[2]), match[0])
            scaled = parse_scaled(match[2], _UNITS)
            self.step = max(self.step or 0.0, scaled[1]) if scaled else self.step

    def result(self) -> LoadResult:
        is_counted = self._is_counted()
        scaled = parse_scaled(self.tokens.get("slowest"), _UNITS)
        step = self.step if scaled is None else max(self.step or 0.0, scaled[1])
        times = {"min": self.fastest, "mean": self.average, "max": self.slowest}
        stated = self.load_result(
            requests=self.counted if is_counted else None,
            latency=latency_by_name(times | self.percentiles, "connect+request", step_s=step, corrected=None),
            status=self.statuses,
            availability=self.availability,
            complete=not self.unread,
        )
        return _with_counts(stated, self.messages if is_counted else None)

    def _is_counted(self) -> bool:
        if self.rps is None or self.duration_s is None or self.unread or not (self.statuses or self.messages):
            return False
        rounding = (self.step or 1e-4) / 2 * self.rps + 5e-5 * self.duration_s + 1e-6
        return abs(self.rps * self.duration_s - self.counted) <= rounding


def _with_counts(stated: LoadResult, errors: Mapping[str, int] | None) -> LoadResult:
    """Return a result without the aborted requests, which its `requests` and `rps` count, and with its failures.

    `errors` are counts by message; None where their number is unknown.
    """
    if errors is None:
        message = "oha's rate counts aborted requests too, whose number is missing here"
        unknown = Note(code="oha-aborted-unknown", message=message)
        return stated.model_copy(update={"complete": False, "notes": (unknown, *stated.notes)})
    aborted, rate, duration_s = errors.get(DEADLINE, 0), stated.rps, stated.duration_s
    failures = {message: number for message, number in errors.items() if message != DEADLINE}
    answered = None if stated.requests is None else stated.requests - aborted
    notes = stated.notes
    if aborted and rate is not None and duration_s:
        message = (
            f"the end of the run aborted {aborted} requests, which oha's rate of {rate:.6g}/s counts: left out here"
        )
        notes = (Note(code="oha-aborted", message=message), *notes)
    return stated.model_copy(
        update={
            "requests": answered,
            "rps": answered / duration_s if answered is not None and aborted and duration_s else rate,
            "errors": errors_of(failures),
            "non_2xx": count_non_2xx(stated.status),
            "failed": sum(failures.values()),
            "aborted": aborted,
            "complete": stated.complete and bool(stated.latency.percentiles or not stated.status),
            "notes": notes,
        }
    )


class _Summary(JsonOutput):
    success_rate: Figure | None = Field(default=None, alias="successRate")
    total: Figure | None = None
    slowest: Figure | None = None
    fastest: Figure | None = None
    average: Figure | None = None
    requests_per_s: Figure | None = Field(default=None, alias="requestsPerSec")
    total_data: Figure | None = Field(default=None, alias="totalData")
    size_per_s: Figure | None = Field(default=None, alias="sizePerSec")


class _Document(JsonOutput):
    """JSON of `--output-format json`; times are seconds. What was not measured is null, and excerpts lack parts."""

    summary: _Summary
    percentiles: dict[str, Figure | None] = Field(default={}, alias="latencyPercentiles")
    connect_mean_s: Figure | None = within("details", "DNSDialup", "average", default=None)
    first_byte_mean_s: Figure | None = within("details", "firstByte", "average", default=None)
    statuses: dict[str, Count] | None = Field(default=None, alias="statusCodeDistribution")
    errors: dict[str, Count] | None = Field(default=None, alias="errorDistribution")


def _read_json(text: str) -> LoadResult:
    document = read_document(text, _Document, "oha")
    summary, statuses, errors = document.summary, document.statuses, document.errors
    is_counted = statuses is not None and errors is not None
    times = {"min": summary.fastest, "mean": summary.average, "max": summary.slowest}
    times |= {name.removeprefix("p"): time for name, time in document.percentiles.items()}
    step = None if summary.average is None else 1e-9
    stated = LoadResult(
        tool="oha",
        duration_s=summary.total,
        requests=sum((statuses or {}).values()) + sum((errors or {}).values()) if is_counted else None,
        rps=summary.requests_per_s,
        bytes_total=summary.total_data,
        bytes_per_s=summary.size_per_s,
        latency=latency_by_name(times, "connect+request", step_s=step, corrected=None),
        connect_mean_s=document.connect_mean_s,
        first_byte_mean_s=document.first_byte_mean_s,
        status=statuses or {},
        availability=summary.success_rate if (summary.success_rate or 0) <= 1 else None,
    )
    # A document ends with its last brace: what an excerpt of one lacks was left out, and not cut off.
    return _with_counts(stated, errors if is_counted else None).model_copy(update={"complete": True})


def parse(text: str) -> LoadResult:
    """Return the result that oha printed. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) else _OhaReader().read(text)


FORMAT = OutputFormat("oha", has_any(_OWN, _JSON), parse, (line_with("Summary:", r'\{\s*"summary"'),))


RESOLUTION_S = 1e-9
URLS = "oha.urls"
"""File with the URLs of several requests."""


def _measure(output: ToolOutput) -> ParsedOutput:
    result = parse(output.stdout)
    answered = sum(result.status.values())
    exact = {
        "requests": answered,
        "rps": answered / result.duration_s if result.duration_s else None,
        "latency": result.latency.model_copy(update={"resolution_s": RESOLUTION_S, "corrected": False}),
    }
    return ParsedOutput(result.model_copy(update=exact), None)


def _argv(load: Load, target: Target) -> list[str]:
    first = load.request_mix[0]
    argv = ["oha", "--no-tui", "--no-color", "--output-format=json", "--disable-compression", "--redirect=0"]
    argv.append(f"-c{load.connections}")
    if has_streams(target.protocol):
        argv += ["--http2", f"-p{load.streams}"]
    argv += [f"-n{load.request_count}"] if load.duration_s is None else [f"-z{load.duration_s * 1000:.0f}ms", "-w"]
    argv.append(f"--worker-threads={load.threads}")
    if load.rate is not None:
        argv += [f"-q{load.rate:.9g}", "--latency-correction"]
    if not load.keepalive:
        argv.append("--disable-keepalive")
    if target.ca_file is not None:
        argv.append(f"--cacert={target.ca_file}")
    if target.server_name is not None:
        argv.append(f"--connect-to={target.server_name}:443:{target.authority}")
    timeout_s = load.timeout_s
    if timeout_s is None and load.duration_s is not None:
        timeout_s = longest_answer_s(load, is_open=load.rate is not None)
    if timeout_s is not None:
        argv.append(f"-t{timeout_s * 1000:.0f}ms")
    if first.method != "GET":
        argv.append(f"-m{first.method}")
    argv += [f"-H{line}" for line in header_lines(with_zero_length(first))]
    if body := body_file(load, "oha", first):
        argv.append(f"-D{body}")
    where = ["--urls-from-file", URLS] if len(load.request_mix) > 1 else [target.named_origin + first.path]
    return [*argv, *load.extra_args, *where]


TOOL = Tool(
    name="oha",
    binary="oha",
    argv=_argv,
    parse=parse,
    measure=_measure,
    rate=RateSupport(is_open=True, clocks="one"),
    options=frozenset({"threads", "duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(differing=frozenset({"path"}), weights="drawn from a list", own_headers=("host",)),
    files=lambda load, target: files_of_paths(load, target, "oha", URLS),
    protocols=frozenset({"http1", "https1", "h2", "h2c"}),
    tls=TlsSupport(verifies=True, sends_name=True, resumes=True),
    load_notes=lambda _load: (
        "oha prints percentiles, not every time: several generators' or slices' cannot be merged.",
    ),
)
