"""The command line of wrk: closed loop over keep-alive connections, HTTP/1.1, GET.

Limits, read from its source (src/wrk.c):

- It opens connections ÷ threads, rounded down, in each thread.
- Its summary has few percentiles and two decimals: a Lua script has it print its whole histogram and exact counters.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from benchkit.load.tools.tool import (
    Objection,
    ParsedOutput,
    Tool,
    ToolOutput,
    header_lines,
    reserved_arguments,
    whole_seconds,
)
from benchkit.load.tools.wrk.output import parse
from benchkit.models.load import Load

SCRIPT = Path(__file__).with_name("histogram.lua")
"""Lua script that prints wrk's whole latency histogram and its exact counters after wrk's own text."""


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.load.tools.wrk.measure import measure  # noqa: PLC0415 - numpy is slow to import

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


def _files(load: Load, _url: str) -> Mapping[str, str]:
    return {SCRIPT.name: SCRIPT.read_text(encoding="utf-8")} if load.histogram else {}


def _argv(load: Load, url: str) -> list[str]:
    argv = ["wrk", "-v", f"-t{load.threads}", f"-c{load.connections}", f"-d{load.duration_s:.0f}s", "--latency"]
    if load.histogram:
        argv += ["-s", SCRIPT.name]
    if load.timeout_s is not None:
        argv += ["--timeout", f"{load.timeout_s:.0f}s"]
    closing = [] if load.keepalive else ["Connection: close"]
    for line in [*header_lines(load), *closing]:
        argv += ["-H", line]
    return [*argv, *load.extra_args, url]


TOOL = Tool(
    name="wrk",
    binary="wrk",
    argv=_argv,
    parse=parse,
    measure=_measure,
    options=frozenset({"threads", "duration_s", "keepalive", "headers", "timeout_s", "extra_args"}),
    files=_files,
    check=_check,
)
