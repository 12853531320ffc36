"""Tests of the check unequal-responses."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.judge.check import ALL
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

CHUNKED = PROBE.model_copy(update={"headers": (("Transfer-Encoding", "chunked"),)})


@pytest.mark.parametrize(
    ("each", "expected"), [(153, False), (12, False), (153 + 24, False), (153 + 26, True), (10, True)]
)
def test_bytes_under_load_match_the_probe(each: float, *, expected: bool) -> None:
    """Accept counts with and without headers, and with one on the connection."""
    found = finding_of("unequal-responses", build_trial(row={"bytes_total": 100_000 * each}))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


@pytest.mark.parametrize(
    ("differs", "expected"),
    [
        ({"what": ["body_bytes", "body"], "varies": True}, False),
        ({"what": ["header_bytes"], "varies": True, "cells": {"stack": "status"}}, False),
        ({"what": ["header_bytes"], "varies": True, "cells": {"stack": "other"}}, True),
        ({"what": ["status", "body"], "varies": True}, True),
        ({"what": ["header_bytes", "body_bytes", "body"]}, True),
    ],
)
def test_declared_varying_lengths_are_accepted(differs: dict[str, object], *, expected: bool) -> None:
    """Distinguish lengths that vary within a cell from differences between cells."""
    scenario = {"differs": [{"why": "the page counts its own requests", **differs}]}
    row = {"bytes_total": 100_000 * 190}
    found = finding_of("unequal-responses", build_trial(row=row, scenario=scenario, levels={"stack": "status"}))
    assert (found is not None) == expected


@pytest.mark.parametrize(
    ("each", "changed", "expected"),
    [
        (153 + 34, {"probe": CHUNKED}, False),
        (153 + 44, {"probe": CHUNKED}, True),
        (153 + 600, {"other_probes": (PROBE.model_copy(update={"body_bytes": 612}),)}, False),
        (153 + 40, {"probe_rounds": build_rounds(before={"body_sha256": "1" * 64})}, False),
    ],
    ids=["chunks", "more than chunks", "another request", "a body that varies"],
)
def test_what_may_add_bytes(each: float, changed: dict[str, Any], *, expected: bool) -> None:
    row = {"bytes_total": 100_000 * each, **changed.pop("row", {})}
    assert (finding_of("unequal-responses", build_trial(row=row, **changed)) is not None) == expected


@pytest.mark.parametrize(
    ("own", "seen"),
    [
        ({"probe_status": 204}, "status 204 against 200"),
        ({"probe_media_type": "text/html", "probe_body_sha256": "cd"}, "a body of text/html against text/plain"),
        ({"probe_body_bytes": 0, "probe_body_sha256": "cd"}, "0 bytes of body against 12"),
        ({"probe_body_bytes": 53, "probe_body_sha256": "cd"}, "53 bytes of body against 12"),
        ({"probe_body_bytes": 52, "probe_body_sha256": "cd"}, None),
        ({"probe_media_type": "text/html"}, None),
        ({"probe_media_type": None, "probe_body_sha256": "cd"}, None),
        ({"probe_header_bytes": 160}, None),
        ({"probe_body_sha256": ["cd", "ef", "ab"]}, None),
    ],
)
def test_a_cell_with_responses_of_another_kind_than_its_baseline(own: dict[str, Any], seen: str | None) -> None:
    """Exclude another kind, and leave it to the ratio to state how responses of one kind differ."""
    trials = trials_of({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **EQUAL_PROBES, probe_media_type="text/plain")
    assert run_findings("unequal-responses", manifest_of(SERVERS[:2]), trials) == {}
    for name, value in own.items():
        trials.loc[trials["cell_id"] == "stack=b", name] = value
    findings = run_findings("unequal-responses", manifest_of(SERVERS[:2]), trials)
    assert set(findings) == (trial_ids("stack=b") if seen else set())
    assert {(each.severity, each.metrics, each.seen) for each in findings.values()} == (
        {("invalid", ALL, f"{seen} in most answers of stack=a")} if seen else set()
    )
