"""Tests of the check few-requests-in-slice."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchkit.judge.check import LOAD
from tests.support.judge.builders import build_load, build_slices, build_trial, counted_slices, finding_of, skip_reason


@pytest.mark.parametrize(("answers", "expected"), [(20, False), (19, True)])
def test_answers_of_each_connection(answers: int, *, expected: bool) -> None:
    trial = build_trial(slices=build_slices(12), row={"requests": 12 * 64 * answers})
    found = finding_of("few-requests-in-slice", trial)
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", LOAD)


@pytest.mark.parametrize(("answers", "expected"), [(20, False), (19, True)])
def test_connections_do_not_matter_at_a_target_rate(answers: int, *, expected: bool) -> None:
    load = build_load(tool="h2load", rate=100.0)
    trial = build_trial(slices=build_slices(12), row={"requests": 12 * answers}, load=load)
    assert (finding_of("few-requests-in-slice", trial) is not None) == expected


@pytest.mark.parametrize(("least", "expected"), [(1, False), (0, True)])
def test_stall_of_whole_slices_counts_beside_many_answers(least: int, *, expected: bool) -> None:
    requests = [3000] * 10 + [least] * 2
    trial = replace(
        build_trial(slices=build_slices(12), row={"requests": sum(requests)}), slices=counted_slices(requests)
    )
    found = finding_of("few-requests-in-slice", trial)
    assert (found is not None) == expected
    if found is not None:
        assert found.severity == "suspect"
        assert found.seen == "2 slices of 250 ms had no answer at all, the first of them slice 11"


def test_trial_of_another_design_has_no_slices() -> None:
    assert finding_of("few-requests-in-slice", build_trial(row={"requests": 5})) is None


def test_unknown_requests() -> None:
    assert "unknown" in skip_reason("few-requests-in-slice", build_trial(slices=build_slices(), row={"requests": None}))
