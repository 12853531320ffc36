"""hey's rows and counters, as its template has them, read as what it measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from benchkit.errors import ParseError
from benchkit.load.measurement import Measurement
from benchkit.load.reduction import measurement, read
from benchkit.load.tools.go_errors import errors_of
from benchkit.load.tools.hey.csv import MAX_RESULTS
from benchkit.load.tools.hey.template import HeyCounters, counters
from benchkit.load.tools.text import shown
from benchkit.load.tools.tool import ParsedOutput, ToolOutput
from benchkit.models.load_result import LoadResult, Note


def reading(printed: ToolOutput) -> ParsedOutput:
    """What hey measured, from the reducer's file and the counters. Raises ParseError."""
    if printed.reduction is None:
        raise ParseError("the reducer's file is missing", where="hey")
    counted, reduction = counters(printed.stdout), read(printed.reduction)
    measured = measurement(reduction)
    answers = counted.requests - counted.failed
    if reduction.rows != min(answers, MAX_RESULTS):
        raise ParseError(f"{reduction.rows} rows of hey, but {answers} answers in its counters", where="hey")
    capped = answers > reduction.rows
    whole = measured.counters.model_copy(
        update={
            "requests": counted.requests,
            "bytes_total": counted.bytes_total,
            "errors": errors_of(counted.errors),
            "non_2xx": None if capped else measured.counters.non_2xx,
        }
    )
    exact = replace(
        measured,
        counters=whole,
        complete=measured.complete and not capped,
        duration_s=counted.duration_s,
        notes=tuple(_notes(measured, counted, capped=capped)),
    )
    latency = exact.latency()
    if capped:  # of all answers, where the histogram has the first million
        latency = latency.model_copy(update={"mean_s": counted.time_s / answers})
    return ParsedOutput(
        LoadResult(
            tool="hey",
            duration_s=counted.duration_s,
            requests=counted.requests,
            rps=counted.requests / counted.duration_s if counted.duration_s else None,
            bytes_total=counted.bytes_total,
            bytes_per_s=counted.bytes_total / counted.duration_s if counted.duration_s else None,
            latency=latency,
            errors=whole.errors,
            status=whole.status,
            non_2xx=whole.non_2xx,
            failed=counted.failed,
            complete=measured.complete,
            notes=exact.notes,
        ),
        exact,
    )


def _notes(measured: Measurement, counted: HeyCounters, *, capped: bool) -> Iterator[Note]:
    yield from (note for note in measured.notes if note.code not in {"hey-csv", "hey-cap"})
    if capped:
        yield Note(
            code="hey-cap",
            message=f"hey keeps {MAX_RESULTS:,} answers' times: percentiles, extremes and statuses are of the first "
            "million of a process, counts, rate and mean of all; more processes have more",
        )
    if counted.errors:
        said = "; ".join(f"{n} times {shown(message)}" for message, n in list(counted.errors.items())[:3])
        yield Note(code="hey-errors", message=f"{counted.failed} requests failed: {said}")
