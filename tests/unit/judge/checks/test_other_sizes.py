"""Tests of the check other-sizes, and of answers by class in other checks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchkit.judge.evidence import Evidence
from benchkit.models.rows import ClassRow
from tests.support.judge.builders import PROBE, build_load, build_trial, finding_of

REQUESTS = [
    {"path": "/a", "kind": "shop", "weight": 3, "expect": {"size": [10, 20]}},
    {"path": "/b", "expect": {"status": 404}},
]


def class_row(name: str, **fields: object) -> ClassRow:
    """Return the row of a class with 1,000 answers, as expected."""
    values = {
        **dict.fromkeys(("latency_mean_s", "latency_p50_s", "latency_p99_s"), 0.001),
        "weight": 0.5,
        "requests": 1000,
        "errors": 0,
        "other_statuses": 0,
        "other_sizes": 0,
        "size_low": 12,
        "size_high": 18,
        **fields,
    }
    return ClassRow(trial_id="r.b001.p001", request_class=name, **values)  # type: ignore[arg-type] # of any column


def trial(*rows: ClassRow, **fields: object) -> Evidence:
    """Return a trial of two requests with these rows of classes."""
    evidence = build_trial(load=build_load(requests=REQUESTS), **fields)  # type: ignore[arg-type] # fields of a record
    return replace(evidence, classes=rows)


@pytest.mark.parametrize(("other", "severity"), [(0, None), (1, "suspect"), (101, "invalid")])
def test_statuses_are_checked_by_class(other: int, severity: str | None) -> None:
    rows = (class_row("shop", requests=90_000), class_row("GET /b", other_statuses=other, requests=1000))
    found = finding_of("errors", trial(*rows, row={"non_2xx": 1000}))
    assert (found.severity if found else None) == severity
    assert found is None or found.seen.endswith(f"({other / 10:g} % of GET /b)")


def test_sizes_are_compared_by_the_requests_that_a_window_had() -> None:
    sizes = (100, 400)
    probes = tuple(PROBE.model_copy(update={"body_bytes": size}) for size in sizes)
    as_stated, as_sent = 0.75 * sizes[0] + 0.25 * sizes[1], 0.5 * sizes[0] + 0.5 * sizes[1]
    rows = (class_row("shop", weight=0.75, requests=50_000), class_row("GET /b", weight=0.25, requests=50_000))
    for received, has_rows, is_found in ((as_stated, False, False), (as_sent, True, False), (as_stated, True, True)):
        row = {"bytes_total": 100_000 * received, "tool": "openloop"}
        evidence = trial(
            *(rows if has_rows else ()), row=row, probe=probes[0], other_probes=probes[1:], probe_rounds=()
        )
        assert (finding_of("unequal-responses", evidence) is not None) is is_found, (received, has_rows)
