"""Check errors: requests failed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding, SkippedCheck
from benchkit.judge.evidence import Evidence
from benchkit.models.metrics import FAILURES, METRICS, metric_named
from benchkit.models.request import is_expected
from benchkit.models.thresholds import Thresholds

COLUMNS = tuple(name for name in METRICS if name in FAILURES)
"""Columns of `trials` with failures."""
UNEXPECTED = "answers with a status that the scenario does not expect"
MAX_NAMED = 3
"""Classes of requests that a finding names."""
NOT_REQUESTS = ("errors_connect",)
"""Failures before a request was sent: no tool counts them among its requests."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare socket errors, timeouts and error statuses with all attempts.

    Answers that differ only in length are no errors, although ab counts them as failed.
    """
    failures = {column: number for column in COLUMNS if (number := evidence.number(column)) is not None}
    is_unknown = False
    if evidence.classes:
        failures.pop("non_2xx", None)
        failures[UNEXPECTED] = float(sum(each.other_statuses for each in evidence.classes))
    expected = {request.expect.status for request in evidence.record.load.request_mix}
    if not all(status is None or is_expected(status, {None}) for status in expected) and failures.pop("non_2xx", 0.0):
        unexpected = _unexpected_statuses(evidence, expected)
        failures |= {} if unexpected is None else {UNEXPECTED: unexpected}
        is_unknown = unexpected is None
    failures |= _other_failures(evidence, has_kinds=bool(failures))
    requests = evidence.number("requests")
    if not failures or requests is None:
        return SkippedCheck(why="the tool does not count failures")
    failed = sum(failures.values())
    if not failed and is_unknown:
        return SkippedCheck(why="answers other than 2xx are expected, and the tool does not count each status")
    if not failed:
        return ()
    attempts = max(requests + sum(failures.get(column, 0.0) for column in NOT_REQUESTS), failed)
    share = failed / attempts
    kinds = ", ".join(
        f"{units.count(number)} {metric_named(kind).title}" for kind, number in failures.items() if number
    )
    return [
        Finding(
            severity="invalid" if share > thresholds.errors else "suspect",
            metrics=ALL,
            seen=f"{kinds}: {100 * share:.3g} % of all attempts{_by_class(evidence)}",
            threshold=f"any: suspect; above {100 * thresholds.errors:.3g} %: invalid",
            means="A failure takes other work than an answer: the rate includes failures.",
            advice="Read the server's log in the trial's raw files, and lower the load to what the server can handle.",
        )
    ]


CHECK = Check("errors", "requests failed", of_trial=of_trial)


def _unexpected_statuses(evidence: Evidence, expected: Collection[int | None]) -> float | None:
    """Return the number of answers whose status no request expects; None where the tool does not count each status."""
    counts = [result.status for _, result in evidence.record.outputs]
    if not counts or not all(counts):
        return None
    return float(
        sum(number for count in counts for status, number in count.items() if not is_expected(int(status), expected))
    )


def _by_class(evidence: Evidence) -> str:
    """Return the classes of requests with most failures as a clause; empty without classes."""
    failed = Counter({each.request_class: each.errors + each.other_statuses for each in evidence.classes})
    totals = {each.request_class: each.requests + each.errors for each in evidence.classes}
    named = [
        f"{100 * number / totals[name]:.3g} % of {name}" for name, number in failed.most_common(MAX_NAMED) if number
    ]
    return f" ({', '.join(named)})" if named else ""


def _other_failures(evidence: Evidence, *, has_kinds: bool) -> dict[str, float]:
    """Return the failures that have no column, or all failures of a tool that reports no kinds (siege)."""
    results = [result for _, result in evidence.record.outputs]
    other = [result.errors.other for result in results if result.errors.other is not None]
    if has_kinds:
        return {"other failures": float(sum(other))} if other else {}
    failed = [result.failed - (result.failed_length or 0) for result in results if result.failed is not None]
    return {"failed requests": float(sum(failed))} if failed else {}
