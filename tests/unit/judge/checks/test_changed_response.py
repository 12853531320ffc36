"""Tests of the check changed-response."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from benchkit.judge.check import ALL
from benchkit.models.trial import ProbeRound
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import (
    EQUAL_PROBES,
    PROBE,
    SERVERS,
    build_rounds,
    build_trial,
    finding_of,
    run_findings,
    trial_ids,
)

CODE = "changed-response"


@pytest.mark.parametrize(
    ("changed", "seen"),
    [
        ({}, None),
        ({"during": {"body_sha256": "1" * 64}}, None),
        ({"after": {"body_sha256": "1" * 64, "body_bytes": 53}}, "53 bytes of body against 12 after the load"),
        ({"during": {"status": 204}}, "status 204 against 200 during the load"),
        (
            {"during": {"body_sha256": "1" * 64, "headers": (("content-type", "text/HTML; charset=utf-8"),)}},
            "a body of text/html against text/plain during the load",
        ),
        ({"during": {"status": 503, "body_bytes": 100}}, None),
    ],
)
def test_another_kind_of_response_is_found_in_a_trial_alone(changed: dict[str, Any], seen: str | None) -> None:
    """Leave bodies of one kind to the whole run, and failed responses to the check `errors`."""
    found = finding_of(CODE, build_trial(probe_rounds=build_rounds(**changed)))
    assert (found.severity, found.metrics, found.seen) == ("invalid", ALL, seen) if found else seen is None


def test_later_responses_are_expected_ones_and_declared_differences_are_accepted() -> None:
    fault = ProbeRound(moment="after", responses=(PROBE,), faults=("GET /: 'Hello' is not in its body",))
    found = finding_of(CODE, build_trial(probe_rounds=(fault,)))
    assert found is not None
    assert found.seen == "GET /: 'Hello' is not in its body after the load"
    longer = build_rounds(after={"body_sha256": "1" * 64, "body_bytes": 100})
    scenario = {"differs": [{"what": ["body"], "why": "a log grows", "varies": True}]}
    assert finding_of(CODE, build_trial(probe_rounds=longer, scenario=scenario)) is None


FIXED = ["a"] * 4
EACH = ["1", "2", "3", "4"]
Bodies = Sequence[str | None]
BODIES: dict[str, tuple[Bodies, Bodies, Bodies, Bodies, set[int]]] = {
    # first, again, during, after; blocks in which the body changed
    "a fixed body": (FIXED, FIXED, FIXED, FIXED, set()),
    "not probed again": (FIXED, [None] * 4, [None] * 4, [None] * 4, set()),
    "broken after 300 requests": (FIXED, FIXED, ["b"] * 4, ["b"] * 4, {1, 2, 3, 4}),
    "broken under load alone": (FIXED, FIXED, ["b"] * 4, FIXED, {1, 2, 3, 4}),
    "broken with a number of its own": (FIXED, FIXED, EACH, EACH, {1, 2, 3, 4}),
    "broken in one block": (FIXED, FIXED, FIXED, ["a", "b", "a", "a"], {2}),
    "broken for good in the first block": (["a", "b", "b", "b"], ["a", "b", "b", "b"], ["b"] * 4, ["b"] * 4, {1}),
    "an id of the process, then broken": (EACH, EACH, ["b"] * 4, ["b"] * 4, {1, 2, 3, 4}),
    "an id of the process": (EACH, EACH, EACH, EACH, set()),
    "a counter": (["1"] * 4, ["2"] * 4, EACH, EACH, set()),
    "a second of the clock": (EACH, EACH, ["5", "6", "7", "8"], ["5", "7", "8", "9"], set()),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_body_that_changes_under_load_is_found_unless_it_varies_by_itself(name: str) -> None:
    first, again, during, after, changed = BODIES[name]
    trials = trials_of({"stack=a": range(1, 5), "stack=b": range(1, 5)}, **EQUAL_PROBES)
    columns = ("probe_body_sha256", "probe_again_sha256", "probe_during_sha256", "probe_after_sha256")
    for column in columns[1:]:
        trials[column] = trials[column].astype(object)
        trials.loc[trials["cell_id"] == "stack=a", column] = "ab"
    for column, values in zip(columns, (first, again, during, after), strict=True):
        trials.loc[trials["cell_id"] == "stack=b", column] = values
    findings = run_findings(CODE, manifest_of(SERVERS[:2]), trials)
    assert set(findings) == {f"r1.stack=b.b{block}" for block in changed} <= trial_ids("stack=b", 4)
    declared = {"differs": [{"what": ["body"], "why": "it counts", "varies": True, "cells": {"stack": "b"}}]}
    assert run_findings(CODE, manifest_of(SERVERS[:2], scenario=declared), trials) == {}
