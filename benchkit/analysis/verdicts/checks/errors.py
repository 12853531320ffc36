"""Check errors: requests failed."""

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
NOT_REQUESTS = ("errors_connect",)
"""Failures before a request was sent: no tool counts them among its requests."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare socket errors, timeouts and error statuses with all attempts.

    Answers that differ only in length are no errors, although ab counts them as failed.
    """
    failures = {column: number for column in KINDS if (number := evidence.number(column)) is not None}
    failures |= _other_failures(evidence, has_kinds=bool(failures))
    requests = evidence.number("requests")
    if not failures or requests is None:
        return SkippedCheck(why="the tool does not count failures")
    failed = sum(failures.values())
    if not failed:
        return ()
    attempts = max(requests + sum(failures.get(column, 0.0) for column in NOT_REQUESTS), failed)
    share = failed / attempts
    kinds = ", ".join(f"{units.count(number)} {KINDS.get(kind, kind)}" for kind, number in failures.items() if number)
    return [
        Finding(
            severity="invalid" if share > thresholds.errors else "suspect",
            metrics=ALL,
            seen=f"{kinds}: {100 * share:.3g} % of all attempts",
            threshold=f"any: suspect; above {100 * thresholds.errors:.3g} %: invalid",
            means="A failure takes other work than an answer: the rate includes failures.",
            advice="Read the server's log in the trial's raw files, and lower the load to what the server can handle.",
        )
    ]


CHECK = Check("errors", "requests failed", of_trial=of_trial)


def _other_failures(evidence: Evidence, *, has_kinds: bool) -> dict[str, float]:
    """Return the failures that have no column, or all failures of a tool that reports no kinds (siege)."""
    results = [generator.result for generator in evidence.record.generators if generator.result is not None]
    other = [result.errors.other for result in results if result.errors.other is not None]
    if has_kinds:
        return {"other failures": float(sum(other))} if other else {}
    failed = [result.failed - (result.failed_length or 0) for result in results if result.failed is not None]
    return {"failed requests": float(sum(failed))} if failed else {}
