"""From what a trial left behind (its record and the tool's outputs) to rows of tables. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from benchkit.load.measurement import Measurement
from benchkit.models.levels import level_text
from benchkit.models.load_result import LoadResult
from benchkit.models.run import CellRecord
from benchkit.models.trial import TrialRecord

INTERRUPTED = "split"
"""The kind, in the table, of a trial whose block was cut by a pause and run again: kept, and in no figure or ratio."""

Row = dict[str, Any]
Columns = dict[str, Any]
"""A table's columns as arrays or lists of one length: what has too many rows to make each of them a mapping."""


def trial_row(record: TrialRecord, result: LoadResult, *, split: bool = False) -> Row:
    """The row of a trial in `trials`.

    Latencies are those of the raw histogram where there is one: what was measured, with `latency_corrected` false. One
    below the step in which the tool states times is not known (ab's 0 ms, siege's 0.00 s): absent, and not 0.
    """
    step = result.latency.resolution_s or 0.0

    def told(seconds: float | None) -> float | None:
        return None if seconds is None or seconds < step else seconds

    percentiles = result.latency.percentiles
    measured = result.duration_s
    warm_up = min(record.load.warmup_s, record.warmed_up_s)
    cpu = [service.cpu_s for service in record.services]
    return {
        "cell_id": record.cell_id,
        "trial_id": record.trial_id,
        "block": record.block,
        "position": record.position,
        "kind": INTERRUPTED if split else record.kind,
        "started_at": record.started_at,
        "duration_s": measured,
        "tool": result.tool,
        "connections": record.load.connections,
        "rate_requested": record.load.rate,
        "requests": result.requests,
        "rps": result.rps,
        "bytes_total": result.bytes_total,
        "bytes_per_s": result.bytes_per_s,
        "latency_mean_s": told(result.latency.mean_s),
        "latency_p50_s": told(percentiles.get("50")),
        "latency_p90_s": told(percentiles.get("90")),
        "latency_p99_s": told(percentiles.get("99")),
        "latency_p999_s": told(percentiles.get("99.9")),
        "latency_p9999_s": told(percentiles.get("99.99")),
        "latency_max_s": told(result.latency.max_s),
        "latency_covers": result.latency.covers,
        "latency_corrected": result.latency.corrected,
        "latency_resolution_s": result.latency.resolution_s,
        "errors_connect": result.errors.connect,
        "errors_read": result.errors.read,
        "errors_write": result.errors.write,
        "errors_timeout": result.errors.timeout,
        "non_2xx": result.non_2xx,
        "server_cpu_s_per_request": _per_request(cpu, result.requests),
        "probe_status": record.probe.status,
        "probe_header_bytes": record.probe.header_bytes,
        "probe_body_bytes": record.probe.body_bytes,
        "probe_body_sha256": record.probe.body_sha256,
        "rate_first_over_last": None,
        "server_loop_s": None,
        "verdict": None,
        "overhead_s": None if measured is None else record.wall_s - warm_up - measured,
    }


def note_rows(trial_id: str, result: LoadResult) -> list[Row]:
    """The rows of `notes`: what the tool's output has of the tool's own defects, and what it cannot give."""
    return [{"trial_id": trial_id, "code": note.code, "message": note.message} for note in result.notes]


def latency_columns(trial_id: str, measurement: Measurement | None) -> Columns:
    """The rows of `latency` of a trial: every bucket of every series that has a count, as columns.

    A bucket counts the values from `low_s` to `high_s`, both included, in steps of a microsecond.
    """
    histograms = {} if measurement is None else measurement.histograms
    columns: Columns = {"trial_id": [], "series": [], "low_s": [], "high_s": [], "count": []}
    for series, histogram in histograms.items():
        low_s, high_s, counts = histogram.columns()
        columns["trial_id"] += [trial_id] * len(counts)
        columns["series"] += [series] * len(counts)
        columns["low_s"].append(low_s)
        columns["high_s"].append(high_s)
        columns["count"].append(counts)
    for name in ("low_s", "high_s", "count"):
        columns[name] = np.concatenate(columns[name]) if columns[name] else []
    return columns


def factor_rows(cells: Iterable[CellRecord]) -> list[Row]:
    """The rows of `factors`: a level of a cell each."""
    return [
        {"cell_id": cell.cell_id, "factor": factor, "level": level_text(level), "level_num": _number(level)}
        for cell in cells
        for factor, level in cell.levels.items()
    ]


def host_rows(host: str, roles: Iterable[str], at: str, facts: Mapping[str, Any]) -> list[Row]:
    """The rows of `hosts`: a fact of a host in each of its roles; nested facts get dotted names."""
    named = dict(flatten_facts(facts))
    return [
        {"host": host, "role": role, "at": at, "fact": fact, "value": value}
        for role in roles
        for fact, value in named.items()
    ]


def flatten_facts(value: object, name: str = "") -> Iterable[tuple[str, str | None]]:
    """What is nested as names with dots, and texts: of mappings by their keys, of lists of such by their place.

    Lists of anything else are one text with commas.
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


def _per_request(cpu: list[float | None], requests: int | None) -> float | None:
    known = [seconds for seconds in cpu if seconds is not None]
    return sum(known) / requests if requests and len(known) == len(cpu) else None


def _number(level: str | float | bool) -> float | None:  # noqa: FBT001 - a level is any of these
    return None if isinstance(level, str | bool) else float(level)
