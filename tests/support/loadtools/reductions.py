"""Files of the reducer, made up or read, and what tools measured by them."""

from __future__ import annotations

import base64
import struct
import zlib
from typing import Any

from hdrh.histogram import HdrHistogram  # type: ignore[import-untyped] # the library has no types

from benchkit.loadtools.measurement import Measurement
from benchkit.loadtools.reducer_output import ReducerOutput, measurement
from benchkit.loadtools.registry import get_tool
from benchkit.loadtools.tool import ToolOutput
from benchkit.loadtools.tools import vegeta


def measured(reduction: ReducerOutput) -> Measurement:
    """Return what the tool of a reduction measured."""
    rows = get_tool(reduction.tool).rows
    assert rows is not None
    if reduction.tool != "vegeta":
        return measurement(reduction, rows)
    measured = vegeta.measure(ToolOutput("", reduction=reduction.model_dump_json().encode())).measurement
    assert measured is not None
    return measured


def document(**changed: object) -> dict[str, Any]:
    """Return the reducer's file of three rows of hey, with changed fields."""
    library = HdrHistogram(1, 3_600_000_000, 4)
    for us in (300, 300, 2000):
        library.record_value(us)
    whole: dict[str, Any] = {
        "reduction": 1,
        "tool": "hey",
        "ended": "whole",
        "rows": 3,
        "unread": {"count": 0, "first": None},
        "resolution_ns": 100_000,
        "latency": {
            "histogram_us": library.encode().decode(),
            "min_ns": 300_000,
            "max_ns": 2_000_000,
            "sum_ns": 2_600_000,
        },
        "status": {"200": 3},
        "errors": {},
        "other_errors": 0,
        "bytes_in": None,
        "bytes_out": None,
        "span": {
            "origin": "run",
            "first_start_ns": 0,
            "last_start_ns": 500_000,
            "last_end_ns": 2_500_000,
            "ended_later": 1,
        },
        "seconds": {"event": "end", "counts": [[0, 3]], "beyond": 0},
        "rest": {"bytes": 0, "dropped": 0},
    }
    return {**whole, **changed}


def document_with_histogram(encoded: str) -> dict[str, Any]:
    return document(latency={**document()["latency"], "histogram_us": encoded})


def wrapped(payload: bytes, *, cookie: int = 0x1C849314) -> str:
    packed = zlib.compress(payload)
    return base64.b64encode(struct.pack(">II", cookie, len(packed)) + packed).decode()


def payload(numbers: bytes, *, highest: int = 3_600_000_000, digits: int = 4) -> bytes:
    return struct.pack(">IIIIQQd", 0x1C849313, len(numbers), 0, digits, 1, highest, 1.0) + numbers
