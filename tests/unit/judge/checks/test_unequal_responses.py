"""Tests of the check unequal-responses."""

from __future__ import annotations

from typing import Any

import pytest

from benchkit.judge.check import ALL
from benchkit.models.trial import ProbeRecord
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import (
    EQUAL_PROBES,
    SERVERS,
    build_load,
    build_rounds,
    build_trial,
    finding_of,
    run_findings,
    trial_ids,
)


@pytest.mark.parametrize(("each", "expected"), [(153, False), (12, False), (154.4, False), (155.6, True), (60, True)])
def test_bytes_under_load_match_the_probe(each: float, *, expected: bool) -> None:
    """Accept counts with and without headers."""
    found = finding_of("unequal-responses", build_trial(row={"bytes_total": 100_000 * each}))
    assert (found is not None) == expected
    assert found is None or (found.severity, found.metrics) == ("invalid", ALL)


def test_answers_may_be_incomplete_at_the_end() -> None:
    """Add half an answer on each of 64 connections."""
    open_at_end = {"requests": 290, "bytes_total": (290 + 32) * 153.0}
    assert finding_of("unequal-responses", build_trial(row=open_at_end)) is None
    assert finding_of("unequal-responses", build_trial(row=open_at_end, load=build_load(connections=8))) is not None


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
    row = {"bytes_total": 100_000 * 170}
    found = finding_of("unequal-responses", build_trial(row=row, scenario=scenario, levels={"stack": "status"}))
    assert (found is not None) == expected


@pytest.mark.parametrize(
    ("tool", "reported", "each", "expected"),
    [
        ("ab", (("Connection", "close"),), 153 - 19, False),
        ("ab", (), 153 + 24, False),
        ("ab", (("Connection", "close"),), 153 - 26, True),
        ("wrk", (("Connection", "close"),), 153 - 19, True),
        ("wrk", (), 153 + 24, True),
    ],
)
def test_answers_to_http_1_0_have_another_connection_header(
    tool: str, reported: tuple[tuple[str, str], ...], each: int, *, expected: bool
) -> None:
    probe = build_trial().record.probes[0].model_copy(update={"headers": reported})
    row = {"tool": tool, "bytes_total": 100_000 * each}
    assert (finding_of("unequal-responses", build_trial(row=row, probe=probe)) is not None) == expected


@pytest.mark.parametrize(("frames", "expected"), [(0, False), (5 + 5, False), (2 * (5 + 5), True), (-5, True)])
def test_chunk_frames_may_be_counted(frames: int, *, expected: bool) -> None:
    probe = build_trial().record.probes[0].model_copy(update={"headers": (("Transfer-Encoding", "chunked"),)})
    row = {"bytes_total": 100_000 * (153 + frames)}
    assert (finding_of("unequal-responses", build_trial(row=row, probe=probe)) is not None) == expected


def test_tolerance_includes_printed_digits() -> None:
    few = {"requests": 1000, "bytes_total": 0.14 * (1 << 20)}
    assert finding_of("unequal-responses", build_trial(row=few)) is not None
    assert finding_of("unequal-responses", build_trial(row=few, load=build_load(histogram=False))) is None


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


@pytest.mark.parametrize(("each", "expected"), [(141 + 12 + 40, False), (141 + 12 + 42, True), (1, False), (0.5, True)])
def test_bodies_that_vary_may_have_any_size_of_their_kind(each: float, *, expected: bool) -> None:
    """Two probes of a counter differ, and its digits grow under load."""
    rounds = build_rounds(before={"body_sha256": "1" * 64})
    found = finding_of("unequal-responses", build_trial(row={"bytes_total": 100_000 * each}, probe_rounds=rounds))
    assert (found is not None) == expected


@pytest.mark.parametrize(("each", "expected"), [(303, False), (300, False), (310, False), (330, True), (153, True)])
def test_bytes_of_several_requests_are_compared_by_their_weights(each: float, *, expected: bool) -> None:
    """Three of four answers have 153 bytes, one has 753: 303 on average, within a few."""
    load = build_load(requests=[{"path": "/a", "weight": 3}, {"path": "/b"}])
    other = ProbeRecord(status=200, header_bytes=141, headers=(), body_bytes=612, body_sha256="0" * 64)
    row = {"bytes_total": 100_000 * each}
    found = finding_of("unequal-responses", build_trial(row=row, load=load, other_probes=(other,)))
    assert (found is not None) == expected
    assert found is None or "303 in the probe (162 of them body)" in found.seen
