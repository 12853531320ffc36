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

from benchkit.loadtools.reader import Action, Figures, JsonOutput, OutputFormat, SectionReader, Times, within
from benchkit.loadtools.text import (
    BINARY_SIZES,
    Count,
    Figure,
    count_non_2xx,
    errors_of,
    has_any,
    line_with,
    of_unit,
    parse_number,
    parse_quantity,
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
    header_lines,
    longest_answer_s,
    option,
)
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult, Note
from benchkit.models.protocol import has_streams

DEADLINE = "aborted due to deadline"
"""Error of the requests in flight at the end of a run by time (`ClientError::Deadline`)."""

RESOLUTION_S = 1e-9
_UNITS: Mapping[str, float] = {
    "ns": 1e-9,
    "us": 1e-6,
    "ms": 1e-3,
    "sec": 1,
    "secs": 1,
    "min": 60,
    "hr": 3600,
}
_OWN = line_with("Success rate:", "Size/sec:", "Response time distribution:", r"[0-9]+\.[0-9]+% in ")
_JSON = re.compile(r'"(?:latencyPercentiles|responseTimeHistogram|statusCodeDistribution|successRate)"\s*:')


def _share(token: str) -> float | None:
    """Return the share of answers; versions up to 0.4 print it without a percent sign."""
    rate = parse_number(token.removesuffix("%"))
    share = of_unit(rate, 0.01) if token.endswith("%") else rate
    return share if share is None or share <= 1 else None


class _OhaReader(SectionReader):
    tool = "oha"
    own = _OWN
    units = _UNITS
    corrected = None
    figures: ClassVar[Figures] = {
        "duration_s": lambda token: parse_quantity(token, _UNITS),
        **dict.fromkeys(("bytes_total", "bytes_per_s"), lambda token: parse_quantity(token, BINARY_SIZES)),
        "availability": _share,
    }
    heading = re.compile(
        r"(Summary|Response time histogram(?: \(.*\))?|(?:Response time|Latency) distribution"
        r"|Response time distribution \(.*\)|Details \(.*\)|Status code distribution|Error distribution):"
    )

    def lines(self) -> Mapping[str, Action | None]:
        time = r"\S+ [a-z]{1,4}"
        return {
            rf"Total:\s*(?P<duration_s>{time})": None,
            rf"Slowest:\s*(?P<slowest>{time})": None,
            rf"Fastest:\s*(?P<fastest>{time})": None,
            rf"Average:\s*(?P<average>{time})": None,
            r"Requests/sec:\s*(?P<rps>\S+)": None,
            r"Success rate:\s*(?P<availability>\S+)": None,
            r"Total data:\s*(?P<bytes_total>\S+ ?\w+)": None,
            r"Size/sec:\s*(?P<bytes_per_s>\S+ ?\w+)": None,
            rf"([0-9]{{1,2}}(?:\.[0-9]{{1,2}})?)% in ({time})": self.read_percentile,
            r"\[([0-9]{3})\] (\S+) responses": self.add_status,
            r"\[([0-9]{1,18})\] (\S.*)": self.add_message,
        }

    def read_percentile(self, match: re.Match[str]) -> None:
        if self.section in {"Response time distribution", "Latency distribution"}:  # others are of a class of answers
            self.add_percentile(match)

    def result(self) -> LoadResult:
        rounding = (self.step_s or 1e-4) / 2 * (self.rps or 0) + 5e-5 * (self.duration_s or 0) + 1e-6
        by_rate = (self.rps or 0) * (self.duration_s or 0)
        is_counted = bool(by_rate and self.counted and not self.unread) and abs(by_rate - self.counted) <= rounding
        return self.counted_result(
            is_counted=is_counted, complete=not self.unread and bool(self.percentiles or not self.statuses)
        )

    def counted_result(self, *, is_counted: bool, complete: bool) -> LoadResult:
        """Return the result without the aborted requests, which oha's count and rate have."""
        if not is_counted:
            message = "oha's rate counts aborted requests too, whose number is missing here"
            return self.load_result(complete=False, notes=[Note(code="oha-aborted-unknown", message=message)])
        aborted = self.messages.pop(DEADLINE, 0)
        notes = []
        if aborted and self.rps is not None and self.duration_s:
            message = f"the end of the run aborted {aborted} requests, which oha's rate counts: excluded here"
            notes.append(Note(code="oha-aborted", message=message))
            self.rps = self.counted / self.duration_s
        return self.load_result(
            requests=self.counted,
            errors=errors_of(self.messages),
            non_2xx=count_non_2xx(self.statuses),
            failed=self.messages.total(),
            aborted=aborted,
            complete=complete,
            notes=notes,
        )


class _Document(JsonOutput):
    """JSON of `--output-format json`; times are seconds. What was not measured is null, and excerpts lack parts."""

    duration_s: Figure | None = within("summary", "total", default=None)
    rps: Figure | None = within("summary", "requestsPerSec", default=None)
    bytes_total: Figure | None = within("summary", "totalData", default=None)
    bytes_per_s: Figure | None = within("summary", "sizePerSec", default=None)
    availability: Figure | None = within("summary", "successRate", default=None)
    times: Times = Field(default={}, alias="latencyPercentiles")
    summary: Times
    connect_mean_s: Figure | None = within("details", "DNSDialup", "average", default=None)
    first_byte_mean_s: Figure | None = within("details", "firstByte", "average", default=None)
    statuses: dict[str, Count] = Field(default={}, alias="statusCodeDistribution")
    errors: dict[str, Count] | None = Field(default=None, alias="errorDistribution")


def _read_json(text: str) -> LoadResult:
    reader = _OhaReader()
    document = reader.set_document(text, _Document, 1, RESOLUTION_S)
    reader.times |= document.summary
    reader.step_s = reader.step_s if document.summary.get("average") else None
    reader.availability = None if (document.availability or 0) > 1 else document.availability
    reader.messages.update(document.errors or {})
    is_counted = document.errors is not None and "statuses" in document.model_fields_set
    # A document ends with its last brace: what an excerpt of one lacks was left out, and not cut off.
    return reader.counted_result(is_counted=is_counted, complete=True).model_copy(update={"complete": True})


def parse(text: str) -> LoadResult:
    """Return the result that oha printed. Raises ParseError for other text, and for several runs."""
    return _read_json(text) if _JSON.search(text) else _OhaReader().read(text)


FORMAT = OutputFormat("oha", has_any(_OWN, _JSON), parse)


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
    (request,) = load.request_mix
    timeout_s = load.timeout_s
    if timeout_s is None and load.duration_s is not None:
        timeout_s = longest_answer_s(load, is_open=load.rate is not None)
    return [
        *("oha", "--no-tui", "--no-color", "--output-format=json", "--disable-compression", "--redirect=0"),
        f"-c{load.connections}",
        *option("--http2 -p{}", has_streams(target.protocol) and load.streams),
        *option("-n{}", load.request_count),
        *option("-z{:.0f}ms -w", load.duration_s and load.duration_s * 1000),
        f"--worker-threads={load.threads}",
        *option("-q{:.9g} --latency-correction", load.rate),
        *option("--disable-keepalive", not load.keepalive),
        *option("--cacert={}", target.ca_file),
        *option(f"--connect-to={{}}:443:{target.authority}", target.server_name),
        *option("-t{:.0f}ms", timeout_s and timeout_s * 1000),
        *option("-m{}", request.method != "GET" and request.method),
        *(f"-H{line}" for line in header_lines(request, with_zero_length=True)),
        *option("-D{}", body_file(load, request)),
        *load.extra_args,
        target.named_origin + request.path,
    ]


TOOL = Tool(
    name="oha",
    binary="oha",
    argv=_argv,
    format=FORMAT,
    measure=_measure,
    rate=RateSupport(is_open=True, clocks="one"),
    options=frozenset({"threads", "duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(own_headers=("host",)),
    protocols=frozenset({"http1", "https1", "h2", "h2c"}),
    tls=TlsSupport(verifies=True, sends_name=True, resumes=True),
    notes=("oha prints percentiles, not every time: several generators' or slices' cannot be merged.",),
)
