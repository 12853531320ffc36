"""wrk: its command line, and its output.

Its command line, read from its source (src/wrk.c):

- It opens connections ÷ threads, rounded down, in each thread.
- By itself it sends GET without a body. A script has it send other requests, and all headers: everybody on its host
  could read them as arguments.
- Certificates are never verified. A connection that is opened again resumes its session.
- A thread looks ten times a second (`RECORD_INTERVAL_MS`) at whether the time is over, and sends requests until then.

Its output, read from the sources of wrk and wrk2 (src/wrk.c, src/stats.c, src/units.c):

- Two decimals in a unit that changes at 85 % of the next one: 0.85 ms, 0.90m. K, M and G are 1024 for bytes.
- Since version 4 wrk adds samples for coordinated omission. In wrk2 times count from when a request should have been
  sent. The text has the version only with `-v`.
- Answers later than the timeout are counted as `timeout` and have no latency since version 4. Before, and in wrk2, a
  waiting connection is counted again at every check.
- "Non-2xx or 3xx responses" counts status above 399. That line, and "Socket errors", are printed unless all are zero.
- Latency runs from writing the request to the end of the answer, without connecting.
- wrk2 prints "Thread calibration", and "HdrHistogram" in the heading of its distribution. "Uncorrected" counts from
  sending. A fork has the 99th percentile where others have the maximum.
- Where no answer was recorded the row reads `0.00us 0.00us 0.00us -nan%`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import ClassVar

from benchkit.loadtools.reader import Action, Figures, OutputFormat, Reader
from benchkit.loadtools.text import BINARY_SIZES, has_line, is_not_a_number, parse_quantity, parse_time, several_runs
from benchkit.loadtools.tool import (
    LoadLimits,
    ParsedOutput,
    RequestSupport,
    Target,
    TlsSupport,
    Tool,
    ToolOutput,
    UnsupportedField,
    body_file,
    body_files,
    has_body,
    option,
)
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult, Note
from benchkit.models.request import Request, has_header

REQUESTS = Path(__file__).with_name("requests.lua")
"""Lua script that draws the requests of a load."""
HISTOGRAM = Path(__file__).with_name("histogram.lua")
"""Lua script that prints wrk's whole latency histogram and its exact counters after wrk's own text."""

_BEGINNING = re.compile(r"(?:Running \S+ test @|Making \S+ requests to) (?P<target>\S+).*")
_TIME = r"(?:-?(?:nan|inf)(?:us|ms|s)?|[0-9.]{1,24}[^\s0-9.%]{0,2})"
_COMMAND = r"\S*\bwrk2?\s.*\s-R\s*[0-9].*"
"""A command line of wrk2: wrk has no `-R`."""


class _WrkReader(Reader):
    tool = "wrk"
    covers = "request"
    figures: ClassVar[Figures] = {
        "duration_s": parse_time,
        **dict.fromkeys(("bytes_total", "bytes_per_s"), lambda token: parse_quantity(token, BINARY_SIZES)),
    }

    is_wrk2: bool = False
    column: str | None = None
    """Name of the third column of "Thread Stats": Max, or 99% in a fork."""
    within: str | None = None
    section: dict[str, float] | None = None
    """Percentiles of the distribution that is being read."""
    uncorrected: dict[str, float] | None = None
    """wrk2's distribution of times from sending, which is used where the text has no other latency."""
    has_hdr = False
    """True where the text names its distribution as wrk2 does."""

    def lines(self) -> Mapping[str, Action | None]:
        return {
            _BEGINNING.pattern: None,
            r"(?P<threads>\S+) threads? and (?P<connections>\S+) connections?": None,
            r"(?:\^C\s*)?Thread Stats\s+Avg\s+Stdev\s+(?P<column>Max|99%)\s+\+/- Stdev": None,
            r"([0-9]{1,3}(?:\.[0-9]{1,6})?)%\s+(\S+)": self.read_percentile,
            rf"Latency\s+(?P<mean>{_TIME})\s+(?P<stdev>{_TIME})(?:\s+|(?=1000\.00ms))(?P<max>{_TIME})"
            r"\s+(?P<within>\S+?)%?": None,
            r"Req/Sec\s+(?P<sampled_rate>\S+)\s.*": None,
            r"(?P<requests>\S+) requests in (?P<duration_s>\S+),\s+(?P<bytes_total>\S+) read": None,
            r"Socket errors: connect (?P<errors_connect>\S+), read (?P<errors_read>\S+), write (?P<errors_write>\S+), "
            r"timeout (?P<errors_timeout>\S+)": None,
            r"Non-2xx or 3xx responses:\s*(?P<non_2xx>\S+)": None,
            r"Requests/sec:\s*(?P<rps>\S+)": None,
            r"Transfer/sec:\s*(?P<bytes_per_s>\S+)": self.read_end,
            r"Latency Distribution(?:\s+\(HdrHistogram - (.*)|\s+\(.*)?": self.read_distribution,
            rf"Thread calibration: mean lat.*|{_COMMAND}": lambda _match: setattr(self, "is_wrk2", True),
            r"wrk\s+(?P<tool_version>\S+) \[\w+\] Copyright.*": None,
        }

    def has_figures(self) -> bool:
        own = {"threads", "mean", "requests", "errors_connect", "bytes_per_s", "non_2xx"}
        return bool(self.tokens.keys() & own) or self.has_hdr

    def time(self, token: str) -> float | None:
        return 1.0 if token == "1000.00m" else super().time(token)  # noqa: S105 - truncated to the width of its column

    def read_distribution(self, match: re.Match[str]) -> None:
        is_uncorrected = (match[1] or "").startswith("Uncorrected")
        if self.uncorrected is not None if is_uncorrected else self.percentiles:
            raise several_runs("wrk", match[0])
        if is_uncorrected:
            self.uncorrected = {}
        self.section = self.uncorrected if is_uncorrected else self.percentiles
        self.has_hdr = match[1] is not None
        self.is_wrk2 = self.is_wrk2 or self.has_hdr

    def read_percentile(self, match: re.Match[str]) -> None:
        if self.section is not None and not is_not_a_number(match[2]):
            self.add(self.section, f"{float(match[1]):g}", self.time(match[2]), match[0])

    def read_end(self, match: re.Match[str]) -> None:
        self.set_figures(match)
        if self.tokens.keys() & {"threads", "mean"}:  # else an excerpt
            self.rules = {_BEGINNING: self.read_second}  # else the output of a Lua script's done() follows

    def read_second(self, match: re.Match[str]) -> None:
        raise several_runs("wrk", match[0])

    def result(self) -> LoadResult:
        self.corrected = True if self.is_wrk2 else _corrects(self.tool_version)
        notes = list(self._notes())
        if not self.percentiles and self.requests is None and self.uncorrected:
            self.percentiles, self.corrected = self.uncorrected, False
        if self.column != "Max":
            third = self.times.pop("max", None)
            self.times["99"] = third if self.column else None
        required = (self.tokens.get("mean"), self.column, self.requests, self.duration_s, self.rps, self.bytes_per_s)
        has_row = self.times.get("mean") is not None and not is_not_a_number(self.within or "")
        is_empty = bool(self.percentiles) and not any(self.percentiles.values())
        if self.bytes_per_s is not None and self.duration_s is not None and not self.unread:
            for name in ("errors_connect", "errors_read", "errors_write", "errors_timeout", "non_2xx"):
                setattr(self, name, getattr(self, name) or 0)  # wrk prints no line of zeros
        return self.load_result(
            tool="wrk2" if self.is_wrk2 else "wrk",
            is_measured=self.requests != 0 and not is_empty and (has_row or "mean" not in self.tokens),
            complete=not self.unread and None not in required,
            notes=notes,
        )

    def _notes(self) -> Iterator[Note]:
        if self.tokens.get("sampled_rate", "").lstrip("-") == "nan":
            message = "no rate was sampled: the run was shorter than the tool's calibration (10 s in wrk2)"
            yield Note(code="short-run", message=message)
        if self.corrected and not self.is_wrk2:
            message = "wrk 4 adds samples for coordinated omission: mean and percentiles include them"
            yield Note(code="wrk-corrected", message=message)
        elif self.corrected is None:
            message = (
                "the version is unknown (wrk -v prints it); since version 4 wrk adds samples for coordinated omission"
            )
            yield Note(code="wrk-version-unknown", message=message)
        if self.threads and self.connections and self.connections % self.threads:
            opened = self.connections // self.threads * self.threads
            message = f"{self.connections} connections cannot be divided by {self.threads} threads: wrk opened {opened}"
            yield Note(code="connections-not-divided", message=message)
        if self.errors_timeout:
            message = (
                "wrk 4 counts late answers, and not those that never came; wrk 3 and wrk2 count a waiting connection "
                "again at every check"
            )
            yield Note(code="timeouts", message=message)


def parse(text: str) -> LoadResult:
    """Return the result that wrk or wrk2 printed. Raises ParseError for other text, and for several runs."""
    return _WrkReader().read(text)


def parse_wrk2(text: str) -> LoadResult:
    """Return the result that wrk2 printed, with or without its marks. Raises ParseError as `parse` does."""
    reader = _WrkReader()
    reader.is_wrk2 = True
    result = reader.read(text)
    message = "latencies count from when a request was due at wrk2's target rate, which it does not print"
    open_loop = Note(code="open-loop", message=message)
    return result.model_copy(update={"notes": (*result.notes, open_loop)}) if result.latency.corrected else result


def _corrects(version: str | None) -> bool | None:
    """Return whether this version of wrk adds samples for coordinated omission; None where the version is unknown."""
    match = re.search(r"([0-9]{1,3})\.[0-9]", version or "")
    return None if match is None else int(match[1]) >= 4  # noqa: PLR2004 - the first version that does


_is_wrk2 = has_line("Thread calibration: mean lat", r"Latency Distribution \(HdrHistogram", rf"(?:\$ )?{_COMMAND}$")
"""True for a text with lines that wrk2 prints, or a command line of it, and wrk does not."""
_has_mark = has_line(
    r"[0-9]+ threads? and [0-9]+ connections?$",
    r"Thread Stats\s+Avg\s+Stdev",
    r"[0-9]+ requests in [0-9.]+[a-z]+,\s+[0-9.]+[KMGTP]?B read",
    r"Socket errors: connect [0-9]+, read [0-9]+",
    "Non-2xx or 3xx responses: ",
    r"Transfer/sec:\s",
)
FORMAT = OutputFormat("wrk", lambda text: _has_mark(text) and not _is_wrk2(text), parse)
WRK2_FORMAT = OutputFormat(
    "wrk2",
    lambda text: _is_wrk2(text) and (_has_mark(text) or "HdrHistogram" in text),
    parse_wrk2,
    dialect_of="wrk",
)


def is_plain(load: Load) -> bool:
    """Return whether a load is one GET without a body, which wrk formats once and for all."""
    mix = load.request_mix
    return len(mix) == 1 and mix[0].method == "GET" and not has_body(mix[0])


def request_script(load: Load) -> str:
    """Return the script that has wrk send the requests of a load; a plain request is formatted only once."""
    if is_plain(load):
        sent = sent_headers(load, load.request_mix[0])
        return "".join(f"wrk.headers[{_lua_string(name)}] = {_lua_string(value)}\n" for name, value in sent)
    weights = list(accumulate(request.weight for request in load.request_mix))
    limits = ", ".join(f"{weight / weights[-1]:.17g}" for weight in weights)
    formats = "".join(f"      wrk.format({_format_arguments(load, request)}),\n" for request in load.request_mix)
    data = f"local limits = {{{limits}}}\nlocal function formatted(content)\n   return {{\n{formats}   }}\nend\n"
    return data + REQUESTS.read_text(encoding="utf-8")


def sent_headers(load: Load, request: Request) -> Iterator[tuple[str, str]]:
    """Yield the headers of a request; `Host` in the spelling by which wrk knows that it need not add its own."""
    for name, value in request.headers.items():
        yield "Host" if name.lower() == "host" else name, str(value)
    if not load.keepalive and not has_header(request.headers, "connection"):
        yield "Connection", "close"


def _format_arguments(load: Load, request: Request) -> str:
    headers = ", ".join(f"[{_lua_string(name)}] = {_lua_string(value)}" for name, value in sent_headers(load, request))
    body = body_file(load, request)
    empty = "nil" if request.content_length is None else '""'
    contents = f"content({_lua_string(body)})" if body else empty
    return f"{_lua_string(request.method)}, {_lua_string(request.path)}, {{{headers}}}, {contents}"


def _lua_string(text: str) -> str:
    escaped = text.replace("\\", r"\\").replace('"', r"\"")
    return f'"{escaped}"'


SCRIPT = "benchkit.lua"
"""Script with which wrk is started, in its working directory."""


def _measure(output: ToolOutput) -> ParsedOutput:
    from benchkit.loadtools.tools.wrk_histogram import measure  # noqa: PLC0415 - numpy is slow to import

    return measure(output.stdout, parse(output.stdout))


def _validate(load: Load) -> Iterable[UnsupportedField]:
    own = [argument for argument in load.extra_args if argument.startswith(("-s", "--script"))]
    if own and not load.histogram and _has_script(load):
        yield UnsupportedField("extra_args", "wrk takes one script, and benchkit sends these requests by it")


def _has_script(load: Load) -> bool:
    return load.histogram or not is_plain(load) or any(sent_headers(load, load.request_mix[0]))


def _files(load: Load, target: Target) -> Mapping[str, bytes]:
    if not _has_script(load):
        return {}
    histogram = HISTOGRAM.read_text(encoding="utf-8") if load.histogram else ""
    return {SCRIPT: (request_script(load) + histogram).encode(), **body_files(load, target)}


def _argv(load: Load, target: Target) -> list[str]:
    return [
        *("wrk", "-v", f"-t{load.threads}", f"-c{load.connections}", f"-d{load.duration_s:.0f}s", "--latency"),
        *option("-s {}", _has_script(load) and SCRIPT),
        *option("--timeout {:.0f}s", load.timeout_s),
        *load.extra_args,
        target.origin + (load.request_mix[0].path if is_plain(load) else ""),
    ]


TOOL = Tool(
    name="wrk",
    binary="wrk",
    argv=_argv,
    format=FORMAT,
    measure=_measure,
    options=frozenset({"threads", "duration_s", "keepalive", "timeout_s", "extra_args"}),
    requests=RequestSupport(mix="drawn"),
    files=_files,
    validate=_validate,
    limits=LoadLimits(
        ends="time",
        duration_step_s=1,
        timeout_step_s=1,
        thread_has_connection=True,
        reserved=("-s", "--script"),
    ),
    protocols=frozenset({"http1", "https1"}),
    tls=TlsSupport(verifies=False, sends_name=False, resumes=True),
    overrun_s=0.1,
)
