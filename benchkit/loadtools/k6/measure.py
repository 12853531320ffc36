"""Measurement of every request of k6, from the rows of its `--out csv`; the summary that it prints is not needed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from benchkit.loadtools import reducer_output
from benchkit.loadtools.k6.output import ROWS
from benchkit.loadtools.text import errors_of, excerpt
from benchkit.loadtools.tool import ParsedOutput, ToolOutput
from benchkit.models.histogram import NS_PER_S
from benchkit.models.load_result import Note
from benchkit.units import counted

_CROSSED = re.compile(r"level=error msg=\"(thresholds on metrics .*? have been crossed)")
_ERROR = re.compile(r"level=error msg=(.*)")
_DROPPED = re.compile(r"dropped_iterations[.:]*\s+([0-9]{1,12})\b")


def measure(output: ToolOutput) -> ParsedOutput:
    """Return what k6 measured: `duration_s` is from the first request to the last answer. Raises ParseError."""
    rows = reducer_output.read_file(output.reduction, "k6")
    failed = sum(rows.errors.values()) + rows.other_errors
    measured = reducer_output.measurement(rows, ROWS)
    notes = (*measured.notes, *_notes(output, failed))
    errors = errors_of(rows.errors, rows.other_errors)
    measured = replace(measured, counters=measured.counters.model_copy(update={"errors": errors}), notes=notes)
    span = rows.span
    duration_s = (span.last_end_ns - span.first_start_ns) / NS_PER_S if span else None
    result = measured.result(duration_s=duration_s, failed=failed)
    result = result.model_copy(update={"complete": result.complete and rows.rows > 0})
    return ParsedOutput(result, measured)


def _notes(output: ToolOutput, failed: int) -> Iterator[Note]:
    if dropped := _DROPPED.search(output.stdout):
        message = f"{counted(int(dropped[1]), 'request')} that were due found no free virtual user, and were dropped"
        yield Note(code="k6-dropped", message=message)
    if failed:
        yield Note(code="k6-failed", message=f"{counted(failed, 'request')} without an answer have no latency")
    if crossed := _CROSSED.search(output.stderr):
        yield Note(code="k6-thresholds", message=f"k6 says: {crossed[1]}")
    errors = [each for each in _ERROR.findall(output.stderr) if not each.startswith('"thresholds on metrics')]
    if errors:
        message = f"k6 printed {counted(len(errors), 'error')}; the first: {excerpt(errors[0])}"
        yield Note(code="k6-errors", message=message)
