"""Rows of classes: from the reducer's file over generators to the table."""

from __future__ import annotations

from typing import Any

import pytest
from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types

from benchkit.loadtools.measurement import Measurement
from benchkit.loadtools.reducer_output import CLASS_DIGITS, ReducerOutput, measurement
from benchkit.loadtools.tools.openloop import ROWS
from benchkit.loadtools.trial_result import merge_measurements
from benchkit.store.row_builders import class_rows
from tests.support.judge.builders import build_load, build_trial

LOAD = build_load(
    tool="openloop",
    requests=[
        {"path": "/a", "kind": "page", "weight": 2, "expect": {"status": 200, "size": [5, 9]}},
        {"path": "/c", "kind": "page", "expect": {"status": 200}},
        {"path": "/b"},
        {"path": "/never"},
    ],
)
RECORD = build_trial(load=LOAD).record


def times(*micros: int, digits: int = CLASS_DIGITS) -> dict[str, Any]:
    """Return times as the reducer writes them."""
    library = HdrHistogram(1, 3_600_000_000, digits)
    for each in micros:
        library.record_value(each)
    figures = {"min_ns": min(micros) * 1000, "max_ns": max(micros) * 1000, "sum_ns": sum(micros) * 1000}
    return {"histogram_us": library.encode().decode(), **figures}


def page(*micros: int, status: dict[str, int], **fields: object) -> dict[str, Any]:
    """Return the first class as the reducer writes it."""
    counts = {"status": status, "bytes": [4, 8], "other_sizes": 1, "errors": 0}
    return {"class": 1, "latency": times(*micros), **counts, **fields}


def measured(*classes: dict[str, Any]) -> Measurement:
    """Return the measurement of one generator with these classes."""
    document = {
        "reduction": 1,
        "tool": "openloop",
        "ended": "whole",
        "rows": 0,
        "unread": {"count": 0, "first": None},
        "resolution_ns": 1,
        "latency": None,
        "status": {},
        "errors": {},
        "other_errors": 0,
        **dict.fromkeys(("bytes_in", "bytes_out", "span", "seconds")),
        "classes": classes,
        "rest": {"bytes": 0, "dropped": 0},
    }
    return measurement(ReducerOutput.model_validate(document), ROWS)


def test_classes_of_all_generators_are_one_row_each() -> None:
    silent: dict[str, Any] = {"class": 2, "latency": None, "status": {}, "bytes": None, "other_sizes": 0, "errors": 3}
    first = measured(page(*[300] * 99, 900, status={"200": 98, "404": 2}))
    second = measured(page(*[500] * 100, status={"200": 100}, bytes=[6, 6], other_sizes=0, errors=1), silent)
    rows = class_rows(RECORD, merge_measurements([first, second]))
    assert [row.request_class for row in rows] == ["page", "GET /b", "GET /never"]
    shop, other, never = rows
    assert (shop.weight, shop.requests, shop.errors, shop.other_statuses, shop.other_sizes) == (0.6, 200, 1, 2, 1)
    assert (shop.size_low, shop.size_high) == (4, 8)
    assert shop.latency_p50_s == pytest.approx(500e-6, rel=1e-3)
    assert shop.latency_p99_s == pytest.approx(500e-6, rel=1e-3)
    assert shop.latency_mean_s == pytest.approx((99 * 300 + 900 + 100 * 500) / 200 * 1e-6)
    assert (other.requests, other.errors, other.latency_p50_s, other.other_sizes) == (0, 3, None, None)
    assert (never.weight, never.requests, never.errors) == (0.2, 0, 0)
