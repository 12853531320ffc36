"""Check tool-limit: the load tool reached its own ceiling."""

from __future__ import annotations

from collections.abc import Iterator

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding
from benchkit.judge.evidence import Evidence
from benchkit.models.metrics import LATENCIES
from benchkit.models.thresholds import Thresholds

HEY_CAP = "hey-cap"
"""Note of hey's parser: hey keeps 1,000,000 results (requester/requester.go, maxRes)."""


def of_trial(evidence: Evidence, _thresholds: Thresholds) -> CheckResult:
    """Check the known ceilings: hey's million results, the resolution of siege and ab, and siege's users."""
    return [*_capped_results(evidence), *_below_resolution(evidence), *_other_connections(evidence)]


CHECK = Check("tool-limit", "the load tool's own ceiling was reached", of_trial=of_trial)


def _capped_results(evidence: Evidence) -> Iterator[Finding]:
    if HEY_CAP in evidence.notes:
        yield Finding(
            severity="invalid",
            metrics=LATENCIES,
            seen=evidence.notes[HEY_CAP],
            threshold="limit: 1,000,000 results per process",
            means="Latencies cover only the beginning of the window; the rate counts every request.",
            advice="Use more hey processes, a shorter window, or wrk.",
        )


def _below_resolution(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding for a mean latency that is absent in `trials` because it is below the tool's resolution."""
    step_s = evidence.number("latency_resolution_s")
    if step_s is not None and evidence.number("requests") and evidence.number("latency_mean_s") is None:
        tool = evidence.row.tool
        yield Finding(
            severity="suspect",
            metrics=LATENCIES,
            seen=f"the mean latency is below the resolution of {tool}, {units.seconds(step_s)}",
            threshold="limit: one step of the resolution",
            means="The tool cannot measure latencies this short; its percentiles are rounded to whole steps.",
            advice="Use wrk or vegeta, which measure microseconds, for latencies this short.",
        )


def _other_connections(evidence: Evidence) -> Iterator[Finding]:
    """Yield a finding for each generator that reports another number of connections than requested."""
    for load, result in evidence.record.outputs:
        reported = result.connections
        if reported is not None and reported != load.connections:
            yield Finding(
                severity="invalid",
                metrics=ALL,
                seen=f"the tool reports {reported:,} of {units.counted(load.connections, 'requested connection')}",
                threshold="limit: the requested number",
                means="The server was measured under another load than the cell states.",
                advice="Stay below the tool's limit, or use more processes of it.",
            )
