"""Rows of tables built from the record of a trial and the outputs of its tools. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate
from typing import Any

import pyarrow as pa

from benchkit.loadtools.measurement import ClassCounts, LatencyFrom, Measurement, overload_of
from benchkit.loadtools.registry import TOOLS
from benchkit.models.base import level_text
from benchkit.models.facts import RecordedFacts
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.models.metrics import PERCENTILES
from benchkit.models.protocol import Negotiated
from benchkit.models.request import is_expected
from benchkit.models.rows import (
    ClassRow,
    FactorRow,
    HostRow,
    LatencyRow,
    SeriesRow,
    SliceRow,
    TrialRow,
)
from benchkit.models.run import CellRecord
from benchkit.models.trial import ProbeMoment, TrialRecord
from benchkit.store.journal import HostFactsRead, JournalEvent
from benchkit.store.parquet_files import arrow_schema
from benchkit.store.telemetry_table import TrialSamples, known_sum

INTERRUPTED = "split"
"""Kind, in the table, of a trial whose block was interrupted by a pause and repeated: stored, and in no figure or
ratio."""


def trial_row(
    record: TrialRecord,
    result: LoadResult,
    measurement: Measurement | None = None,
    samples: TrialSamples | None = None,
    *,
    interrupted: bool = False,
) -> TrialRow:
    """Return the row of a trial in `trials`, from its record, what the load tool printed and measured, and telemetry.

    Latencies are those of the raw histogram where there is one: as measured, with `latency_corrected` false. A latency
    below the step in which the tool states times is unknown (ab's 0 ms, siege's 0.00 s): it is None, and not 0.
    """
    load, latency, capacity = record.load, result.latency, record.capacity
    overload = overload_of(load, measurement)
    sampled = sampled_requests(record, result)
    step = latency.resolution_s or 0.0

    def resolved(seconds: float | None) -> float | None:
        return None if seconds is None or seconds < step else seconds

    percentiles: dict[str, Any] = {
        name: resolved(latency.percentiles.get(f"{metric.percent:g}")) for name, metric in PERCENTILES.items()
    }
    achieved = result.rps if measurement is None else measurement.achieved_rate
    processing_s = None  # known where times include connecting
    if latency.covers == "connect+request" and latency.mean_s is not None and result.connect_mean_s is not None:
        processing_s = latency.mean_s - result.connect_mean_s
    server_cpu_s = None if record.external else known_sum(service.cpu_s for service in record.services)
    return TrialRow(
        cell_id=record.cell_id,
        trial_id=record.trial_id,
        block=record.block,
        position=record.position,
        kind=INTERRUPTED if interrupted else record.kind,
        started_at=record.started_at,
        duration_s=result.duration_s,
        tool=result.tool,
        connections=load.connections,
        rate_requested=load.mean_rate,
        rate_achieved=None if load.rate is None else achieved,
        send_lag_p99_s=None if measurement is None or measurement.lag is None else measurement.lag.percentile(99),
        capacity_rps=None if capacity is None or capacity.low is None else capacity.rps,
        capacity_low=None if capacity is None else capacity.low,
        capacity_high=None if capacity is None else capacity.high,
        overload_goodput_rps=None if overload is None else overload.goodput_rps,
        overload_error_share=None if overload is None else overload.error_share,
        recovery_s=None if overload is None else overload.recovery_s,
        requests=result.requests,
        rps=result.rps,
        bytes_total=result.bytes_total,
        bytes_per_s=result.bytes_per_s,
        latency_mean_s=resolved(latency.mean_s),
        latency_max_s=resolved(latency.max_s),
        connect_mean_s=resolved(result.connect_mean_s),
        processing_mean_s=resolved(processing_s),
        first_byte_mean_s=resolved(result.first_byte_mean_s),
        latency_covers=latency.covers,
        latency_corrected=latency.corrected,
        latency_from=_latency_from(load, measurement),
        latency_resolution_s=latency.resolution_s,
        errors_connect=result.errors.connect,
        errors_read=result.errors.read,
        errors_write=result.errors.write,
        errors_timeout=result.errors.timeout,
        non_2xx=result.non_2xx,
        server_cpu_s_per_request=_ratio(server_cpu_s, sampled),
        generator_cpu_s_per_request=_ratio(known_sum(each.cpu_s for each in record.generators), result.requests),
        server_memory_bytes=None if samples is None else samples.peak_memory_bytes,
        main_process_cpu_s_per_request=None if samples is None else _ratio(samples.main_process_cpu_s, sampled),
        server_switches_per_request=None if samples is None else _ratio(samples.switches, result.requests),
        goroutine_wait_mean_s=None if samples is None else samples.mean_goroutine_wait_s,
        **_probe_columns(record),
        cipher=_cipher(record, result),
        overhead_s=record.wall_s - record.warmed_up_s - record.window_s if record.imported is None else None,
        slices=len(record.slices) or None,
        start_spread_s=record.start_spread_s or None,
        start_uncertainty_s=record.clock_uncertainty_s or None,
        **percentiles,
    )


def _latency_from(load: Load, measurement: Measurement | None) -> LatencyFrom:
    """Return the instant from which latencies count; without a measurement, as the tool holds rates."""
    if measurement is not None:
        return measurement.latency_from
    rate = TOOLS[load.tool].rate if load.tool in TOOLS else None
    return "due" if load.rate is not None and rate is not None and rate.is_open else "sent"


def _probe_columns(record: TrialRecord) -> dict[str, Any]:
    probes = record.probes
    if not probes:
        return {}
    agreed = probes[0].negotiated or Negotiated()
    types = [probe.media_type for probe in probes]
    return {
        "probe_status": max(probe.status for probe in probes),
        "probe_header_bytes": sum(probe.header_bytes for probe in probes),
        "probe_body_bytes": sum(probe.body_bytes for probe in probes),
        "probe_body_sha256": _joint_sha256([probe.body_sha256 for probe in probes]),
        "probe_media_type": ", ".join(each for each in dict.fromkeys(types) if each) if all(types) else None,
        "probe_again_sha256": _later_sha256(record, "before"),
        "probe_during_sha256": _later_sha256(record, "during"),
        "probe_after_sha256": _later_sha256(record, "after"),
        "protocol": agreed.protocol,
        "tls_version": agreed.tls_version,
    }


def _cipher(record: TrialRecord, result: LoadResult) -> str | None:
    """Return the cipher suite of the load as the tool states it, else the probe's where the server allows no other."""
    if result.negotiated is not None and result.negotiated.cipher is not None:
        return result.negotiated.cipher
    allowed = None if record.tls is None else record.tls.ciphers
    if allowed is None or ":" in allowed:
        return None
    return next((probe.negotiated.cipher for probe in record.probes if probe.negotiated is not None), None)


def _later_sha256(record: TrialRecord, moment: ProbeMoment) -> str | None:
    """Return the joint digest of the further probes at a moment; None where there were none, or with another status."""
    later = record.responses_at(moment)
    if [probe.status for probe in later] != [probe.status for probe in record.probes]:
        return None
    return _joint_sha256([probe.body_sha256 for probe in later])


def _joint_sha256(digests: Sequence[str]) -> str:
    return digests[0] if len(digests) == 1 else hashlib.sha256("".join(digests).encode()).hexdigest()


def latency_table(trial_id: str, measurement: Measurement | None) -> pa.Table:
    """Return the rows of `latency` of a trial: every bucket of every series that has a count.

    A bucket counts the values from `low_s` to `high_s`, both included, in steps of a microsecond.
    """
    schema, histograms = arrow_schema(LatencyRow.TABLE), {} if measurement is None else measurement.histograms
    parts = []
    for series, histogram in histograms.items():
        low_s, high_s, counts = histogram.columns()
        names = {"trial_id": [trial_id] * len(counts), "series": [series] * len(counts)}
        parts.append(pa.table({**names, "low_s": low_s, "high_s": high_s, "count": counts}, schema=schema))
    return pa.concat_tables([schema.empty_table(), *parts])


def class_rows(record: TrialRecord, measurement: Measurement | None) -> tuple[ClassRow, ...]:
    """Return the rows of `classes` of a trial, in the order of its load; a class without any request has one too."""
    if measurement is None or not measurement.classes:
        return ()
    load, empty = record.load, ClassCounts(latency=None, status={}, errors=0, other_sizes=0, size=None)
    total = sum(each.weight for each in load.requests)
    rows = []
    for number, name in enumerate(load.classes, 1):
        requests = [each for each in load.requests if each.class_name == name]
        counts = measurement.classes.get(number, empty)
        expected = {each.expect.status for each in requests}
        percentiles = {} if counts.latency is None else counts.latency.percentiles((50, 99))
        low, high = counts.size or (None, None)
        rows.append(
            ClassRow(
                trial_id=record.trial_id,
                request_class=name,
                weight=sum(each.weight for each in requests) / total,
                requests=sum(counts.status.values()),
                errors=counts.errors,
                other_statuses=sum(n for code, n in counts.status.items() if not is_expected(int(code), expected)),
                other_sizes=None if all(each.expect.size is None for each in requests) else counts.other_sizes,
                size_low=low,
                size_high=high,
                latency_mean_s=None if counts.latency is None else counts.latency.mean_s,
                latency_p50_s=percentiles.get("50"),
                latency_p99_s=percentiles.get("99"),
            )
        )
    return tuple(rows)


def slice_rows(record: TrialRecord, results: Sequence[LoadResult]) -> tuple[SliceRow, ...]:
    """Return the rows of `slices` of a trial, with what the load tool measured in each of its slices."""
    return tuple(
        replace(
            each,
            duration_s=each.duration_s if result.duration_s is None else result.duration_s,
            requests=result.requests,
            rps=result.rps,
            latency_p50_s=result.latency.percentiles.get("50"),
            latency_p99_s=result.latency.percentiles.get("99"),
        )
        for each, result in zip(record.slices, results, strict=True)
    )


def series_rows(trial_id: str, measurement: Measurement | None) -> tuple[SeriesRow, ...]:
    """Return the rows of `series` of a trial: what its load tools saw in each second."""
    seconds = () if measurement is None else measurement.seconds
    in_flight = accumulate(each.started - each.ended for each in seconds)
    return tuple(
        SeriesRow(
            trial_id=trial_id,
            t_s=float(number),
            rps=float(each.ended),
            in_flight=unanswered,
            errors=each.errors,
            latency_p50_s=None if each.latency is None else each.latency.percentile(50),
            latency_p99_s=None if each.latency is None else each.latency.percentile(99),
        )
        for number, (each, unanswered) in enumerate(zip(seconds, in_flight, strict=True))
    )


def factor_rows(cells: Iterable[CellRecord]) -> list[FactorRow]:
    """Return the rows of `factors`: one for each level of each cell."""
    return [
        FactorRow(cell_id=cell.cell_id, factor=factor, level=level_text(level), level_num=number)
        for cell in cells
        for factor, level in cell.levels.items()
        for number in (None if isinstance(level, str | bool) else float(level),)
    ]


def host_rows(host: str, roles: Iterable[str], at: str, facts: RecordedFacts) -> list[HostRow]:
    """Return the rows of `hosts`: each fact of a host in each of its roles; nested facts get dotted names."""
    named = dict(flatten_facts(facts.model_dump(mode="json")))
    return [
        HostRow(host=host, role=role, at=at, fact=fact, value=value) for role in roles for fact, value in named.items()
    ]


def host_rows_of(history: Iterable[JournalEvent]) -> list[HostRow]:
    """Return the rows of `hosts` that a journal gives; later facts of a stage replace earlier ones."""
    rows = {
        (event.host, event.stage): host_rows(event.host, event.roles, event.stage, event.facts)
        for event in history
        if isinstance(event, HostFactsRead)
    }
    return [row for part in rows.values() for row in part]


def flatten_facts(value: object, name: str = "") -> Iterable[tuple[str, str | None]]:
    """Yield nested facts as dotted names with texts: keys of mappings, and positions in lists of mappings.

    Other lists become one text with commas.
    """
    match value:
        case Mapping():
            for key, inner in value.items():
                yield from flatten_facts(inner, f"{name}.{key}" if name else str(key))
        case list() | tuple() if any(isinstance(inner, Mapping) for inner in value):
            for i, inner in enumerate(value):
                yield from flatten_facts(inner, f"{name}.{i}")
        case list() | tuple():
            yield name, ",".join(map(str, value))
        case None:
            yield name, None
        case bool():
            yield name, level_text(value)
        case _:
            yield name, str(value)


def sampled_requests(record: TrialRecord, result: LoadResult) -> float | None:
    """Return the number of requests while the hosts were sampled.

    In slices, hosts are sampled in the window only, and a tool may overrun it (`Tool.overrun_s`). Its requests are then
    counted in proportion to time.
    """
    if not record.slices or not result.duration_s or result.requests is None:
        return result.requests
    sampled_s = sum(each.duration_s for each in record.slices)
    return result.requests * min(1.0, sampled_s / result.duration_s)


def _ratio(value: float | None, requests: float | None) -> float | None:
    return None if value is None or not requests else value / requests
