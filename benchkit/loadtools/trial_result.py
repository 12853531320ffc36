"""The result of a trial: the outputs of its generators, each read by its tool, merged into one. Pure.

Histograms are merged here and nowhere else (`merge_measurements`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any, TypeVar

from benchkit.errors import InputError
from benchkit.loadtools import reducer_output
from benchkit.loadtools.measurement import ClassCounts, Measurement, Second
from benchkit.loadtools.tool import ParsedOutput, RateSupport, Tool, ToolOutput
from benchkit.models.base import Frozen
from benchkit.models.histogram import NS_PER_S, merge_histograms
from benchkit.models.load import Load
from benchkit.models.load_result import Latency, LoadResult, Merge, Note

MAX_END_SPREAD = 0.05
"""Spread of the generators' ends, as a share of the window, above which a note says that they did not run together."""

T = TypeVar("T")


def read_generator(tool: Tool, load: Load, output: ToolOutput) -> ParsedOutput:
    """Return what one generator measured, read from the files that it wrote. Raises ParseError."""
    if load.histogram and tool.measure is not None:
        return with_achieved_rate(tool.measure(output), load, tool.rate)
    summary = tool.format.parse(output.stdout if tool.summary == "stdout" else output.stderr)
    if load.histogram and tool.rows is not None:
        measured = reducer_output.summary_with_rows(summary, output.reduction, tool.rows, load)
        return with_achieved_rate(measured, load, tool.rate)
    return ParsedOutput(summary, None)


def merge_generator_outputs(outputs: Sequence[ParsedOutput], started_s: Sequence[float]) -> ParsedOutput:
    """Return the outputs of generators of one tool, started at these instants, as one.

    Counts are added up, and histograms are merged. Rates are added up too, each being of one generator over its own
    time: their sum is the rate while all of them ran. `duration_s` is that common window, from the last start to the
    first end. Counts divided by the time from the first start to the last end would be too low a rate: some generators
    had ended by then. Figures that cannot be merged are None: percentiles where there is no histogram. Raises
    InputError for different tools.
    """
    if len(outputs) == 1:
        return outputs[0]
    results = [output.result for output in outputs]
    durations = _known([result.duration_s for result in results])
    ends = [] if durations is None else [start + length for start, length in zip(started_s, durations, strict=True)]
    window_s = max(0.0, min(ends) - max(started_s)) if ends else None
    measurement = _merged_measurement(outputs)
    notes = [*_merge_notes(results, "generator"), *_lost(results, measurement, "several generators")]
    if window_s is not None and (spread_s := max(ends) - min(ends)) > MAX_END_SPREAD * window_s:
        message = f"generators ended up to {spread_s:.2f} s apart: each rate covers its own running time"
        notes.append(Note(code="ended-apart", message=message))
    merged = _merge_results(results, measurement, durations=None)
    return ParsedOutput(merged.model_copy(update={"duration_s": window_s, "notes": tuple(notes)}), measurement)


def merge_slices(outputs: Sequence[ParsedOutput]) -> ParsedOutput:
    """Merge the outputs of the slices of one trial into one output, whose duration is the sum of the slices' durations.

    Counts and durations are added up, histograms are merged, and rates are means weighted by the durations. Raises
    InputError for different tools.
    """
    if len(outputs) == 1:
        return outputs[0]
    results = [output.result for output in outputs]
    durations = [result.duration_s for result in results]
    measurement = _merged_measurement(outputs)
    notes = [*_merge_notes(results, "slice"), *_lost(results, measurement, "slices")]
    merged = _merge_results(results, measurement, durations=durations)
    if measurement is not None:
        rates = [None if each.measurement is None else each.measurement.achieved_rate for each in outputs]
        measurement = replace(measurement, achieved_rate=_weighted_mean(rates, durations), seconds=())
    return ParsedOutput(merged.model_copy(update={"duration_s": _add(durations), "notes": tuple(notes)}), measurement)


def _merge_results(
    results: Sequence[LoadResult], measurement: Measurement | None, *, durations: Sequence[float | None] | None
) -> LoadResult:
    """Return the results as one by the rules of their fields; `durations` are of slices, None for generators."""
    requests = [result.requests for result in results]

    def merge(rule: Merge, values: Sequence[Any]) -> Any:  # noqa: ANN401 - of any field
        match rule:
            case Merge.SUM:
                return _add(values)
            case Merge.TOGETHER:
                return _add(values) if durations is None else values[0]
            case Merge.RATE:
                return _add(values) if durations is None else _weighted_mean(values, durations)
            case Merge.MEAN:
                return _weighted_mean(values, requests)
            case Merge.COMMON:
                return values[0] if all(value == values[0] for value in values) else None
            case Merge.EVERY:
                return all(values)

    merged = {
        name: merge(rule, [getattr(result, name) for result in results])
        for name, field in LoadResult.model_fields.items()
        for rule in field.metadata
        if isinstance(rule, Merge)
    }
    latency = _merge_summaries(results) if measurement is None else measurement.latency()
    return results[0].model_copy(update={**merged, "latency": latency, "availability": _availability(results)})


def _merged_measurement(outputs: Sequence[ParsedOutput]) -> Measurement | None:
    measurements = [output.measurement for output in outputs if output.measurement is not None]
    return merge_measurements(measurements) if len(measurements) == len(outputs) else None


def merge_measurements(measurements: Sequence[Measurement]) -> Measurement:
    """Return the measurements of generators of one tool as one: counts added up, histograms merged.

    Each generator keeps its own correction for coordinated omission. A count that one of them lacks is None in
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
    names = {name: None for histograms in recorded for name in histograms}
    if any(histograms.keys() != names.keys() for histograms in recorded):
        raise InputError(f"cannot merge these measurements of {tool}", why="some are corrected and others are not")
    series = [measurement.seconds for measurement in measurements]
    return Measurement(
        tool=tool,
        histograms={name: merge_histograms([histograms[name] for histograms in recorded]) for name in names},
        counters=_add([measurement.counters for measurement in measurements]),
        resolution_s=resolution_s,
        covers=covers,
        complete=all(measurement.complete for measurement in measurements),
        notes=tuple(dict.fromkeys(note for measurement in measurements for note in measurement.notes)),
        latency_from=latency_from,
        seconds=tuple(map(_add_seconds, zip_longest(*series))) if all(series) else (),
        classes=_merge_classes([measurement.classes for measurement in measurements]),
        lag=merge_histograms(lags) if (lags := [each.lag for each in measurements if each.lag is not None]) else None,
        achieved_rate=_add([measurement.achieved_rate for measurement in measurements]),
    )


def _add_seconds(generators: tuple[Second | None, ...]) -> Second:
    known = [each for each in generators if each is not None]
    latencies = [each.latency for each in known if each.latency is not None]
    return Second(
        started=sum(each.started for each in known),
        ended=sum(each.ended for each in known),
        errors=sum(each.errors for each in known),
        latency=merge_histograms(latencies) if latencies else None,
    )


def _merge_classes(classes: Sequence[Mapping[int, ClassCounts]]) -> Mapping[int, ClassCounts]:
    return {
        number: _add_class([each[number] for each in classes if number in each])
        for number in sorted({number for each in classes for number in each})
    }


def _add_class(parts: Sequence[ClassCounts]) -> ClassCounts:
    latencies = [each.latency for each in parts if each.latency is not None]
    sizes = [each.size for each in parts if each.size is not None]
    return ClassCounts(
        latency=merge_histograms(latencies) if latencies else None,
        status=_add([each.status for each in parts]),
        errors=sum(each.errors for each in parts),
        other_sizes=sum(each.other_sizes for each in parts),
        size=(min(low for low, _ in sizes), max(high for _, high in sizes)) if sizes else None,
    )


def _known(values: Sequence[T | None]) -> list[T] | None:
    known = [value for value in values if value is not None]
    return known if len(known) == len(values) else None


def _add(values: Sequence[Any]) -> Any:  # noqa: ANN401 - numbers, or mappings and models of numbers
    """Return the sum of numbers, mappings by their keys or models by their fields; None where one is missing."""
    known = _known(values)
    if known is None:
        return None
    first = known[0]
    if isinstance(first, Frozen):
        return type(first)(**{name: _add([getattr(each, name) for each in known]) for name in type(first).model_fields})
    if isinstance(first, Mapping):
        return {key: sum(each.get(key, 0) for each in known) for key in sorted({key for each in known for key in each})}
    return math.fsum(known) if isinstance(first, float) else sum(known)


def _weighted_mean(values: Sequence[float | None], weights: Sequence[float | None]) -> float | None:
    known, known_weights = _known(values), _known(weights)
    if known is None or known_weights is None or not sum(known_weights):
        return None
    return math.fsum(v * w for v, w in zip(known, known_weights, strict=True)) / math.fsum(known_weights)


def _availability(results: Sequence[LoadResult]) -> float | None:
    attempts = [None if each.requests is None else each.requests + (each.failed or 0) for each in results]
    return _weighted_mean([each.availability for each in results], attempts)


def _merge_summaries(results: Sequence[LoadResult]) -> Latency:
    """Return extremes and mean of several summaries; their percentiles and deviations cannot be merged."""
    latencies = [result.latency for result in results]
    lowest = _known([latency.min_s for latency in latencies])
    highest = _known([latency.max_s for latency in latencies])
    return Latency(
        min_s=None if lowest is None else min(lowest),
        mean_s=_weighted_mean([latency.mean_s for latency in latencies], [result.requests for result in results]),
        max_s=None if highest is None else max(highest),
        resolution_s=max((step for latency in latencies if (step := latency.resolution_s) is not None), default=None),
        covers=latencies[0].covers,
        corrected=latencies[0].corrected,
    )


def _merge_notes(results: Sequence[LoadResult], part: str) -> Iterator[Note]:
    """Yield each kind of note once, with the first generator or slice (`part`) that has it."""
    by_code: dict[str, list[tuple[int, str]]] = {}
    for number, result in enumerate(results, 1):
        for note in result.notes:
            by_code.setdefault(note.code, []).append((number, note.message))
    for code, messages in by_code.items():
        number, message = messages[0]
        parts = {number for number, _ in messages}
        if len({text for _, text in messages}) == 1 and len(parts) == len(results):
            yield Note(code=code, message=message)
        else:
            others = f"; similar for {len(parts) - 1} others" if len(parts) > 1 else ""
            yield Note(code=code, message=f"{part} {number} of {len(results)}: {message}{others}")


def _lost(results: Sequence[LoadResult], measurement: Measurement | None, parts: str) -> Iterator[Note]:
    if measurement is None and any(result.latency.percentiles for result in results):
        yield Note(code="percentiles-lost", message=f"percentiles of {parts} cannot be merged without histograms")


def with_achieved_rate(output: ParsedOutput, load: Load, support: RateSupport | None) -> ParsedOutput:
    """Return the output of one generator with the rate that it achieved, where its load has a target rate."""
    measured = output.measurement
    if load.rate is None or support is None or measured is None:
        return output
    rate = _answered_rate(output.result, measured, load, support)
    return output._replace(measurement=replace(measured, achieved_rate=rate))


def _answered_rate(result: LoadResult, measured: Measurement, load: Load, support: RateSupport) -> float | None:
    """Return answered requests per second, from the instants of the requests where the tool states them.

    Requests are sent an interval apart; n of them cover n - 1 intervals, on each connection where each has its own
    clock. An open loop sends at the target rate even if answers are late. So only requests count that were answered
    before the last one was sent. A request sent less than the fastest answer's time before that cannot be one: the
    time is shorter by that much. A growing backlog thus gives a rate below the target, never above the send rate.
    """
    span, requests = measured.span, measured.counters.recorded
    if span is None:
        return result.rps
    span_s = (span.last_start_ns - span.first_start_ns) / NS_PER_S
    sent_together = {"one": 1, "per connection": load.connections, "per stream": load.in_flight}[support.clocks]
    if requests <= sent_together or span_s <= 0:
        return result.rps
    if not support.is_open:
        return (requests - sent_together) / span_s
    raw = measured.histograms.get("raw")
    fastest_s = (None if raw is None else raw.min_s) or 0.0
    if fastest_s >= span_s:
        return 0.0  # nothing was answered before the last request was sent
    return min((requests - 1) / span_s, (requests - span.ended_later) / (span_s - fastest_s))
