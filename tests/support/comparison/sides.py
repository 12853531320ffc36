"""Runs of two cells with chosen evidence, for diagnoses: `compared(tmp_path, Side(...), Side(...))`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from benchkit.comparison.diagnoses.causes import Cause, causes_of
from benchkit.comparison.runs.run_data import RunData
from benchkit.models.trial import TrialRecord
from benchkit.stats.samples import Exclusion
from benchkit.store.store import Store
from tests.support.comparison.fixtures import manifest_of, trials_of
from tests.support.judge.builders import PROBE, build_generator, build_load, build_service

BLOCKS = (1, 2, 3)
WINDOW_S, RPS = 2.0, 10_000.0
CELL, BASELINE = "stack=cell", "stack=base"
Counter = tuple[str, str | None] | tuple[str, str | None, str]
"""Metric and service of a counter (None: of the host), and instance."""


@dataclass(frozen=True)
class Side:
    """Stored values of the trials of a cell: all alike but for a small trend over blocks."""

    counters: Mapping[Counter, float] = field(default_factory=dict)
    """Increase of each counter in a second."""
    states: Mapping[Counter, float] = field(default_factory=dict)
    latency: Sequence[tuple[float, float, int]] = ((0.001, 0.002, 1000),)
    """Buckets: low_s, high_s, count."""
    shares: Mapping[str, float] = field(default_factory=dict)
    """Shares of the profiles of `app`."""
    waits: Mapping[str, float] = field(default_factory=dict)
    """Seconds off the CPU in a trace, by what threads wait for."""
    services: tuple[str, ...] = ("app",)
    columns: Mapping[str, object] = field(default_factory=dict)
    """Columns of `trials`."""
    service: Mapping[str, object] = field(default_factory=dict)
    """Fields of the record of `app`."""
    generator: Mapping[str, object] = field(default_factory=dict)
    """Fields of the record of the load tool."""
    host: str = "sut"
    """Host of its services."""
    facts: Mapping[str, object] = field(default_factory=dict)
    """Facts of that host."""
    log: str = ""
    headers: tuple[tuple[str, str], ...] = ()


def compared(
    folder: Path, cell: Side, baseline: Side, *, exclusions: Sequence[Exclusion] = (), **scenario: object
) -> RunData:
    """Store the records and logs of a run of these sides, and return it with its tables."""
    sides = {CELL: cell, BASELINE: baseline}
    stacks = {
        name.partition("=")[2]: {"entry": side.services[-1], "services": {each: {} for each in side.services}}
        for name, side in sides.items()
    }
    manifest = manifest_of(
        [{"stack": "base"}, {"stack": "cell"}],
        scenario={"stacks": stacks, "baseline": {"stack": "base"}, **scenario},
        hosts=tuple(
            {side.host: {"name": side.host, "roles": ["sut"], "facts": side.facts} for side in sides.values()}.values()
        ),
    )
    run = Store(folder).create(manifest)
    trials = pd.concat([_trials(name, side) for name, side in sides.items()], ignore_index=True)
    tables: dict[str, list[dict[str, Any]]] = {
        name: []
        for name in ("telemetry", "latency", "profile", "profile_share", "trace", "verdicts", "classes", "load_curve")
    }
    for trial_id, cell_id, kind in zip(trials["trial_id"], trials["cell_id"], trials["kind"], strict=True):
        side = sides[cell_id]
        if kind == "profile":
            tables["profile_share"] += [
                {"trial_id": trial_id, "service": "app", "category": name, "share": share}
                for name, share in side.shares.items()
            ]
            continue
        tables["trace"] += [
            {"trial_id": trial_id, "level": "waiting", "name": name, "value": value}
            for name, value in side.waits.items()
        ]
        tables["telemetry"] += _samples(trial_id, side)
        tables["latency"] += [
            {"trial_id": trial_id, "series": "raw", "low_s": low, "high_s": high, "count": count}
            for low, high, count in side.latency
        ]
        files = {"app.sut.log": side.log.encode()} if side.log else {}
        run.commit_trial(_record(trial_id, cell_id, side), files)
    frames = {name: pd.DataFrame(rows) for name, rows in tables.items()}
    frames["verdicts"] = pd.DataFrame({"trial_id": [], "check": [], "severity": [], "metrics": []})
    return RunData(manifest, trials, tuple(exclusions), table=frames.__getitem__, folder=run)


def codes(folder: Path, cell: Side, baseline: Side = Side(), **fields: Any) -> list[tuple[str, str]]:  # noqa: ANN401 - fields of `compared`
    """Return the codes of the causes between two sides, each with the side that has it."""
    return [(each.code, each.subject_id) for each in causes_of(compared(folder, cell, baseline, **fields))]


def only_cause(folder: Path, cell: Side, baseline: Side = Side(), **fields: Any) -> Cause:  # noqa: ANN401 - fields of `compared`
    """Return the only cause between two sides."""
    (cause,) = causes_of(compared(folder, cell, baseline, **fields))
    return cause


def _trials(cell_id: str, side: Side) -> pd.DataFrame:
    defaults = {
        "duration_s": WINDOW_S,
        "requests": int(WINDOW_S * RPS),
        "bytes_total": WINDOW_S * RPS * 150,
        "server_cpu_s_per_request": 50e-6,
        "connections": 4,
    }
    columns: dict[str, Any] = {**defaults, **side.columns}
    measured = trials_of({cell_id: [RPS * (1 + block / 1000) for block in BLOCKS]}, **columns)
    measured["trial_id"] = measured["trial_id"].str.replace("=", "-")
    if not side.shares:
        return measured
    profiled = measured.assign(kind="profile", trial_id=measured["trial_id"] + ".profile")
    return pd.concat([measured, profiled], ignore_index=True)


def _samples(trial_id: str, side: Side) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    times_of = {"counter": (-0.1, WINDOW_S + 0.1), "state": (1.0,)}
    for kind, series in (("counter", side.counters), ("state", side.states)):
        for key, value in series.items():
            metric, service, instance = (*key, None)[:3]
            rows += [
                {
                    "trial_id": trial_id,
                    "host": side.host,
                    "service": service,
                    "instance": instance,
                    "metric": metric,
                    "t_s": t_s,
                    "value": value * (t_s + 0.1) if kind == "counter" else value,
                }
                for t_s in times_of[kind]
            ]
    known = [("cpu_s_total", name, 0.0) for name in side.services if ("cpu_s_total", name) not in side.counters]
    rows += [
        {
            "trial_id": trial_id,
            "host": side.host,
            "service": name,
            "instance": None,
            "metric": metric,
            "t_s": t_s,
            "value": t_s,
        }
        for metric, name, _ in known
        for t_s in times_of["counter"]
    ]
    return rows


def _record(trial_id: str, cell_id: str, side: Side) -> TrialRecord:
    return TrialRecord.model_validate(
        {
            "trial_id": trial_id,
            "cell_id": cell_id,
            "levels": {"stack": cell_id.partition("=")[2]},
            "block": 1,
            "position": 1,
            "started_at": "2026-03-01T10:00:00Z",
            "wall_s": WINDOW_S,
            "load": build_load(),
            "target": "http://10.0.0.1:8080/",
            "services": (build_service(**{"host": side.host, **side.service}),),
            "generators": (build_generator(**side.generator),),
            "probe": PROBE.model_copy(update={"headers": side.headers}),
        }
    )
