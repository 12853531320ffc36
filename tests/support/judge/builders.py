"""Builders of evidence: a healthy trial with changes, and tables of runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa

from benchkit.judge.check import Finding, SkippedCheck
from benchkit.judge.checks.registry import CHECKS
from benchkit.judge.evidence import Evidence, RunEvidence, TrialTelemetry
from benchkit.models.facts import RecordedFacts
from benchkit.models.load import Load
from benchkit.models.load_result import LoadResult
from benchkit.models.rows import SliceRow, TelemetryRow, TrialRow
from benchkit.models.run import ControllerRecord, Manifest
from benchkit.models.thresholds import Thresholds
from benchkit.models.trial import (
    GeneratorRecord,
    ProbeMoment,
    ProbeRecord,
    ProbeRound,
    ServiceRecord,
    TrialRecord,
    WatchRecord,
)
from benchkit.stats.samples import Reals
from benchkit.store.parquet_files import arrow_schema, arrow_table, empty_frame

WINDOW_S = 3.0
FACTS = {
    "sut": {"cpus": [0], "boot_id": "one machine", "sysctls": {}, "cpu_model": "Example CPU @ 2.50GHz"},
    "load": {
        "cpus": [1],
        "boot_id": "one machine",
        "sysctls": {"net.ipv4.ip_local_port_range": "10001 11000"},
        "cpu_model": "Example CPU @ 2.50GHz",
    },
}
ROW: Mapping[str, Any] = {
    "cell_id": "only",
    "trial_id": "r.b001.p001",
    "block": 1,
    "position": 1,
    "kind": "measure",
    "tool": "wrk",
    "requests": 100_000,
    "rps": 50_000.0,
    "bytes_total": 100_000 * 153.0,
    "latency_mean_s": 64 / 50_000,
    "latency_covers": "request",
    "latency_corrected": False,
    "latency_resolution_s": 1e-6,
    "errors_connect": 0,
    "errors_read": 0,
    "errors_write": 0,
    "errors_timeout": 0,
    "non_2xx": 0,
}
SERVERS = [{"stack": name} for name in ("a", "b", "c")]
"""Levels of three cells that differ in their server."""
PROBE = ProbeRecord(
    status=200, header_bytes=141, headers=(("Content-Type", "text/plain"),), body_bytes=12, body_sha256="0" * 64
)
"""Response to every probe of a healthy trial."""
EQUAL_PROBES: Mapping[str, Any] = {
    "probe_status": 200,
    "probe_header_bytes": 141,
    "probe_body_bytes": 12,
    "probe_body_sha256": "ab",
}
"""Columns of `trials` in which all cells sent the same answer."""
DROP_COUNTERS = (
    "listen_overflows_total",
    "listen_drops_total",
    "req_queue_full_drops_total",
    "req_queue_full_cookies_total",
)

Key = tuple[str, str, str | None, str | None]
"""Metric, host, service, instance."""
Telemetry = dict[Key, dict[float, float]]
"""Values by time, by series."""
Samples = Mapping[Key, Mapping[float, float]]


def core_counters(host: str, core: int, *, user: float = 0.0, softirq: float = 0.0, steal: float = 0.0) -> Telemetry:
    """Return the counters of a core with these shares of the window, idle before and after it."""
    times = (-0.01, WINDOW_S + 0.05)
    shares = {"user": user, "system": 0.0, "irq": 0.0, "iowait": 0.0, "softirq": softirq, "steal": steal}
    seconds = {kind: share * WINDOW_S for kind, share in shares.items()}
    seconds["idle"] = times[1] - times[0] - sum(seconds.values())
    return {
        (f"cpu_{kind}_s_total", host, None, str(core)): dict(zip(times, (0.0, increase), strict=True))
        for kind, increase in seconds.items()
    }


def cpu_time(**shares: float) -> Telemetry:
    """Return the CPU time of processes on host `sut` that used these shares of the window, each by its service."""
    return {("cpu_s_total", "sut", name, None): {-0.01: 0.0, 3.05: share * WINDOW_S} for name, share in shares.items()}


def sent_traffic(host: str, bits_per_s: float, packets: float = 0, interface: str = "eth0") -> Telemetry:
    """Return the counters of an interface that sent this much, in so many packets, and received nothing."""
    totals = {"bytes": bits_per_s / 8 * WINDOW_S, "packets": packets}
    return {(f"net_sent_{unit}_total", host, None, interface): {-0.01: 0, 3.05: each} for unit, each in totals.items()}


def healthy_telemetry() -> Telemetry:
    """Return the telemetry of a trial without findings: server and generator busy on cores of their own."""
    telemetry: Telemetry = {
        **{
            ("load1", host, None, None): dict.fromkeys((-0.5, -0.01, 0.5, 1.0, 1.5, 2.0, 2.5, 3.05), 1.0)
            for host in ("sut", "load")
        },
        **cpu_time(app=0.9),
        ("requests_total", "sut", "app", "1"): {-0.01: 0, 1.0: 50_000, 2.0: 100_000, 3.05: 150_000},
        ("connections_established", "sut", "app", "8080"): {0.5: 64, 1.0: 64, 1.5: 64},
        ("accept_queue", "sut", "app", "0.0.0.0:8080"): {0.5: 0, 1.0: 3},
        ("accept_queue_limit", "sut", "app", "0.0.0.0:8080"): {0.5: 511, 1.0: 511},
        **{(metric, "sut", None, None): {-0.01: 7.0, 3.05: 7.0} for metric in DROP_COUNTERS},
        ("tcp_sockets", "load", None, "time_wait"): {-0.01: 5, 1.0: 6},
        ("tcp_sockets", "load", None, "in_use"): {-0.01: 1, 1.0: 65},
        ("cgroup_throttled_s_total", "sut", None, None): {-0.01: 0.0, 3.05: 0.0},
    }
    for host in ("sut", "load"):
        telemetry |= core_counters(host, 0, user=0.9, softirq=0.05)
        telemetry |= core_counters(host, 1, user=0.6, softirq=0.05)
        telemetry |= sent_traffic(host, 60e6)
    return telemetry


def telemetry_columns(samples: Samples) -> pa.Table:
    """Return samples as the table `telemetry`."""
    return arrow_table(
        TelemetryRow.TABLE,
        [
            TelemetryRow(
                trial_id="r.b001.p001",
                host=host,
                role=host,
                service=service,
                instance=instance,
                t_s=t_s,
                metric=metric,
                unit="1",
                value=value,
            )
            for (metric, host, service, instance), values in samples.items()
            for t_s, value in values.items()
        ],
    )


def build_service(**fields: object) -> ServiceRecord:
    """Return a Go server on CPU 0 of `sut` that used 90 % of it."""
    return ServiceRecord.model_validate(
        {
            "name": "app",
            "backend": "nethttp",
            "host": "sut",
            "pid": 10,
            "argv": ("nethttp",),
            "cpu_s": 0.9 * WINDOW_S,
            "cpus": (0,),
            "parallelism": 1,
            "pids_before": ((10, 100),),
            "pids_after": ((10, 100),),
            **fields,
        }
    )


def build_generator(**fields: object) -> GeneratorRecord:
    """Return a wrk of one thread on CPU 1 of `load` that used 60 % of it."""
    return GeneratorRecord.model_validate(
        {
            "number": 1,
            "host": "load",
            "argv": ("/usr/bin/wrk", "-t1"),
            "load": build_load(),
            "files": {},
            "started_s": 0.0,
            "wall_s": WINDOW_S,
            "cpu_s": 0.6 * WINDOW_S,
            "cpus": (1,),
            "threads": 1,
            "result": LoadResult(tool="wrk", connections=64),
            **fields,
        }
    )


def build_load(**fields: object) -> Load:
    """Return a load of 64 connections at full speed."""
    return Load.model_validate({"tool": "wrk", "connections": 64, "duration_s": WINDOW_S, **fields})


def build_watch(host: str, **fields: object) -> WatchRecord:
    """Return the record of a host sampled every half second."""
    return WatchRecord.model_validate(
        {
            "host": host,
            "roles": (host,),
            "file": f"telemetry.{host}.jsonl",
            "interval_s": 0.5,
            "window_ns": (0, 2_000_000_000),
            "clock_uncertainty_s": 0.001,
            **fields,
        }
    )


def build_trial(
    samples: Samples | None = None,
    *,
    row: Mapping[str, object] | None = None,
    facts: Mapping[str, Mapping[str, object]] | None = None,
    notes: Mapping[str, str] | None = None,
    requested_metrics: frozenset[str] = frozenset({"rps"}),
    scenario: Mapping[str, object] | None = None,
    controller: ControllerRecord | None = None,
    without: tuple[str, ...] = (),
    **record: object,
) -> Evidence:
    """Return a healthy trial, changed by these samples, row values, host facts and record fields.

    Metrics in `without` were not sampled.
    """
    telemetry = {
        key: values for key, values in {**healthy_telemetry(), **(samples or {})}.items() if key[0] not in without
    }
    fields = {
        "trial_id": "r.b001.p001",
        "cell_id": "only",
        "levels": {},
        "block": 1,
        "position": 1,
        "started_at": datetime(2026, 3, 1, tzinfo=UTC),
        "wall_s": 3.0,
        "load": build_load(),
        "target": "http://10.0.0.1:8080/",
        "services": (build_service(),),
        "generators": (build_generator(),),
        "probe": PROBE,
        "probe_rounds": build_rounds(),
        "watched": (build_watch("sut"), build_watch("load")),
        **record,
    }
    return Evidence(
        record=TrialRecord.model_validate(fields),
        row=TrialRow(**{**ROW, **(row or {})}),
        telemetry=TrialTelemetry(telemetry_columns(telemetry)),
        facts={
            host: RecordedFacts.model_validate({**defaults, **((facts or {}).get(host, {}))})
            for host, defaults in FACTS.items()
        },
        notes=notes or {},
        requested_metrics=requested_metrics,
        scenario=scenario or {},
        controller=controller,
    )


def finding_of(code: str, evidence: Evidence, **thresholds: float) -> Finding | None:
    """Return the only finding of a check on a trial, or None; fail if the check was skipped."""
    check = CHECKS[code].of_trial
    assert check is not None
    result = check(evidence, Thresholds(**thresholds))
    assert not isinstance(result, SkippedCheck), result
    assert len(result) <= 1, result
    return result[0] if result else None


def skip_reason(code: str, evidence: Evidence) -> str:
    """Return the reason why a check was skipped; fail if it was not."""
    check = CHECKS[code].of_trial
    assert check is not None
    result = check(evidence, Thresholds())
    assert isinstance(result, SkippedCheck), result
    return result.why


def host_rows(*rows: tuple[str, str, str, str]) -> pd.DataFrame:
    """Return rows of the table `hosts` from (host, at, fact, value)."""
    named = [{"host": host, "role": host, "at": at, "fact": fact, "value": value} for host, at, fact, value in rows]
    frame: pd.DataFrame = pa.Table.from_pylist(named, schema=arrow_schema("hosts")).to_pandas()
    return frame


def trial_ids(cell: str, blocks: int = 3) -> set[str]:
    """Return the ids of a cell's trials in run `r1`."""
    return {f"r1.{cell}.b{block}" for block in range(1, blocks + 1)}


def build_rounds(**changed: Mapping[str, Any]) -> tuple[ProbeRound, ...]:
    """Return the further probes of a trial, with these fields of their response changed at some moments."""
    return tuple(
        ProbeRound(moment=moment, responses=(PROBE.model_copy(update=changed.get(moment)),))
        for moment in get_args(ProbeMoment)
    )


def build_slices(count: int = 12, **fields: float | None) -> tuple[SliceRow, ...]:
    """Return this many slices of a quarter of a second, with these fields in each."""
    return tuple(
        SliceRow(
            **{  # type: ignore[arg-type] # fields of any type
                "trial_id": "r.b001.p001",
                "slice": number,
                "place": 1,
                "started_s": 0.56 * number,
                "duration_s": 0.25,
                "late_s": 0.0,
                **fields,
            }
        )
        for number in range(1, count + 1)
    )


def counted_slices(requests: Sequence[int | None]) -> tuple[SliceRow, ...]:
    """Return rows of `slices` of the trial with these requests."""
    slices = build_slices(len(requests))
    return tuple(replace(each, requests=count) for each, count in zip(slices, requests, strict=True))


def slice_rows(logs: Mapping[str, npt.NDArray[np.float64]], orders: npt.NDArray[np.int64]) -> pd.DataFrame:
    """Return rows of the table `slices` for the trials of `trials_of`: log rates by cell, of shape (blocks, rounds).

    `orders[b, r, place]` is the index of the cell at a place of a round.
    """
    cells = list(logs)
    rows = [
        {
            "trial_id": f"r1.{cells[index]}.b{block + 1}",
            "slice": turn + 1,
            "place": place + 1,
            "started_s": 0.28 * (turn * len(cells) + place),
            "late_s": 0.0,
            "requests": round(math.exp(logs[cells[index]][block, turn]) / 4),
            "rps": math.exp(logs[cells[index]][block, turn]),
        }
        for block, turn, place in np.ndindex(*orders.shape)
        for index in [int(orders[block, turn, place])]
    ]
    frame: pd.DataFrame = pa.Table.from_pylist(rows, schema=arrow_schema("slices")).to_pandas()
    return frame


def run_findings(
    code: str,
    manifest: Manifest,
    trials: pd.DataFrame,
    hosts: pd.DataFrame | None = None,
    slices: pd.DataFrame | None = None,
) -> dict[str, Finding]:
    """Return the only finding of a run check on each trial that has one; fail if the check was skipped."""
    tables = host_rows() if hosts is None else hosts, empty_frame("slices") if slices is None else slices
    check = CHECKS[code].of_run
    assert check is not None
    results = check(RunEvidence(manifest, trials, *tables), Thresholds())
    findings: dict[str, Finding] = {}
    for trial_id, result in results.items():
        assert not isinstance(result, SkippedCheck), result
        if result:
            (findings[trial_id],) = result
    return findings


SLICED_CELLS = ("stack=a", "stack=b", "stack=c")
"""Cells of `slices_with`, in the order of its effects."""


def slices_with(
    effects: Reals, *, blocks: int = 6, rounds: int = 20, noise: float = 0.1, seed: int = 1
) -> pd.DataFrame:
    """Return slices whose cells change by these log effects after a slice of another cell, on a drifting host."""
    generator = np.random.default_rng(seed)
    cells = len(effects)
    shape = blocks, rounds, cells
    orders = generator.permuted(np.broadcast_to(np.arange(cells), shape), axis=2)
    drift = 0.3 * generator.standard_normal((blocks, rounds)).cumsum(axis=1)
    logs = {
        cell: 10 + np.arange(cells)[i] + drift + noise * generator.standard_normal(drift.shape)
        for i, cell in enumerate(SLICED_CELLS[:cells])
    }
    before = np.concatenate([np.full((blocks, 1), -1), orders.reshape(blocks, -1)[:, :-1]], axis=1).reshape(shape)
    for place in np.ndindex(*shape):
        cell = int(orders[place])
        logs[SLICED_CELLS[cell]][place[:2]] += effects[cell] if before[place] != cell else 0.0
    return slice_rows(logs, orders)
