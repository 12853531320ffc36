"""Measurement of every request of vegeta, from the rows of its attack; it prints no summary."""

from __future__ import annotations

import re
from dataclasses import replace

from benchkit.loadtools import reducer_output
from benchkit.loadtools.measurement import Measurement
from benchkit.loadtools.reducer_output import ReducerOutput
from benchkit.loadtools.text import errors_of
from benchkit.loadtools.tool import ParsedOutput, ToolOutput
from benchkit.loadtools.vegeta.output import ROWS
from benchkit.models.histogram import NS_PER_S
from benchkit.models.load_result import Note

_STATUS_LINE = re.compile(r"[1-9][0-9]{2}(?: .*)?")
"""Error message of an answer with a status below 200 or above 399; others are of requests without an answer."""


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what vegeta measured, from the reducer's file; `duration_s` as vegeta defines it. Raises ParseError."""
    rows = reducer_output.read_file(output.reduction, "vegeta")
    measured, span = measurement(rows), rows.span
    duration_s = (span.last_start_ns - span.first_start_ns) / NS_PER_S if span else None
    succeeded = sum(n for code, n in rows.status.items() if code[0] in "23")
    result = measured.result(duration_s=duration_s, failed=rows.rows - succeeded)
    has_rows = {
        "complete": result.complete and rows.rows > 0,
        "availability": succeeded / rows.rows if rows.rows else None,
        "rps": result.rps or None,
    }
    result = result.model_copy(update=has_rows)
    return ParsedOutput(result, measured)


def measurement(rows: ReducerOutput) -> Measurement:
    """Return what vegeta measured, failures by kind included."""
    measured = reducer_output.measurement(rows, ROWS)
    failed = rows.status.get("0", 0)
    transport = {text: n for text, n in rows.errors.items() if not _STATUS_LINE.fullmatch(text)}
    errors = errors_of(transport, max(0, failed - sum(transport.values())))
    unanswered = Note(
        code="vegeta-unanswered",
        message=f"the latencies include {failed} requests without an answer, as vegeta's own figures do",
    )
    return replace(
        measured,
        counters=measured.counters.model_copy(update={"errors": errors}),
        notes=(unanswered, *measured.notes) if failed else measured.notes,
    )
