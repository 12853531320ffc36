"""The tool's own ceiling was hit."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.metrics import LATENCIES
from benchkit.models.thresholds import Thresholds

HEY_CAP = "hey-cap"
"""The note of hey's parser: it keeps 1,000,000 results (requester/requester.go, maxRes)."""


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """What each tool is known to give up: hey a million results, siege and ab short times, siege its users."""
    return [*_capped(evidence), *_too_short(evidence), *_fewer(evidence)]


CHECK = Check("tool-limit", "the load tool's own ceiling was hit", of_trial=of_trial)


def _capped(evidence: Evidence) -> Iterator[Finding]:
    if HEY_CAP in evidence.notes:
        yield Finding(
            severity="invalid",
            metrics=LATENCIES,
            seen=evidence.notes[HEY_CAP],
            threshold="1,000,000 results a process",
            means="Times are of the beginning of the window alone; the rate counts every request.",
            advice="Use more hey processes, a shorter window, or wrk.",
        )


def _too_short(evidence: Evidence) -> Iterator[Finding]:
    """Times below the step in which the tool states them are absent in `trials`."""
    step = evidence.number("latency_resolution_s")
    if step is not None and evidence.number("requests") and evidence.number("latency_mean_s") is None:
        tool = evidence.row.tool
        yield Finding(
            severity="suspect",
            metrics=LATENCIES,
            seen=f"the mean time is below the {units.seconds(step)} in which {tool} tells times",
            threshold="at least one step",
            means="Of such times the tool says no more than that they are short; its percentiles are steps.",
            advice="Use wrk or vegeta, which tell microseconds, for times as short as these.",
        )


def _fewer(evidence: Evidence) -> Iterator[Finding]:
    """A tool that says it used another number of connections than it was told to."""
    for generator in evidence.record.generators:
        said = None if generator.result is None else generator.result.connections
        if said is not None and said != generator.load.connections:
            yield Finding(
                severity="invalid",
                metrics=ALL,
                seen=f"asked for {units.counted(generator.load.connections, 'connection')}, the tool says {said:,}",
                threshold="as many as asked for",
                means="The server was measured under another load than the cell says.",
                advice="Stay below the tool's limit, or use more processes of it.",
            )
