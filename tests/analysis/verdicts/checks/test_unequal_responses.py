"""Tests of the check unequal-responses."""

from __future__ import annotations

import pytest

from benchkit.analysis.verdicts.check import ALL
from benchkit.models.trial import ProbeRecord
from tests.analysis.conftest import MakeManifest, MakeTrials
from tests.analysis.verdicts.builders import (
    EQUAL_PROBES,
    SERVERS,
    build_generator,
    build_load,
    build_trial,
    finding_of,
    run_findings,
    skipped_trials,
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
        ("ab", (("Connection", "close"),), 153 - 24, True),
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


def test_each_generator_rounds_what_it_prints() -> None:
    """Print 0.00 MB for 12 kB: right of three generators with 4 kB each, and wrong of one."""
    none, plain = {"requests": 1000, "bytes_total": 0.0}, build_load(histogram=False, connections=3)
    assert finding_of("unequal-responses", build_trial(row=none, load=plain)) is not None
    three = tuple(build_generator(number=number) for number in (1, 2, 3))
    assert finding_of("unequal-responses", build_trial(row=none, load=plain, generators=three)) is None


def test_cell_that_differs_from_its_baseline(make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
    trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **EQUAL_PROBES)
    assert run_findings("unequal-responses", make_manifest(SERVERS[:2]), trials) == {}
    trials.loc[trials["cell_id"] == "stack=b", "probe_header_bytes"] = 160
    reasons = run_findings("unequal-responses", make_manifest(SERVERS[:2]), trials)
    assert set(reasons) == trial_ids("stack=b")
    assert all((each.severity, each.metrics) == ("invalid", ALL) for each in reasons.values())
    assert "160 bytes of headers against 141" in reasons["r1.stack=b.b1"].seen


def test_trial_that_differs_from_its_cell(make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
    trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **EQUAL_PROBES)
    trials.loc[trials["trial_id"] == "r1.stack=a.b2", "probe_body_sha256"] = "cd"
    assert set(run_findings("unequal-responses", make_manifest(SERVERS[:2]), trials)) == {"r1.stack=a.b2"}


def test_declared_difference_is_accepted(make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
    trials = make_trials({"stack=a": [1, 2, 3], "stack=b": [1, 2, 3]}, **EQUAL_PROBES)
    trials.loc[trials["cell_id"] == "stack=b", "probe_body_bytes"] = 1600
    scenario = {"differs": [{"what": ["body_bytes"], "why": "as it was published", "cells": {"stack": "b"}}]}
    assert run_findings("unequal-responses", make_manifest(SERVERS[:2], scenario=scenario), trials) == {}


def test_trials_without_probe_are_skipped(make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
    trials = make_trials({"stack=a": [1, 2, 3]})
    assert skipped_trials("unequal-responses", make_manifest(SERVERS[:1]), trials) == trial_ids("stack=a")


@pytest.mark.parametrize(("each", "expected"), [(303, False), (300, False), (310, False), (330, True), (153, True)])
def test_bytes_of_several_requests_are_compared_by_their_weights(each: float, *, expected: bool) -> None:
    """Three of four answers have 153 bytes, one has 753: 303 on average, within a few."""
    load = build_load(requests=[{"path": "/a", "weight": 3}, {"path": "/b"}])
    other = ProbeRecord(status=200, header_bytes=141, headers=(), body_bytes=612, body_sha256="0" * 64)
    row = {"bytes_total": 100_000 * each}
    found = finding_of("unequal-responses", build_trial(row=row, load=load, other_probes=(other,)))
    assert (found is not None) == expected
    assert found is None or "303 in the probe (162 of them body)" in found.seen
