"""vegeta: its command line, and its output.

Its command line, read from its source (lib/attack.go):

- The attack writes every result at once, in a binary form of Go's (gob) that the reducer reads; it prints no summary.
- With a rate, request n is due n + 1 intervals after the start. Its own times begin when it is sent. From the
  request's number in the results the reducer knows how late that was.
- All requests share one connection of HTTP/2. Certificates are verified, and every handshake is full.

Its output, read from its source (lib/metrics.go, reporters.go, attack.go):

- "rate" is requests ÷ attack time, which runs from the first request to the last one. `duration_s` is the attack time.
- Status code 0 is a request without an answer. Success is the share of 200 to 399.
- A time runs from sending the request to the end of its body, and includes connecting. Percentiles are estimates.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, ClassVar

from pydantic import Field

from benchkit.files import BACKENDS
from benchkit.loadtools.reader import Action, JsonOutput, OutputFormat, Reader, Times, within
from benchkit.loadtools.text import (
    Count,
    Figure,
    errors_of,
    excerpt,
    has_line,
    of_unit,
    parse_count,
    parse_duration,
    parse_number,
)
from benchkit.loadtools.tool import (
    NEED_RATE,
    GoProgram,
    LoadLimits,
    ParsedOutput,
    RateSupport,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    body_files,
    header_lines,
    option,
    repeated_requests,
)
from benchkit.models.load import NS_PER_S, Load
from benchkit.models.load_result import Errors, LoadResult, Note
from benchkit.models.request import Request

ROWS = RequestRows("vegeta")
"""Every request; those without an answer (status 0) have the time until they failed, as in vegeta's own figures. Error
messages are counted by text; an answer below 200 or above 399 has its status line there."""


def _share(cell: str) -> float | None:
    percent = parse_number(cell.removesuffix("%"))
    return of_unit(percent, 0.01) if percent is not None and percent <= 100 else None  # noqa: PLR2004 - per cent


_NAMES: Mapping[str, str] = {
    "Requests total": "requests",
    "Requests rate": "rps",
    "Duration total": "total_s",
    "Duration attack": "duration_s",
    "Duration wait": "wait_s",
    "Bytes In total": "bytes_total",
    "Success ratio": "availability",
}
"""Figures by the label of their row and their name in it; others are means of bytes, or follow from these."""


class _VegetaReader(Reader):
    tool = "vegeta"
    figures: ClassVar[Mapping[str, Callable[[str], float | None]]] = {
        **dict.fromkeys(("requests", "bytes_total"), parse_count),
        **dict.fromkeys(("total_s", "duration_s", "wait_s"), parse_duration),
        "rps": parse_number,
        "availability": _share,
    }

    total_s: float | None = None
    wait_s: float | None = None
    errors: list[str] | None = None
    """Kinds of error; None before their heading."""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            r"(Requests|Duration|Latencies|Bytes In|Bytes Out|Success)\s+\[([^\]]{1,80})\]\s+(\S.*)": self.read_row,
            r"Status Codes\s+\[code:count\]\s*(.*)": self.read_codes,
            r"Error Set:": lambda _match: setattr(self, "errors", []),
            r"(.+)": self.read_error,
        }

    def has_figures(self) -> bool:
        return bool(self.tokens or self.times or self.statuses)

    def read_row(self, match: re.Match[str]) -> None:
        label, names, cells = match[1], match[2].split(", "), match[3].split(", ")
        if len(names) != len(cells):
            self.unread.append(match[0])
            return
        for name, cell in zip(names, cells, strict=True):
            if label == "Latencies":
                self.add(self.times, name, parse_duration(cell), match[0])
            elif figure := _NAMES.get(f"{label} {name}"):
                self.tokens[figure] = cell
                self.add(vars(self), figure, self.figures[figure](cell), match[0])

    def read_codes(self, match: re.Match[str]) -> None:
        codes = dict(pair.split(":", 1) for pair in match[1].split() if pair.count(":") == 1)
        for code, number in codes.items():
            self.add(self.statuses, code, parse_count(number), match[0])

    def read_error(self, match: re.Match[str]) -> None:
        if self.errors is not None:
            self.errors.append(excerpt(match[1]))

    def result(self) -> LoadResult:
        codes, attack_s = self.statuses, self.duration_s
        if attack_s is not None:
            self.total_s = attack_s + (self.wait_s or 0) if self.total_s is None else self.total_s
        required = (self.requests, self.availability if self.errors is None else 1, codes or None)
        if self.requests == 0:
            self.times = {}
        return self.load_result(
            duration_s=self.total_s if attack_s is None else attack_s,
            answered_rps=self.requests / self.total_s if self.requests and self.total_s and attack_s else None,
            errors=Errors(other=codes.get("0", 0) if codes else None),  # 0 is a request without an answer
            non_2xx=sum(n for code, n in codes.items() if code[0] not in "02") if codes else None,
            failed=sum(n for code, n in codes.items() if code[0] not in "23") if codes else None,
            complete=None not in required and bool(self.times or self.errors is not None) and not self.unread,
            notes=self._notes(),
        )

    def _notes(self) -> Iterator[Note]:
        if self.errors and any(code[0] not in "23" for code in self.statuses):
            kinds = "; ".join(self.errors[:3])
            message = f"{len(self.errors)} kinds of error, without a count in vegeta's report: {kinds}"
            yield Note(code="vegeta-errors", message=message)


class _Document(JsonOutput):
    """JSON report; times are nanoseconds."""

    times: Times = within("latencies")
    requests: Count
    rps: Figure | None = within("rate", default=None)
    duration_s: Figure | None = within("duration", default=None)
    wait_s: Figure = within("wait", default=0)
    bytes_total: Count | None = within("bytes_in", "total", default=None)
    availability: Annotated[float, Field(ge=0, le=1)] | None = within("success", default=None)
    statuses: dict[str, Count] | None = within("status_codes", default=None)
    errors: list[str] | None = None


def parse(text: str) -> LoadResult:
    """Return the result of a report. Raises ParseError for other text, and for several reports."""
    reader = _VegetaReader()
    if '"latencies"' not in text or "{" not in text:
        return reader.read(text)
    document = reader.set_document(text, _Document, 1e-9)
    reader.duration_s, reader.wait_s = of_unit(document.duration_s, 1e-9), of_unit(document.wait_s, 1e-9)
    reader.statuses = dict(document.statuses or {})
    reader.errors = [excerpt(each) for each in document.errors or ()]
    reader.step_s = reader.step_s if document.requests else None
    return reader.result()


FORMAT = OutputFormat(
    "vegeta",
    has_line(
        r"Requests\s+\[total[,\]]",
        r"Duration\s+\[total[,\]]",
        r"Latencies\s+\[",
        r"Bytes (?:In|Out)\s+\[total, mean\]",
        r"Success\s+\[ratio\]",
        r"Status Codes\s+\[code:count\]",
        r'\{?"latencies":\s*\{\s*"(?:total|mean|50th)":',
        r'[^\n{"]{0,120}\{.*"latencies":\s*\{"(?:total|mean)":',
    ),
    parse,
)


_STATUS_LINE = re.compile(r"[1-9][0-9]{2}(?: .*)?")
"""Error message of an answer with a status below 200 or above 399; others are of requests without an answer."""


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what vegeta measured, from the reducer's file; `duration_s` as vegeta defines it. Raises ParseError."""
    from benchkit.loadtools import reducer_output  # noqa: PLC0415 - numpy is slow to import

    rows = reducer_output.read_file(output.reduction, "vegeta")
    span, unanswered = rows.span, rows.status.get("0", 0)
    transport = {text: n for text, n in rows.errors.items() if not _STATUS_LINE.fullmatch(text)}
    succeeded = sum(n for code, n in rows.status.items() if code[0] in "23")
    message = f"the latencies include {unanswered} requests without an answer, as vegeta's own figures do"
    result, measured = reducer_output.result_of_rows(
        rows,
        ROWS,
        duration_s=(span.last_start_ns - span.first_start_ns) / NS_PER_S if span else None,
        errors=errors_of(transport, max(0, unanswered - sum(transport.values()))),
        failed=rows.rows - succeeded,
        notes=[Note(code="vegeta-unanswered", message=message)] if unanswered else [],
    )
    availability = succeeded / rows.rows if rows.rows else None
    return ParsedOutput(result.model_copy(update={"availability": availability}), measured)


TARGETS = "vegeta.targets"
PROGRAM = GoProgram(BACKENDS / "vegeta", "github.com/tsenart/vegeta/v12", "12.8.4", "vegeta")


def _validate(load: Load) -> Iterable[UnsupportedField]:
    if not load.histogram:
        yield UnsupportedField("histogram", "vegeta prints no summary: it needs histogram: true")


def _validate_target(load: Load, _target: Target) -> Iterable[str]:
    at_rate = any(getattr(load, name) is not None for name in ("rate", *NEED_RATE))
    if at_rate and load.streams > 1:
        yield "streams: at a rate vegeta opens a stream for every request that is due, up to the server's limit"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    targets = "\n".join(_lines(load, request, target) for request in repeated_requests(load))
    return {TARGETS: targets.encode(), **body_files(load, target)}


def _lines(load: Load, request: Request, target: Target) -> str:
    body = option("@{}", body_file(load, request))
    lines = [f"{request.method} {target.origin}{request.path}", *header_lines(request), *body]
    return "".join(f"{line}\n" for line in lines)


def _argv(load: Load, target: Target) -> list[str]:
    return [
        *("vegeta", "attack", f"-targets={TARGETS}", f"-output={'stdout' if load.histogram else '/dev/null'}"),
        *("-redirects=-1", f"-connections={load.connections}", f"-max-connections={load.connections}"),
        # As fast as possible: one worker for each connection, or each stream of one.
        *option("-rate=0 -max-workers={}", load.rate is None and load.in_flight),
        *option("-rate={}", load.rate and _rate(load.rate)),
        *option("-duration={:.9f}s", load.duration_s),
        *option("-h2c", target.protocol == "h2c"),
        *option("-root-certs={}", target.ca_file),
        *option("-http2=false", target.protocol == "https1"),  # otherwise it offers HTTP/2 over TLS
        *option("-keepalive=false", not load.keepalive),
        *option("-timeout={:g}s", load.timeout_s),
        *load.extra_args,
    ]


def _rate(per_s: float) -> str:
    return f"{per_s:.0f}/1s" if per_s == int(per_s) else f"{per_s * 1000:.0f}/1000s"


def _interval_ns(load: Load) -> int:
    if load.rate is None:
        return 0
    hits, _, per = _rate(load.rate).partition("/")
    return int(per.removesuffix("s")) * NS_PER_S // int(hits)


TOOL = Tool(
    name="vegeta",
    binary="vegeta",
    argv=_argv,
    format=FORMAT,
    summary=None,
    measure=measure,
    rows=ROWS,
    go_program=PROGRAM,
    rate=RateSupport(is_open=True, clocks="one", interval_ns=_interval_ns),
    options=frozenset({"duration_s", "keepalive", "rate", "timeout_s", "extra_args"}),
    requests=RequestSupport(mix="in turn"),
    files=_files,
    validate=_validate,
    limits=LoadLimits(ends="time", rate_step=0.001, one_http2_connection=True),
    protocols=frozenset({"http1", "https1", "h2", "h2c"}),
    tls=TlsSupport(verifies=True, sends_name=False, resumes=False),
    validate_target=_validate_target,
)
