"""Requests failed."""

from __future__ import annotations

from benchkit import units
from benchkit.analysis.verdicts.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.analysis.verdicts.evidence import Evidence
from benchkit.models.thresholds import Thresholds

KINDS = {
    "errors_connect": "failed connects",
    "errors_read": "read errors",
    "errors_write": "write errors",
    "errors_timeout": "timeouts",
    "non_2xx": "answers other than 2xx",
}
NO_REQUESTS = ("errors_connect",)
"""Failures before there was a request: they are in no tool's count of requests."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Socket errors, timeouts and error statuses among all that was tried.

    Answers that only differ in length are no errors, whatever ab calls them.
    """
    known = {column: number for column in KINDS if (number := evidence.number(column)) is not None}
    known |= _of_the_tool(evidence, kinds=bool(known))
    requests = evidence.number("requests")
    if not known or requests is None:
        return SkippedCheck(why="the tool counts no failures")
    failed = sum(known.values())
    if not failed:
        return ()
    tried = max(requests + sum(known.get(column, 0.0) for column in NO_REQUESTS), failed)
    share = failed / tried
    said = ", ".join(f"{units.count(number)} {KINDS.get(kind, kind)}" for kind, number in known.items() if number)
    return [
        Finding(
            severity="invalid" if share > thresholds.errors else "suspect",
            metrics=ALL,
            seen=f"{said}: {100 * share:.3g} % of what was tried",
            threshold=f"any is suspect, above {100 * thresholds.errors:.3g} % void",
            means="An error takes other work than an answer: a rate of failures is no rate of answers.",
            advice="See the server's log beside the trial's raw files, and lower the load to what it carries.",
        )
    ]


CHECK = Check("errors", "requests failed", of_trial=of_trial)


def _of_the_tool(evidence: Evidence, *, kinds: bool) -> dict[str, float]:
    """Failures that no column has: other ones, and all of a tool that does not tell kinds (siege)."""
    results = [generator.result for generator in evidence.record.generators if generator.result is not None]
    other = [result.errors.other for result in results if result.errors.other is not None]
    if kinds:
        return {"other failures": float(sum(other))} if other else {}
    failed = [result.failed - (result.failed_length or 0) for result in results if result.failed is not None]
    return {"failed requests": float(sum(failed))} if failed else {}
