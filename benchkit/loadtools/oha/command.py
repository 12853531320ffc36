"""The command line of oha: closed loop, or an open loop at a rate.

Behaviour, read from its source (1.16.0: src/lib.rs, client.rs, printer.rs, tls_config.rs):

- At a rate (`-q`) requests are due at the ticks of one clock, and wait for a connection that is free. With
  `--latency-correction` their times count from when they were due. It does not say how much later it sent them.
- Requests in flight at the end of the time are waited for (`-w`; in HTTP/2 always). Without `-w` oha aborts them, and
  the server counts more requests than oha. With `-w` it would wait without end for a connection that the server's
  queue dropped: `-t` limits a request to 30 s, and without a rate to the window's length if that is shorter.
- `-p` streams of HTTP/2 on each connection; it asks for HTTP/2 strictly, without TLS with prior knowledge.
- Over HTTP/3 and without a rate it never drops its sender of requests (src/client_h3.rs,
  `http3_connection_fast_work_until`). It waits until the idle time-out of QUIC closes its connections: 30 s (quinn), or
  less where the server's is shorter. Its total time and its rate include that wait, no signal shortens it, and the
  result is printed after it.
- At a rate over HTTP/3, requests that are due when it ends fail with "Remote is closing the connection", one a stream.
- `--disable-keepalive` is ignored over HTTP/2 and HTTP/3.
- It keeps every time in memory and prints percentiles. Its rows (`--output-format csv`) lack failed requests, so that
  benchkit reads its JSON.
- Certificates are verified by the host's authorities and by `--cacert`. Sessions are resumed.
- It accepts compressed responses unless told otherwise: other tools ask for none.
"""

from __future__ import annotations

from collections.abc import Iterable

from benchkit.loadtools.oha.output import parse
from benchkit.loadtools.tool import (
    ParsedOutput,
    RateSupport,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    body_file,
    either_time_or_count,
    files_of_paths,
    header_lines,
    longest_answer_s,
    with_zero_length,
)
from benchkit.models.load import Load
from benchkit.models.protocol import has_streams, is_http2

RESOLUTION_S = 1e-9
URLS = "oha.urls"
"""File with the URLs of several requests."""


def _measure(output: ToolOutput) -> ParsedOutput:
    """Return what oha measured: its own count of requests includes those that failed."""
    result = parse(output.stdout)
    answered = sum(result.status.values())
    exact = {
        "requests": answered,
        "rps": answered / result.duration_s if result.duration_s else None,
        "latency": result.latency.model_copy(update={"resolution_s": RESOLUTION_S, "corrected": False}),
    }
    return ParsedOutput(result.model_copy(update=exact), None)


def _validate_target(load: Load, target: Target) -> Iterable[str]:
    if target.protocol == "h3" and load.rate is not None:
        yield "rate: oha counts requests at its end as failed over h3; openloop holds a rate there"


def _argv(load: Load, target: Target) -> list[str]:
    first = load.request_mix[0]
    argv = ["oha", "--no-tui", "--no-color", "--output-format=json", "--disable-compression", "--redirect=0"]
    argv.append(f"-c{load.connections}")
    if has_streams(target.protocol):
        argv += ["--http2" if is_http2(target.protocol) else "--http-version=3", f"-p{load.streams}"]
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
    validate=either_time_or_count,
    validate_target=_validate_target,
    protocols=frozenset({"http1", "https1", "h2", "h2c", "h3"}),
    builds={"h3": "built with `--features http3`"},
    tls=TlsSupport(verifies=True, sends_name=True, resumes=True),
    lingers_s={"h3": 30.0},
    load_notes=lambda _load: (
        "oha prints percentiles, not every time: several generators' or slices' cannot be merged.",
    ),
)
