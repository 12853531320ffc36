"""The command line of wrk: closed loop, HTTP/1.1.

Limits, read from its source (src/wrk.c):

- It opens connections ÷ threads, rounded down, in each thread.
- By itself it sends GET without a body. A script has it send other requests (`script.py`), and all headers: in its list
  of arguments everybody on its host could read them.
- Certificates are never verified (src/ssl.c). A connection that is opened again resumes its session: `SSL_clear` keeps
  it. TLS version and ciphers cannot be set.
- A thread looks ten times a second (`RECORD_INTERVAL_MS`) at whether the time is over, and sends requests until then.
- Its summary has few percentiles and two decimals: a Lua script has it print its whole histogram and exact counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchkit.loadtools.requests import RequestSupport, body_files
from benchkit.loadtools.target import Target
from benchkit.loadtools.tool import (
    Objection,
    ParsedOutput,
    TlsSupport,
    Tool,
    ToolOutput,
    reserved_arguments,
    whole_seconds,
)
from benchkit.loadtools.wrk.output import parse
from benchkit.loadtools.wrk.script import is_plain, request_script, sent_headers
from benchkit.models.load import Load

SCRIPT = "benchkit.lua"
"""Script with which wrk is started, in its working directory."""
HISTOGRAM = Path(__file__).with_name("histogram.lua")
"""Lua script that prints wrk's whole latency histogram and its exact counters after wrk's own text."""


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.wrk.measure import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output)


def _check(load: Load) -> Iterable[Objection]:
    yield from whole_seconds(load.duration_s, "duration_s", "wrk")
    yield from whole_seconds(load.timeout_s, "timeout_s", "wrk")
    if load.duration_s is None:
        yield Objection("duration_s", "wrk runs for a time, not for a count of requests")
    if load.connections < load.threads:
        yield Objection(
            "threads", f"{load.threads} threads need at least {load.threads} connections, not {load.connections}"
        )
    yield from reserved_arguments(load, "wrk", "-s", "--script")
    if (
        not load.histogram
        and _has_script(load)
        and any(each.startswith(("-s", "--script")) for each in load.extra_args)
    ):
        yield Objection("extra_args", "wrk takes one script, and benchkit sends these requests by it")


def _has_script(load: Load) -> bool:
    return load.histogram or not is_plain(load) or any(sent_headers(load, load.request_mix[0]))


def _files(load: Load, _target: Target) -> Mapping[str, bytes]:
    if not _has_script(load):
        return {}
    histogram = HISTOGRAM.read_text(encoding="utf-8") if load.histogram else ""
    return {SCRIPT: (request_script(load) + histogram).encode(), **body_files(load, "wrk")}


def _argv(load: Load, target: Target) -> list[str]:
    argv = ["wrk", "-v", f"-t{load.threads}", f"-c{load.connections}", f"-d{load.duration_s:.0f}s", "--latency"]
    if _has_script(load):
        argv += ["-s", SCRIPT]
    if load.timeout_s is not None:
        argv += ["--timeout", f"{load.timeout_s:.0f}s"]
    return [*argv, *load.extra_args, target.origin + (load.request_mix[0].path if is_plain(load) else "")]


TOOL = Tool(
    name="wrk",
    binary="wrk",
    argv=_argv,
    parse=parse,
    measure=_measure,
    options=frozenset({"threads", "duration_s", "keepalive", "timeout_s", "extra_args"}),
    requests=RequestSupport(differing=frozenset({"method", "path", "headers", "body"}), weights="drawn"),
    files=_files,
    check=_check,
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=True),
    overrun_s=0.1,
)
