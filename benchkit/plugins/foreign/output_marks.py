"""The marks of a load in outputs of load tools: streams and target rates. Pure.

Each is searched for where its tool states it: in its document, in its text, or in the command line above the output.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_NUMBER = r"\"?(\d+(?:\.\d+)?)"
_STREAMS: Mapping[str, str] = {
    "h2load": r"\s(?:-m\s*|--max-concurrent-streams[= ])(\d+)",
    "autocannon": rf"\s(?:-p\s*|--pipelining[= ])(\d+)|with (\d+) pipelining factor|\"pipelining\":\s*{_NUMBER}",
    "oha": r"\s-p\s*(\d+)",
    "zrk": rf"\"streams\":\s*{_NUMBER}",
}
_RATES: Mapping[str, str] = {
    "wrk": r"[\s/\\]wrk2?\b.*\s(?:-R\s*|--rate[= ])(\d+k?)\b",
    "wrk2": r"[\s/\\]wrk2?\b.*\s(?:-R\s*|--rate[= ])(\d+k?)\b",
    "oha": r"[\s/\\]oha\b.*\s-q\s*(\d+)",
    "bombardier": r"[\s/\\]bombardier\b.*\s(?:-r\s*|--rate[= ])(\d+)",
    "autocannon": r"[\s/\\]autocannon\b.*\s(?:-R\s*|--overallRate[= ])(\d+)",
    "fortio": rf"\"RequestedQPS\":\s*{_NUMBER}|\bat (\d+(?:\.\d+)?) q(?:ps|ueries per second)",
    "zrk": rf"\"target_rate\":\s*{_NUMBER}",
    "loadtest": r"Target rps:\s*(\d+)|Agent:[^\n]*\n[^\n]*Requests per second:\s*(\d+)"
    r"|\brequestsPerSecond[\"']?:\s*(\d+)|[\s/\\]loadtest\b.*\s--rps[= ](\d+)",
    "nighthawk": rf"\"(?:requests_per_second|RequestedQPS)\":\s*{_NUMBER}",
}
_CONTINUED = re.compile(r"[\\`^]\n")
"""End of a line of a command that continues on the next line, in any shell."""
_UNSAMPLED = re.compile(r"Req/Sec\s+-?nan")
"""A row of wrk2 in a run that ended before it was calibrated."""
_OPEN: Mapping[str, re.Pattern[str]] = {
    "k6": re.compile(r"iterations/s[^\n]*\(maxVUs:|constant-arrival-rate|ramping-arrival-rate|dropped_iterations"),
    "h2load": re.compile(r"[\s/\\]h2load\b.*\s--rps[= ]"),
    "oha": re.compile(r"[\s/\\]oha\b.*\s--burst-(?:rate|delay)[= ]"),
}
_RATIO = re.compile(rf"\"rate_ratio\":\s*{_NUMBER}")
_CLOSED = re.compile(r"\"closed\":\s*true")


@dataclass(frozen=True)
class OutputMarks:
    """The load as an output states it; None for what it does not state."""

    streams: int | None = None
    target_rate: float | None = None
    rate_ratio: float | None = None
    is_open: bool = False
    """True: requests or iterations were due at a rate, whether or not earlier ones were answered."""


def marks_of(tool: str, text: str) -> OutputMarks:
    """Return the load that the text of one run of a tool states."""
    if tool == "zrk" and _CLOSED.search(text):
        return OutputMarks(streams=_count(_STREAMS[tool], text))
    whole_commands = "\n " + _CONTINUED.sub(" ", text)
    rate = _first(_RATES.get(tool), whole_commands)
    rate = None if rate == "0" else rate  # fortio states 0 for full speed
    ratio = _RATIO.search(text) if tool == "zrk" else None
    return OutputMarks(
        streams=_count(_STREAMS.get(tool), text),
        target_rate=None
        if rate is None
        else float(rate.removesuffix("k")) * (1e3 if rate.endswith("k") else 1) or None,
        rate_ratio=float(ratio[1]) if ratio else None,
        is_open=rate is not None
        or (tool == "wrk" and _UNSAMPLED.search(text) is not None)
        or (tool in _OPEN and _OPEN[tool].search(whole_commands) is not None),
    )


_COMMAND = re.compile(
    r"\b(wrk2?|hey|ab|oha|bombardier|autocannon|h2load|siege|plow|rewrk)\b((?:\s+(?:-|[^\s|<>]*://|[\w.\"']+(?=\s|$))[^\s|]*)+)"
)
_CONNECTIONS = re.compile(r"\s(?:-c|--connections|--concurrency)[ =]?(\d+)\b")
_STATED = re.compile(
    r"\bthreads?(?:,| and|;| /)? (\d[\d,]*) (?:concurrent )?connections\b|"
    r"\b(\d[\d,]*) (?:concurrent )?connections(?:,| and| /)? \d+ (?:wrk )?threads\b",
    re.IGNORECASE,
)
_WAITS = re.compile(r"\b(?:k6|locust|jmeter|gatling|artillery|wrk2)\b|\s(?:-R|-q|--rate|--qps)[ =]?\d", re.IGNORECASE)


@dataclass(frozen=True)
class TextMarks:
    """The load as the text around a table states it."""

    connections: int | None = None
    is_open: bool = False
    """True: a rate was held, or users may have waited between requests."""


def marks_of_text(text: str) -> TextMarks:
    """Return the connections that a text states, where all are the same, and whether a rate was held."""
    commands = [match[0] for match in _COMMAND.finditer(text)]
    stated = {int(found) for command in commands for found in _CONNECTIONS.findall(command)}
    stated |= {int((a or b).replace(",", "")) for a, b in _STATED.findall(text)}
    return TextMarks(stated.pop() if len(stated) == 1 else None, _WAITS.search(text) is not None)


def _first(pattern: str | None, text: str) -> str | None:
    return next(_groups(pattern, text), None) if pattern else None


def _count(pattern: str | None, text: str) -> int | None:
    found = _first(pattern, text)
    return None if found is None else round(float(found))


def _groups(pattern: str, text: str) -> Iterator[str]:
    for match in re.finditer(pattern, text):
        yield from (group for group in match.groups() if group)
