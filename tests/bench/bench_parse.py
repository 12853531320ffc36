"""Parsing of the output of load tools: each recorded summary, many times."""

from __future__ import annotations

import statistics
import time
from contextlib import suppress
from pathlib import Path

from benchkit.errors import ParseError
from benchkit.loadtools.registry import TOOLS

FIXTURES = Path(__file__).parents[1] / "fixtures" / "load"
TIMES = 50
SUMMARY = 5_000
"""Maximum length of a summary in characters; longer recordings are logs of requests."""


def test_a_summary_is_read_within_a_millisecond() -> None:
    """Measure the median time to parse each recorded summary."""
    slowest = ("", 0.0)
    for path in sorted(FIXTURES.glob("*/*.txt")):
        text, parse = path.read_text(), TOOLS[path.parent.name].parse
        if len(text) > SUMMARY:
            continue
        times = []
        for _ in range(TIMES):
            began = time.perf_counter()
            with suppress(ParseError):  # some recordings are of runs that failed to start
                parse(text)
            times.append(time.perf_counter() - began)
        slowest = max(slowest, (path.name, statistics.median(times)), key=lambda each: each[1])
    print(f"\na summary parsed: the slowest of the recorded ones, {slowest[0]}, median {slowest[1] * 1e3:.2f} ms")
    assert slowest[1] <= 0.001
