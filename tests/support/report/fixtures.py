"""Synthetic runs: seeded, and labelled as synthetic wherever a reader could take them for measured."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from benchkit.models.base import cell_id
from benchkit.models.run import CellRecord, HostRecord, Manifest
from benchkit.models.telemetry import TELEMETRY_METRICS
from benchkit.report.stored_run import StoredRun
from benchkit.store.parquet_files import arrow_schema, empty_frame
from benchkit.store.row_builders import factor_rows
from benchkit.store.store import Store
from benchkit.store.tables import RunTables

STARTED = datetime(2026, 3, 1, 10, 22, tzinfo=UTC)
Factors = Mapping[str, Sequence[str | int | bool]]
MakeRun = Callable[..., StoredRun]

FACTS = {
    "hostname": "synthetic-sut",
    "distribution": "Debian GNU/Linux 12 (bookworm)",
    "kernel": "6.1.0-synthetic",
    "cpu_model": "Synthetic CPU @ 2.00GHz",
    "memory_bytes": "8589934592",
    "tools.nginx": "1.22.1",
}


def synthetic_run(
    factors: Factors | None = None,
    *,
    blocks: int = 5,
    seed: int = 7,
    unsupported: Mapping[str, str] | None = None,
    scenario: Mapping[str, Any] | None = None,
    **manifest: Any,  # noqa: ANN401 - fields of Manifest
) -> StoredRun:
    """Return a run with values of a seeded generator: the first level of the first factor is the fastest."""
    factors = {"stack": ["go", "nginx-go"]} if factors is None else factors
    unsupported = unsupported or {}
    generator = np.random.default_rng(seed)
    combinations = [dict(zip(factors, levels, strict=True)) for levels in itertools.product(*factors.values())]
    cells = tuple(
        CellRecord(cell_id=cell_id(levels), levels=levels, unsupported=unsupported.get(cell_id(levels)))
        for levels in combinations
    )
    supported = [(place, cell) for place, cell in enumerate(cells) if cell.unsupported is None]
    rows = []
    for block in range(1, blocks + 1):
        for position, i in enumerate(generator.permutation(len(supported)), start=1):
            rows.append(_row(supported[i][0], supported[i][1], block, position, generator))
    trials = stored(rows)
    return StoredRun(
        manifest=Manifest(
            run_id="r20260301-synthetic",
            scenario={
                "name": "synthetic",
                "title": "Synthetic data: nothing here was measured",
                "question": "Does the report show what it is given?",
                **(scenario or {}),
            },
            scale="lab",
            seed=seed,
            blocks=blocks,
            cells=cells,
            hosts=(
                HostRecord(name="sut", roles=("sut",), facts={}),
                HostRecord(name="load", roles=("load",), facts={}),
            ),
            versions={"benchkit": "0.1.0", "wrk": "4.1.0 (synthetic)"},
            started_at=STARTED,
            ended_at=STARTED + timedelta(minutes=2, seconds=5),
            status="done",
            **manifest,
        ),
        trials=_with_factors(trials, cells),
        hosts=pd.DataFrame(
            [
                {"host": host, "role": host, "at": "start", "fact": fact, "value": value}
                for host in ("sut", "load")
                for fact, value in FACTS.items()
            ]
        ),
    )


def _row(place: int, cell: CellRecord, block: int, position: int, generator: np.random.Generator) -> dict[str, Any]:
    speed = 0.55 ** (place % 4) * 0.93 ** (place // 4) * generator.normal(1, 0.03)
    rps = 72_000 * speed
    p50 = 0.00085 / speed * generator.normal(1, 0.02)
    tail = np.cumprod([1.0, 1.6, 1.9, 2.2, 1.8]) * generator.normal(1, 0.06, 5)
    return {
        "cell_id": cell.cell_id,
        "trial_id": f"synthetic-b{block}-p{position}",
        "block": block,
        "position": position,
        "kind": "measure",
        "started_at": pd.Timestamp(STARTED) + pd.Timedelta(seconds=7 * (block * 10 + position)),
        "duration_s": 5.0 + 0.01 * generator.random(),
        "tool": "wrk",
        "connections": 64,
        "rate_requested": None,
        "requests": round(rps * 5),
        "rps": rps,
        "bytes_total": rps * 5 * 153.0,
        "bytes_per_s": rps * 153.0,
        "latency_mean_s": p50 * 1.2,
        "latency_p50_s": p50,
        "latency_p90_s": p50 * tail[1],
        "latency_p99_s": p50 * tail[2],
        "latency_p999_s": p50 * tail[3],
        "latency_p9999_s": p50 * tail[4],
        "latency_max_s": p50 * tail[4] * 1.5,
        "latency_covers": "request",
        "latency_corrected": True,
        "errors_connect": 0,
        "errors_read": 0,
        "errors_write": 0,
        "errors_timeout": 0,
        "non_2xx": 0,
        "server_cpu_s_per_request": None,
        "verdict": None,
        "overhead_s": 0.3 + 0.05 * generator.random(),
    }


def _with_factors(trials: pd.DataFrame, cells: Sequence[CellRecord]) -> pd.DataFrame:
    levels = {cell.cell_id: cell.levels for cell in cells}
    names = list(dict.fromkeys(name for cell in cells for name in cell.levels))
    return trials.assign(
        **{f"factor_{name}": [levels[cell_id][name] for cell_id in trials["cell_id"]] for name in names}
    )


def stored(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return rows of `trials` with the types that the store gives them."""
    frame: pd.DataFrame = pa.Table.from_pylist([dict(row) for row in rows], schema=arrow_schema("trials")).to_pandas()
    return frame


@pytest.fixture(scope="session")
def make_run() -> MakeRun:
    """Generator of synthetic runs."""
    return synthetic_run


@pytest.fixture(scope="session")
def run() -> StoredRun:
    """Run of the quickstart's shape: two stacks, five blocks."""
    return synthetic_run()


def watched(run: StoredRun, *, interval_s: float = 1.0, gap_in: str | None = None) -> StoredRun:
    """Return the run with telemetry: one CPU of `sut` at 80 % in the window, 1,000 requests/s, 1 MB/s, 7 waiting.

    Samples from 1 s before the window to 1 s after it, each `interval_s`; the trial `gap_in` has none from 1.5 to 4.5
    s.
    """
    rows: list[dict[str, Any]] = []
    for trial_id, duration_s in zip(run.trials["trial_id"], run.trials["duration_s"], strict=True):
        at = np.arange(-1.0, duration_s + 1, interval_s)
        if trial_id == gap_in:
            at = at[(at < 1.5) | (at > 4.5)]
        spent = np.clip(at, 0, duration_s)
        series = {
            ("sut", None, "0", "cpu_user_s_total"): 0.6 * spent,
            ("sut", None, "0", "cpu_system_s_total"): 0.2 * spent,
            ("load", None, "1", "cpu_user_s_total"): 0.5 * spent,
            ("sut", None, "eth0", "net_sent_bytes_total"): 1e6 * spent,
            ("load", None, "eth0", "net_sent_bytes_total"): 1e5 * spent,
            ("sut", None, None, "listen_overflows_total"): np.where(at > 0, 3.0, 0.0),
            ("sut", "app", None, "cpu_s_total"): 0.8 * spent,
            ("load", "generator-1", None, "cpu_s_total"): 0.5 * spent,
            ("sut", "app", "9", "requests_total"): 1000 * spent,
            ("sut", "app", "s", "accept_queue"): np.where((at > 0) & (at < duration_s), 7.0, 0.0),
            ("sut", "app", "s", "accept_queue_limit"): np.full_like(at, 128.0),
        }
        for (host, service, instance, metric), values in series.items():
            keys = {"trial_id": trial_id, "host": host, "role": host, "service": service, "instance": instance}
            rows += [
                {
                    **keys,
                    "t_s": float(t),
                    "metric": metric,
                    "unit": TELEMETRY_METRICS[metric].unit,
                    "value": float(value),
                }
                for t, value in zip(at, values, strict=True)
            ]
    telemetry: pd.DataFrame = pa.Table.from_pylist(rows, schema=arrow_schema("telemetry")).to_pandas()
    return replace(run, table=lambda name: telemetry if name == "telemetry" else empty_frame(name))


def keep(run: StoredRun, path: Path) -> Store:
    """Return a store with the run in it, one file per table, as after the end of a run."""
    store = Store(path)
    store.create(run.manifest)
    tables = RunTables(store, run.manifest.scenario_name, run.manifest.run_id)
    trials = run.trials.drop(columns=[name for name in run.trials if str(name).startswith("factor_")])
    frames = {"trials": trials, "hosts": run.hosts, "telemetry": run.telemetry, "verdicts": run.verdicts}
    for name, frame in frames.items():
        tables.replace(
            name,
            pa.table(
                {column: pa.array(frame[column], from_pandas=True) for column in frame}, schema=arrow_schema(name)
            ),
        )
    tables.replace("factors", factor_rows(run.manifest.cells))
    return store
