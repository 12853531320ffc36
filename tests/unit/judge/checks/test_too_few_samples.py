"""Tests of the check too-few-samples."""

from __future__ import annotations

import pytest

from tests.support.judge.builders import build_trial, finding_of, skip_reason


@pytest.mark.parametrize(("requests", "expected"), [(1000, False), (999, True)])
def test_requested_percentile(requests: int, *, expected: bool) -> None:
    asked = frozenset({"latency_p99_s"})
    found = finding_of("too-few-samples", build_trial(row={"requests": requests}, requested_metrics=asked))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ("latency_p99_s",))


def test_other_percentiles_are_no_finding() -> None:
    assert finding_of("too-few-samples", build_trial(row={"requests": 50})) is None
    assert finding_of("too-few-samples", build_trial(row={"requests": None})) is None


def test_tool_without_request_count_is_skipped() -> None:
    assert skip_reason(
        "too-few-samples", build_trial(row={"requests": None}, requested_metrics=frozenset({"latency_p99_s"}))
    )
