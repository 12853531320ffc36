"""Check other-sizes: answers have other sizes than those of the log, or than the scenario expects."""

from __future__ import annotations

from benchkit import units
from benchkit.judge.check import ALL, Check, CheckResult, Finding
from benchkit.judge.evidence import Evidence
from benchkit.models.rows import ClassRow
from benchkit.models.thresholds import Thresholds

MAX_NAMED = 3
"""Classes that a finding names."""


def of_trial(evidence: Evidence, thresholds: Thresholds) -> CheckResult:
    """Compare the number of answers of another size than expected with all answers of their class."""
    wrong = [
        each
        for each in evidence.classes
        if each.requests and (each.other_sizes or 0) > thresholds.other_sizes * each.requests
    ]
    if not wrong:
        return ()
    more = (
        f", and of {units.counted(len(wrong) - MAX_NAMED, 'more class', 'more classes')}"
        if len(wrong) > MAX_NAMED
        else ""
    )
    return [
        Finding(
            severity="suspect",
            metrics=ALL,
            seen=f"answers have other sizes than expected: {'; '.join(_clause(each, evidence) for each in wrong[:MAX_NAMED])}{more}",
            threshold=f"limit: {units.share(thresholds.other_sizes)} of the answers to a class",
            means="A server that sends more or less does other work than the one of the log.",
            advice="Compare an answer with the log: its data, and compression (headers: {Accept-Encoding: gzip}).",
        )
    ]


def _clause(row: ClassRow, evidence: Evidence) -> str:
    sizes = [
        each.expect.size
        for each in evidence.record.load.requests
        if each.class_name == row.request_class and each.expect.size is not None
    ]
    expected = f"{min(low for low, _ in sizes):,} to {max(high for _, high in sizes):,}"
    share = units.share((row.other_sizes or 0) / row.requests)
    return f"{share} of {row.request_class}, with {row.size_low:,} to {row.size_high:,} bytes, not {expected}"


CHECK = Check("other-sizes", "its answers have other sizes than expected", of_trial=of_trial)
