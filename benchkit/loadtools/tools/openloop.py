"""openloop: its command line, and its output.

Its command line (`backends/openloop`):

- Each request is due at an instant of the schedule. It waits in order for one of the connections; its row states its
  start, and how late that was.
- Arrivals of a constant rate are an interval apart. Random ones are a Poisson process with a fixed number in the
  window (or in each stage of a shape): every trial sends the same number of requests, at other instants.
- Connections are opened before the first request is due; `-lead` is the least time from the start until then.
- In a closed loop a request fails after the length of the window, at most 30 s.
- A new connection resumes the session of its predecessor, where the server issues tickets.

Its output (backends/openloop/record.go):

- `requests` got a response, whatever its status. `errors` are requests that got none, by message.
- `duration_s` is from the first request that was due to the last response; `bytes` counts bodies.
- `tls` has the handshakes of its connections. `early` counts the resumed ones in which the server took early data.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from benchkit import units
from benchkit.errors import ParseError
from benchkit.files import BACKENDS
from benchkit.loadtools.reader import OutputFormat
from benchkit.loadtools.text import Count, Figure, errors_of, has_line, not_output_of, several_runs, split_lines
from benchkit.loadtools.tool import (
    GoProgram,
    LoadLimits,
    RateSupport,
    RequestRows,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    longest_answer_s,
    option,
    repeated_requests,
)
from benchkit.models.base import Frozen
from benchkit.models.load import NS_PER_S, Load, RateStage
from benchkit.models.load_result import Latency, LoadResult, Note
from benchkit.models.protocol import HttpProtocol, Negotiated, has_streams
from benchkit.models.request import CONTENT_LENGTH, Request, has_header
from benchkit.validation import first_fault

_START = '{"openloop":'


class _Handshakes(Frozen):
    alpn: str
    version: str
    cipher: str
    full: Count
    resumed: Count
    early: Count | None = None

    @property
    def negotiated(self) -> Negotiated | None:
        if not self.full + self.resumed:
            return None
        names: Mapping[str, HttpProtocol] = {"http/1.1": "https1", "h2": "h2", "h3": "h3"}
        return Negotiated(
            protocol=names.get(self.alpn), tls_version=self.version.removeprefix("TLS "), cipher=self.cipher
        )


class _Summary(Frozen):
    openloop: Literal[1]
    """Version of the summary."""
    duration_s: Figure
    requests: Count
    bytes: Count
    errors: Mapping[str, Count]
    seed: Annotated[int, Field(ge=0, lt=1 << 64)] | None = None
    tls: _Handshakes | None = None


def parse(text: str) -> LoadResult:
    """Return the result that openloop printed. Raises ParseError for other text, and for several runs."""
    lines = split_lines(text)
    summaries = [line for each in lines if (line := each.strip()).startswith(_START)]
    if not summaries:
        raise not_output_of("openloop", lines)
    if len(summaries) > 1:
        raise several_runs("openloop", summaries[0])
    try:
        output = _Summary.model_validate_json(summaries[0], strict=True)
    except ValidationError as error:
        raise ParseError("not a summary of openloop", why=first_fault(error, _Summary)) from None
    duration_s = output.duration_s or None
    return LoadResult(
        tool="openloop",
        duration_s=duration_s,
        requests=output.requests,
        rps=None if duration_s is None else output.requests / duration_s,
        bytes_total=output.bytes,
        bytes_per_s=None if duration_s is None else output.bytes / duration_s,
        latency=Latency(covers="connect+request", corrected=False),
        errors=errors_of(output.errors),
        failed=sum(output.errors.values()),
        negotiated=None if output.tls is None else output.tls.negotiated,
        notes=tuple(_notes(output)),
    )


def _notes(output: _Summary) -> Iterator[Note]:
    if output.errors:
        messages = [f"{message}: {count}" for message, count in output.errors.items()]
        yield Note(code="openloop-errors", message="; ".join(messages))
    if output.tls is not None and output.tls.early is not None:
        handshakes = units.counted(output.tls.full + output.tls.resumed, "handshake")
        yield Note(
            code="openloop-early-data", message=f"{units.count(output.tls.early)} of {handshakes} had early data"
        )


FORMAT = OutputFormat("openloop", has_line(re.escape(_START)), parse)


REQUESTS, ORDER, DUE = "openloop.requests", "openloop.order", "openloop.due"
PROGRAM = GoProgram(BACKENDS / "openloop", ".", "1", "openloop")
PROTOCOLS: frozenset[HttpProtocol] = frozenset({"http1", "https1", "h2", "h3"})
ROWS = RequestRows("openloop")
"""Every request that got a response, in nanoseconds from when it was due, or in a closed loop from when it was sent."""


def _validate_target(load: Load, _target: Target) -> Iterator[str]:
    if load.streams > 1 and not load.keepalive:
        yield "streams: with keepalive: false a connection has one request"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    numbers = {name: number for number, name in enumerate(load.classes, 1)}
    requests = [
        {"Method": each.method, "Bytes": base64.b64encode(_message(load, each, target)).decode()}
        | ({"Class": numbers[each.class_name], "Size": each.expect.size} if numbers else {})
        for each in (load.request_mix if load.order else repeated_requests(load))
    ]
    files = {REQUESTS: requests, ORDER: load.order, DUE: load.due_ns}
    return {name: json.dumps(content).encode() for name, content in files.items() if content}


def _message(load: Load, request: Request, target: Target) -> bytes:
    headers = {} if has_header(request.headers, "Host") else {"Host": target.server_name or target.authority}
    headers |= {name: str(value) for name, value in request.headers.items()}
    if request.content_length is not None:
        headers[CONTENT_LENGTH] = str(request.content_length)
    if not load.keepalive and not has_streams(target.protocol):
        headers["Connection"] = "close"
    lines = [f"{request.method} {request.path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "".join(f"{line}\r\n" for line in [*lines, ""]).encode() + (request.content or b"")


def _argv(load: Load, target: Target) -> list[str]:
    timeout_s, stages = load.timeout_s, load.stages
    if timeout_s is None and load.rate is None and load.duration_s is not None:
        timeout_s = longest_answer_s(load, is_open=False)  # a later answer is outside of the window
    if load.rate is not None and not load.due_ns and not stages:
        requests = max(1, round(load.rate * (load.duration_s or 0)))
        stages = (RateStage(requests=requests, interval_ns=round(NS_PER_S / load.rate)),)
    return [
        *(PROGRAM.name, f"-address={target.authority}", f"-requests={REQUESTS}", f"-connections={load.connections}"),
        *option("-protocol={}", target.protocol != "http1" and target.protocol),
        *option("-streams={}", has_streams(target.protocol) and load.streams),
        *option("-ca={}", target.ca_file),
        *option("-server-name={}", target.server_name),
        *option("-full-handshakes", target.tls is not None and not target.tls.resumption),
        *option("-early-data", target.tls is not None and target.tls.early_data),
        *option("-order={}", bool(load.order) and ORDER),
        *option("-due={}", bool(load.due_ns) and DUE),
        *option("-duration={:.9f}s", load.rate is None and load.duration_s),
        *option("-stages={}", bool(stages) and ",".join(stage.text for stage in stages)),
        *option("-poisson", bool(stages) and load.arrivals == "poisson"),
        *option("-keepalive=false", not load.keepalive),
        *option("-timeout={:g}s", timeout_s),
        *option("-rows=false", not load.histogram),
    ]


TOOL = Tool(
    name="openloop",
    binary="openloop",
    argv=_argv,
    format=FORMAT,
    summary="stderr",
    rows=ROWS,
    go_program=PROGRAM,
    rate=RateSupport(is_open=True, clocks="one", replays=True),
    options=frozenset({"duration_s", "keepalive", "rate", "arrivals", "shape", "timeout_s"}),
    requests=RequestSupport(mix="in turn", follows_order=True, own_headers=("Connection", "Transfer-Encoding")),
    files=_files,
    limits=LoadLimits(ends="time"),
    protocols=PROTOCOLS,
    reconnects=PROTOCOLS,
    tls=TlsSupport(verifies=True, sends_name=True, resumes=True, sends_early=True),
    validate_target=_validate_target,
    lead=lambda seconds: (f"-lead={seconds:g}s",),
)
