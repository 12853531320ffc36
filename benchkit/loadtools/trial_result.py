"""The result of a trial: the outputs of its generators, each read by its tool, merged into one. Pure.

Histograms are merged here and nowhere else (`merge_measurements`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import TypeVar

from benchkit.errors import InputError
from benchkit.loadtools import reducer_output
from benchkit.loadtools.measurement import Counters, Measurement, Second
from benchkit.loadtools.target_rate import with_achieved_rate
from benchkit.loadtools.tool import ParsedOutput, Tool, ToolOutput
from benchkit.models.histogram import merge_histograms
from benchkit.models.load import Load
from benchkit.models.load_result import Errors, Latency, LoadResult, Note

MAX_END_SPREAD = 0.05
"""Spread of the generators' ends, as a share of the window, above which a note says that they did not run together."""

T = TypeVar("T")


def read_generator(tool: Tool, load: Load, output: ToolOutput) -> ParsedOutput:
    """Return what one generator measured, read from the files that it wrote. Raises ParseError."""
    return with_achieved_rate(_read(tool, load, output), load, tool.rate)


def _read(tool: Tool, load: Load, output: ToolOutput) -> ParsedOutput:
    if load.histogram and tool.measure is not None:
        return tool.measure(output)
    summary = tool.parse(output.stdout if tool.summary == "stdout" else output.stderr)
    if load.histogram and tool.rows is not None:
        return reducer_output.summary_with_rows(summary, output.reduction, tool.rows, load)
    return ParsedOutput(summary, None)


def merge_generator_outputs(outputs: Sequence[ParsedOutput], started_s: Sequence[float]) -> ParsedOutput:
    """Return the outputs of generators of one tool, started at these instants, as one.

    Counts are added up, and histograms are merged. Rates are added up too, each being that of a generator over its own
    time: their sum is the rate while all of them ran. `duration_s` is that common window, from the last start to the
    first end; counts divided by the time from the first start to the last end would be too low a rate, because some
    generators had ended by then. Figures that cannot be merged are None: percentiles where there is no histogram.
    Raises InputError for different tools.
    """
    if len(outputs) == 1:
        return outputs[0]
    results = [output.result for output in outputs]
    measurements = [output.measurement for output in outputs if output.measurement is not None]
    measurement = merge_measurements(measurements) if len(measurements) == len(outputs) else None
    durations = _known(results, lambda result: result.duration_s)
    ends = [] if durations is None else [start + length for start, length in zip(started_s, durations, strict=True)]
    window_s = max(0.0, min(ends) - max(started_s)) if ends else None
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
            latency=_merge_summaries(results) if measurement is None else measurement.latency(),
            connect_mean_s=_mean_over_requests(results, lambda result: result.connect_mean_s),
            first_byte_mean_s=_mean_over_requests(results, lambda result: result.first_byte_mean_s),
            errors=_add_errors([result.errors for result in results]),
            status=_add_status(result.status for result in results),
            non_2xx=_sum(results, lambda result: result.non_2xx),
            failed=_sum(results, lambda result: result.failed),
            failed_length=_sum(results, lambda result: result.failed_length),
            availability=_availability(results),
            complete=all(result.complete for result in results),
            negotiated=_common(result.negotiated for result in results),
            notes=tuple(_merge_notes(results, ends, window_s, has_histogram=measurement is not None)),
        ),
        measurement,
    )


def merge_slices(outputs: Sequence[ParsedOutput]) -> ParsedOutput:
    """Return the outputs of slices, which one cell had one after the other, as one output over the sum of their times.

    Counts and durations are added up, histograms are merged, and rates are means weighted by the durations. Raises
    InputError for different tools.
    """
    if len(outputs) == 1:
        return outputs[0]
    results = [output.result for output in outputs]
    measurements = [output.measurement for output in outputs if output.measurement is not None]
    measurement = merge_measurements(measurements) if len(measurements) == len(outputs) else None
    first = results[0]
    return ParsedOutput(
        first.model_copy(
            update={
                "duration_s": _total(results, lambda result: result.duration_s),
                "requests": _sum(results, lambda result: result.requests),
                "rps": _mean_over_time(outputs, lambda each: each.result.rps),
                "bytes_total": _total(results, lambda result: result.bytes_total),
                "bytes_per_s": _mean_over_time(outputs, lambda each: each.result.bytes_per_s),
                "latency": _merge_summaries(results) if measurement is None else measurement.latency(),
                "connect_mean_s": _mean_over_requests(results, lambda result: result.connect_mean_s),
                "first_byte_mean_s": _mean_over_requests(results, lambda result: result.first_byte_mean_s),
                "errors": _add_errors([result.errors for result in results]),
                "status": _add_status(result.status for result in results),
                "non_2xx": _sum(results, lambda result: result.non_2xx),
                "failed": _sum(results, lambda result: result.failed),
                "failed_length": _sum(results, lambda result: result.failed_length),
                "availability": _availability(results),
                "complete": all(result.complete for result in results),
                "negotiated": _common(result.negotiated for result in results),
                "notes": tuple(_merge_notes_of_slices(results, has_histogram=measurement is not None)),
            }
        ),
        None
        if measurement is None
        else replace(measurement, achieved_rate=_mean_over_time(outputs, _achieved_rate), seconds=()),
    )


def merge_measurements(measurements: Sequence[Measurement]) -> Measurement:
    """Return the measurements of generators of one tool as one: counts added up, histograms merged.

    Each correction for coordinated omission stays that of its own generator. A count that one of them lacks is None in
    the sum. Raises InputError for no measurement, and for measurements of different tools.
    """
    kinds = {(each.tool, each.resolution_s, each.covers, each.latency_from) for each in measurements}
    if len(kinds) != 1:
        raise InputError(
            "cannot merge these measurements",
            why=f"they are of {', '.join(sorted({measurement.tool for measurement in measurements})) or 'no generator'}",
            hint="only generators of one tool measure the same thing",
        )
    ((tool, resolution_s, covers, latency_from),) = kinds
    recorded = [measurement.histograms for measurement in measurements if measurement.histograms]
    series = {name: None for histograms in recorded for name in histograms}
    if any(histograms.keys() != series.keys() for histograms in recorded):
        raise InputError(f"cannot merge these measurements of {tool}", why="some are corrected and others are not")
    return Measurement(
        tool=tool,
        histograms={name: merge_histograms([histograms[name] for histograms in recorded]) for name in series},
        counters=_add_counters([measurement.counters for measurement in measurements]),
        resolution_s=resolution_s,
        covers=covers,
        complete=all(measurement.complete for measurement in measurements),
        notes=tuple(dict.fromkeys(note for measurement in measurements for note in measurement.notes)),
        latency_from=latency_from,
        seconds=_merge_seconds([measurement.seconds for measurement in measurements]),
        lag=merge_histograms(lags) if (lags := [each.lag for each in measurements if each.lag is not None]) else None,
        achieved_rate=_total(measurements, lambda measurement: measurement.achieved_rate),
    )


def _merge_seconds(series: Sequence[tuple[Second, ...]]) -> tuple[Second, ...]:
    """Return the seconds of generators that started together as one series; empty where one of them has none."""
    if not all(series):
        return ()
    return tuple(map(_add_seconds, zip_longest(*series)))


def _add_seconds(generators: tuple[Second | None, ...]) -> Second:
    known = [each for each in generators if each is not None]
    latencies = [each.latency for each in known if each.latency is not None]
    return Second(
        started=sum(each.started for each in known),
        ended=sum(each.ended for each in known),
        errors=sum(each.errors for each in known),
        latency=merge_histograms(latencies) if latencies else None,
    )


def _known(items: Sequence[T], figure: Callable[[T], float | None]) -> list[float] | None:
    """Return a figure of all items; None where one of them lacks it."""
    known = [value for value in map(figure, items) if value is not None]
    return known if len(known) == len(items) else None


def _total(items: Sequence[T], figure: Callable[[T], float | None]) -> float | None:
    """Return the sum of a figure; None where one item lacks it."""
    known = _known(items, figure)
    return None if known is None else math.fsum(known)


def _mean_over_time(slices: Sequence[ParsedOutput], rate: Callable[[ParsedOutput], float | None]) -> float | None:
    """Return the mean of a rate, weighted by durations; None where one slice lacks either."""
    rates, durations = _known(slices, rate), _known(slices, lambda each: each.result.duration_s)
    if rates is None or durations is None or not sum(durations):
        return None
    return math.fsum(r * d for r, d in zip(rates, durations, strict=True)) / math.fsum(durations)


def _mean_over_requests(results: Sequence[LoadResult], seconds: Callable[[LoadResult], float | None]) -> float | None:
    """Return the mean of a time, weighted by requests; None where one result lacks either."""
    times, requests = _known(results, seconds), _known(results, lambda result: result.requests)
    if times is None or requests is None or not sum(requests):
        return None
    return math.fsum(s * n for s, n in zip(times, requests, strict=True)) / math.fsum(requests)


def _achieved_rate(output: ParsedOutput) -> float | None:
    return None if output.measurement is None else output.measurement.achieved_rate


def _sum(items: Sequence[T], count: Callable[[T], int | None]) -> int | None:
    """Return the sum of a count; None where one item lacks it."""
    known = [value for value in map(count, items) if value is not None]
    return sum(known) if len(known) == len(items) else None


def _add_counters(counters: Sequence[Counters]) -> Counters:
    return Counters(
        requests=sum(counter.requests for counter in counters),
        recorded=sum(counter.recorded for counter in counters),
        bytes_total=_sum(counters, lambda counter: counter.bytes_total),
        status=_add_status(counter.status for counter in counters),
        non_2xx=_sum(counters, lambda counter: counter.non_2xx),
        errors=_add_errors([counter.errors for counter in counters]),
    )


def _add_errors(errors: Sequence[Errors]) -> Errors:
    return Errors(
        connect=_sum(errors, lambda kinds: kinds.connect),
        read=_sum(errors, lambda kinds: kinds.read),
        write=_sum(errors, lambda kinds: kinds.write),
        timeout=_sum(errors, lambda kinds: kinds.timeout),
        other=_sum(errors, lambda kinds: kinds.other),
    )


def _add_status(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: dict[str, int] = {}
    for count in counts:
        for code, n in count.items():
            total[code] = total.get(code, 0) + n
    return dict(sorted(total.items()))


def _common(values: Iterable[T]) -> T | None:
    """Return the value that all have; None where they differ."""
    first, *others = values
    return first if all(other == first for other in others) else None


def _availability(results: Sequence[LoadResult]) -> float | None:
    """Return the mean of the availabilities, weighted by requests; None where one result lacks either."""
    shares = _known(results, lambda result: result.availability)
    requests = _known(results, lambda result: result.requests)
    if shares is None or requests is None:
        return None
    weights = [n + (result.failed or 0) for n, result in zip(requests, results, strict=True)]
    total = sum(weights)
    return math.fsum(weight * share for weight, share in zip(weights, shares, strict=True)) / total if total else None


def _merge_summaries(results: Sequence[LoadResult]) -> Latency:
    """Return extremes and mean of several summaries; their percentiles and deviations cannot be merged."""
    latencies = [result.latency for result in results]
    lowest = _known(latencies, lambda latency: latency.min_s)
    highest = _known(latencies, lambda latency: latency.max_s)
    means = [(latency.mean_s, result.requests) for latency, result in zip(latencies, results, strict=True)]
    weighted = [(mean, requests) for mean, requests in means if mean is not None and requests]
    requests = sum(n for _, n in weighted)
    return Latency(
        min_s=None if lowest is None else min(lowest),
        mean_s=math.fsum(m * n for m, n in weighted) / requests if len(weighted) == len(means) else None,
        max_s=None if highest is None else max(highest),
        resolution_s=max((step for latency in latencies if (step := latency.resolution_s) is not None), default=None),
        covers=latencies[0].covers,
        corrected=latencies[0].corrected,
    )


def _merge_notes(
    results: Sequence[LoadResult], ends: Sequence[float], window_s: float | None, *, has_histogram: bool
) -> Iterator[Note]:
    """Yield each kind of note once, with the generator that has it, and the notes on the merged result."""
    by_code: dict[str, list[tuple[int, str]]] = {}
    for number, result in enumerate(results, 1):
        for note in result.notes:
            by_code.setdefault(note.code, []).append((number, note.message))
    for code, messages in by_code.items():
        number, message = messages[0]
        generators = {number for number, _ in messages}
        if len({text for _, text in messages}) == 1 and len(generators) == len(results):
            yield Note(code=code, message=message)
        else:
            others = f"; similar for {len(generators) - 1} others" if len(generators) > 1 else ""
            yield Note(code=code, message=f"generator {number} of {len(results)}: {message}{others}")
    if window_s is not None and ends and max(ends) - min(ends) > MAX_END_SPREAD * window_s:
        yield Note(
            code="ended-apart",
            message=f"generators ended up to {max(ends) - min(ends):.2f} s apart: each rate covers its own running time",
        )
    if not has_histogram and any(result.latency.percentiles for result in results):
        yield Note(
            code="percentiles-lost", message="percentiles of several generators cannot be merged without histograms"
        )


def _merge_notes_of_slices(results: Sequence[LoadResult], *, has_histogram: bool) -> Iterator[Note]:
    """Yield each kind of note once, with the first slice that has it, and the notes on the merged result."""
    by_code: dict[str, list[tuple[int, str]]] = {}
    for number, result in enumerate(results, 1):
        for note in result.notes:
            by_code.setdefault(note.code, []).append((number, note.message))
    for code, messages in by_code.items():
        number, message = messages[0]
        is_in_all = len({number for number, _ in messages}) == len(results) and len({m for _, m in messages}) == 1
        others = f"; similar for {len(messages) - 1} others" if len(messages) > 1 else ""
        yield Note(code=code, message=message if is_in_all else f"slice {number} of {len(results)}: {message}{others}")
    if not has_histogram and any(result.latency.percentiles for result in results):
        yield Note(code="percentiles-lost", message="percentiles of slices cannot be merged without histograms")
