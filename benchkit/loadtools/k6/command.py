"""The command line of k6: closed loop, a rate for all virtual users, or a script of the user's own.

Behaviour, read from its source (1.8.1: lib/executor, lib/netext/httpext, output, internal/output/csv):

- Each virtual user has a connection of its own, also of HTTP/2, and one request in flight.
- At a rate, a request that is due while every virtual user waits is dropped, and never made up for. Times count from
  when a request was sent.
- Requests in flight when the time is over are waited for (`gracefulStop`); interrupted ones are counted nowhere.
- Over TLS it offers HTTP/2 and HTTP/1.1, and takes what the server chooses. It verifies certificates by the host's
  authorities or not at all, and resumes no session.
- `--out csv` writes thirteen rows for each request, some 700 bytes, once a second. This made no measurable difference
  to k6's own 80 µs of CPU time a request.
- Options of a script take precedence over those of `--config`, and scenarios replace `vus` and `duration`.
- Its exit code is 99 where a threshold was crossed, and 105 after an interrupt: it prints its summary in both cases.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path, PurePath
from typing import Any

from benchkit.files import BACKENDS
from benchkit.loadtools.k6.output import ROWS, parse
from benchkit.loadtools.tool import (
    NEED_RATE,
    GoProgram,
    ParsedOutput,
    RateSupport,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    body_files,
    either_time_or_count,
    repeated_requests,
    reserved_arguments,
)
from benchkit.models.load import Load

PROGRAM = GoProgram(BACKENDS / "k6", "go.k6.io/k6", "1.8.1", "k6")

SCRIPT = Path(__file__).with_name("load.js")
LOAD, CONFIG = "k6.load.json", "k6.config.json"
URL_VARIABLE = "BENCHKIT_URL"
"""Environment variable in which a script of the user's own finds the address: `http://10.0.0.2:8080`."""
GRACE_S = 30
"""Time for the answers to the last requests."""
LONGEST = "168h"
TREND_STATS = ("min", "avg", "med", "max", "p(75)", "p(90)", "p(95)", "p(99)", "p(99.9)", "p(99.99)")
TAGS = ("status", "error", "error_code")
"""Columns of the rows."""
THRESHOLD_CROSSED = 99
STATED_BY_SCRIPTS = ("request_count", "rate", "keepalive", "timeout_s", "requests", "traffic")


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.k6.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


def _validate(load: Load) -> Iterable[UnsupportedField]:
    if load.script is not None:
        yield from _validate_script(load)
        return
    yield from either_time_or_count(load)
    yield from reserved_arguments(load, "k6", "--out", "-o")
    if load.duration_s is not None and load.duration_s < 1:
        yield UnsupportedField("duration_s", f"k6 runs for a second at least, not {load.duration_s:g} s")
    if load.rate is not None and load.request_count is not None:
        yield UnsupportedField("request_count", "at a rate k6 runs for a time")
    if load.rate is not None and load.rate != round(load.rate * 1000) / 1000:
        yield UnsupportedField("rate", f"k6 takes thousandths of a request per second, not {load.rate!r}")
    if load.request_count is not None and load.request_count < load.connections:
        yield UnsupportedField("request_count", f"k6 needs at least one for each of {load.connections} connections")


def _validate_script(load: Load) -> Iterable[UnsupportedField]:
    if load.duration_s is None:
        yield UnsupportedField("duration_s", "a script needs the length of its measured window")
    for name in (*STATED_BY_SCRIPTS, *NEED_RATE):
        if getattr(load, name) != Load.model_fields[name].default:
            yield UnsupportedField(name, "the script states its own")


def _validate_target(load: Load, _target: Target) -> Iterable[str]:
    if load.streams > 1:
        yield "streams: a virtual user of k6 has one request in flight, and a connection of its own"


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    if load.script is not None:
        options = {"vus": load.connections, "duration": f"{load.duration_s:g}s", "insecureSkipTLSVerify": True}
        return {CONFIG: json.dumps(options | _hosts(target)).encode(), **load.script_files}
    mix = load.request_mix
    requests = [
        {
            "method": request.method,
            "url": target.named_origin + request.path,
            "headers": {name: str(value) for name, value in request.headers.items()},
            "body": body_file(load, "k6", request),
        }
        for request in mix
    ]
    document = {
        "options": {**_options(load), **_hosts(target)},
        "params": {} if load.timeout_s is None else {"timeout": f"{load.timeout_s * 1000:.0f}ms"},
        "requests": requests,
        "order": load.order or [mix.index(request) for request in repeated_requests(load)],
    }
    return {SCRIPT.name: SCRIPT.read_bytes(), LOAD: json.dumps(document).encode(), **body_files(load, "k6")}


def _options(load: Load) -> dict[str, Any]:
    """Return the options of the script that has k6 generate this load."""
    return {
        "scenarios": {"load": _scenario(load)},
        "discardResponseBodies": True,
        "insecureSkipTLSVerify": True,
        "noConnectionReuse": not load.keepalive,
        "summaryTrendStats": TREND_STATS,
        "systemTags": TAGS,
    }


def _scenario(load: Load) -> dict[str, Any]:
    grace = f"{GRACE_S}s"
    if load.duration_s is None:
        return {
            "executor": "shared-iterations",
            "vus": load.connections,
            "iterations": load.request_count,
            "maxDuration": LONGEST,
            "gracefulStop": grace,
        }
    duration = f"{load.duration_s * 1000:.0f}ms"
    if load.rate is None:
        return {"executor": "constant-vus", "vus": load.connections, "duration": duration, "gracefulStop": grace}
    whole = load.rate == int(load.rate)
    return {
        "executor": "constant-arrival-rate",
        "rate": round(load.rate if whole else load.rate * 1000),
        "timeUnit": "1s" if whole else "1000s",
        "duration": duration,
        "preAllocatedVUs": load.connections,
        "maxVUs": load.connections,
        "gracefulStop": grace,
    }


def _hosts(target: Target) -> dict[str, Any]:
    return {} if target.server_name is None else {"hosts": {target.server_name: target.authority}}


def _argv(load: Load, target: Target) -> list[str]:
    argv = [PROGRAM.name, "run", "--quiet", "--no-color", "--no-usage-report", "--address="]
    if load.histogram:
        argv.append("--out=csv=fileName=-,timeFormat=unix_nano")
    if load.script is None:
        return [*argv, *load.extra_args, SCRIPT.name]
    argv += [f"--config={CONFIG}", f"--env={URL_VARIABLE}={target.named_origin}"]
    return [*argv, *load.extra_args, PurePath(load.script).name]


def _load_notes(load: Load) -> Iterator[str]:
    if load.script is not None:
        yield (
            f"{load.script} states its requests itself: benchkit probes {load.request_mix[0]} alone, and knows neither "
            "bodies nor connections of the others."
        )


TOOL = Tool(
    name="k6",
    binary="k6",
    argv=_argv,
    parse=parse,
    measure=_measure,
    rows=ROWS,
    go_program=PROGRAM,
    rate=RateSupport(is_open=False, clocks="one"),
    options=frozenset({"duration_s", "request_count", "keepalive", "rate", "timeout_s", "extra_args", "script"}),
    requests=RequestSupport(
        differing=frozenset({"method", "path", "headers", "body"}), follows_order=True, own_headers=("content-length",)
    ),
    files=_files,
    validate=_validate,
    protocols=frozenset({"http1", "https1", "h2"}),
    tls=TlsSupport(verifies=False, sends_name=True, resumes=False),
    validate_target=_validate_target,
    own_s=10.0,
    exit_codes=frozenset({0, THRESHOLD_CROSSED}),
    load_notes=_load_notes,
)
