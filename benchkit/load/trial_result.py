"""What generators left, read: one by one by their tool, and all of a trial as one. Pure."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

from benchkit.errors import ParseError
from benchkit.load import reduction
from benchkit.load.measurement import merged
from benchkit.load.tools.tool import ParsedOutput, Tool, ToolOutput
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

APART = 0.05
"""Generators whose ends are further apart than this share of the window do not load together for all of it."""


def read_generator(tool: Tool, load: Load, printed: ToolOutput) -> ParsedOutput:
    """What one generator measured. Raises ParseError."""
    if load.histogram:
        return tool.read(printed)
    return ParsedOutput(tool.parse(printed.stdout if tool.summary == "stdout" else printed.stderr), None)


def summed_up(result: LoadResult, printed: ToolOutput) -> ParsedOutput:
    """The summary of a tool beside the rows that the reducer took: counts are the summary's, times those of the rows.

    Raises ParseError.
    """
    if printed.reduction is None:
        raise ParseError("the reducer's file is missing", where=result.tool)
    measured = reduction.measurement(reduction.read(printed.reduction))
    counters = measured.counters
    notes = {note.code: note for note in (*measured.notes, *result.notes)}
    if result.requests is not None and counters.recorded != result.requests:
        said = f"{counters.recorded} of {result.requests} requests have a time in the histogram"
        notes["histogram-differs"] = Note(code="histogram-differs", message=said)
    exact = result.model_copy(
        update={
            "latency": measured.latency(),
            "status": result.status or counters.status,
            "non_2xx": counters.non_2xx if result.non_2xx is None else result.non_2xx,
            "complete": result.complete and measured.complete,
            "notes": tuple(notes.values()),
        }
    )
    return ParsedOutput(exact, measured)


def rows_only(printed: ToolOutput) -> ParsedOutput:
    """The result of a tool that prints nothing but rows (vegeta). Raises ParseError."""
    if printed.reduction is None:
        raise ParseError("the reducer's file is missing")
    reduced = reduction.read(printed.reduction)
    result = reduction.load_result(reduced)
    if result.bytes_total is not None and result.duration_s:
        result = result.model_copy(update={"bytes_per_s": result.bytes_total / result.duration_s})
    return ParsedOutput(result, reduction.measurement(reduced))


def together(readings: Sequence[ParsedOutput], started_s: Sequence[float]) -> ParsedOutput:
    """Generators of one tool that were started at these instants, as one.

    Counts add up, and histograms merge. So do rates, each being that of a generator over its own time: the total while
    all of them were at work. `duration_s` is that common window, from the last start to the first end; counts over the
    time from the first start to the last end would be diluted by generators that waited for the others. What merging
    cannot have is left out: percentiles where there is no histogram. Raises InputError for different tools.
    """
    if len(readings) == 1:
        return readings[0]
    results = [reading.result for reading in readings]
    measurements = [reading.measurement for reading in readings if reading.measurement is not None]
    measured = merged(measurements) if len(measurements) == len(readings) else None
    durations = [result.duration_s for result in results if result.duration_s is not None]
    ends = [start + length for start, length in zip(started_s, durations, strict=False)]
    known = len(durations) == len(results)
    window_s = max(0.0, min(ends) - max(started_s)) if known else None
    first = results[0]
    return ParsedOutput(
        LoadResult(
            tool=first.tool,
            tool_version=first.tool_version,
            target=first.target,
            duration_s=window_s,
            requests=_sum(results, lambda result: result.requests),
            rps=_total(results, lambda result: result.rps),
            connections=_sum(results, lambda result: result.connections),
            threads=_sum(results, lambda result: result.threads),
            bytes_total=_total(results, lambda result: result.bytes_total),
            bytes_per_s=_total(results, lambda result: result.bytes_per_s),
            latency=_latency(results) if measured is None else measured.latency(),
            errors=_errors(results),
            status=_statuses(results),
            non_2xx=_sum(results, lambda result: result.non_2xx),
            failed=_sum(results, lambda result: result.failed),
            failed_length=_sum(results, lambda result: result.failed_length),
            availability=_availability(results),
            complete=all(result.complete for result in results),
            notes=tuple(_notes(results, ends if known else [], window_s, lost=measured is None)),
        ),
        measured,
    )


def _sum(results: Sequence[LoadResult], figure: Callable[[LoadResult], int | None]) -> int | None:
    """The sum of a count; absent where one of them lacks it."""
    figures = [figure(result) for result in results]
    known = [each for each in figures if each is not None]
    return sum(known) if len(known) == len(figures) else None


def _total(results: Sequence[LoadResult], figure: Callable[[LoadResult], float | None]) -> float | None:
    """The sum of a figure; absent where one of them lacks it."""
    figures = [figure(result) for result in results]
    known = [each for each in figures if each is not None]
    return math.fsum(known) if len(known) == len(figures) else None


def _errors(results: Sequence[LoadResult]) -> Errors:
    return Errors(
        connect=_sum(results, lambda result: result.errors.connect),
        read=_sum(results, lambda result: result.errors.read),
        write=_sum(results, lambda result: result.errors.write),
        timeout=_sum(results, lambda result: result.errors.timeout),
        other=_sum(results, lambda result: result.errors.other),
    )


def _statuses(results: Sequence[LoadResult]) -> dict[str, int]:
    codes = sorted({code for result in results for code in result.status})
    return {code: sum(result.status.get(code, 0) for result in results) for code in codes}


def _availability(results: Sequence[LoadResult]) -> float | None:
    """The share over all requests, where each of the generators states one: weighted by what it counts."""
    if any(result.availability is None or result.requests is None for result in results):
        return None
    weights = [(result.requests or 0) + (result.failed or 0) for result in results]
    shares = [result.availability or 0.0 for result in results]
    return math.fsum(w * s for w, s in zip(weights, shares, strict=True)) / sum(weights) if sum(weights) else None


def _latency(results: Sequence[LoadResult]) -> Latency:
    """Extremes and mean of summaries; their percentiles and deviations cannot be merged."""
    latencies = [result.latency for result in results]
    means = [(each.mean_s, result.requests) for each, result in zip(latencies, results, strict=True)]
    known = [(mean, requests) for mean, requests in means if mean is not None and requests]
    weight = sum(requests for _, requests in known)
    lowest = [each.min_s for each in latencies if each.min_s is not None]
    highest = [each.max_s for each in latencies if each.max_s is not None]
    steps = [each.resolution_s for each in latencies if each.resolution_s is not None]
    return Latency(
        min_s=min(lowest) if len(lowest) == len(latencies) else None,
        mean_s=math.fsum(m * n for m, n in known) / weight if known and len(known) == len(means) else None,
        max_s=max(highest) if len(highest) == len(latencies) else None,
        resolution_s=max(steps, default=None),
        covers=latencies[0].covers,
        corrected=latencies[0].corrected,
    )


def _notes(
    results: Sequence[LoadResult], ends: Sequence[float], window_s: float | None, *, lost: bool
) -> Iterator[Note]:
    """The notes of all, each kind once; and what is to be said of them together."""
    found: dict[str, list[tuple[int, str]]] = {}
    for number, result in enumerate(results, 1):
        for note in result.notes:
            found.setdefault(note.code, []).append((number, note.message))
    for code, said in found.items():
        number, message = said[0]
        numbers = {number for number, _ in said}
        if len({text for _, text in said}) == 1 and len(numbers) == len(results):
            yield Note(code=code, message=message)
        else:
            others = f"; {len(numbers) - 1} others say the like" if len(numbers) > 1 else ""
            yield Note(code=code, message=f"generator {number} of {len(results)}: {message}{others}")
    if window_s is not None and ends and max(ends) - min(ends) > APART * window_s:
        yield Note(
            code="ended-apart",
            message=f"generators ended up to {max(ends) - min(ends):.2f} s apart: rates are those of each while it ran",
        )
    if lost and any(result.latency.percentiles for result in results):
        yield Note(
            code="percentiles-lost", message="percentiles of several generators cannot be merged without histograms"
        )
