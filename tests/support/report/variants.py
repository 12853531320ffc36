"""Synthetic runs with verdicts, failures, profiles, seconds and slices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pandas as pd
import pyarrow as pa

from benchkit.models.profile import CATEGORIES
from benchkit.report.stored_run import StoredRun
from benchkit.store.journal import JournalEvent, parse_event
from benchkit.store.parquet_files import arrow_schema, empty_frame

Reason = tuple[str, str, str, tuple[str, ...]]


def judged(run: StoredRun, *reasons: Reason, unchecked: Mapping[str, str] | None = None) -> StoredRun:
    """Return the run with these reasons against its trials, and skipped checks of its first trial."""
    worst: dict[str, str] = {}
    for trial_id, _, severity, _ in reasons:
        worst[trial_id] = severity if worst.get(trial_id) != "invalid" else "invalid"
    rows = [
        {
            "trial_id": trial_id,
            "check": check,
            "severity": severity,
            "metrics": list(metrics),
            "seen": "so much",
            "threshold": "less",
            "text": f"So much <b>{check}</b>. It means. Do this.",
            "scope": "trial",
        }
        for trial_id, check, severity, metrics in reasons
    ]
    lacking = [
        {"trial_id": str(run.trials["trial_id"].iloc[0]), "check": check, "why": why, "scope": "trial"}
        for check, why in (unchecked or {}).items()
    ]
    tables = {
        "verdicts": pa.Table.from_pylist(rows, schema=arrow_schema("verdicts")).to_pandas(),
        "unchecked": pa.Table.from_pylist(lacking, schema=arrow_schema("unchecked")).to_pandas(),
    }

    def table(name: str) -> pd.DataFrame:
        frame: pd.DataFrame = tables[name] if name in tables else run.table(name)
        return frame

    verdict = [worst.get(trial_id, "valid") for trial_id in run.trials["trial_id"]]
    return replace(run, trials=run.trials.assign(verdict=verdict), table=table)


def ids(run: StoredRun, cell_id: str) -> list[str]:
    """Return the trials of a cell, by block."""
    return [str(each) for each in run.trials_of(cell_id)["trial_id"]]


def trial(event: str, name: str, block: int, cell: str, **fields: object) -> JournalEvent:
    place = {"trial_id": name, "cell_id": cell, "block": block, "round": 1, "position": 1}
    return parse_event({"event": f"trial-{event}", **place, "wall_s": 1.0, **fields})


SCHEDULING = {
    ("nethttp", 200): 0.2,
    ("nethttp", 4000): 0.4,
    ("gnet", 200): 0.0,
    ("gnet", 4000): 0.0,
}


GOROUTINES = {("nethttp", 200): 215.0, ("nethttp", 4000): 4015.0, ("gnet", 200): 16.0, ("gnet", 4000): 16.0}


def with_profiles(run: StoredRun, *, native: bool = False) -> StoredRun:
    """Return the run with two blocks of pairs after its measured ones, in which profiling takes a tenth of the rate.

    Shares of the scheduler are as above, half of each netpoll's, 0.02 apart in the two profiles. `native` programs have
    a second service without Go's runtime.
    """
    measured = run.trials
    parts, shares, functions, telemetry = [measured], [], [], []
    for block in (1, 2):
        for kind, rate in (("profile", 0.9), ("control", 1.0)):
            rows = measured[measured["block"] == 1]
            ids = rows["trial_id"] + f"-{kind}{block}"
            parts.append(
                rows.assign(
                    block=run.manifest.blocks + block, kind=kind, trial_id=ids, rps=rate * rows["rps"], requests=None
                )
            )
            for trial_id, server, connections in zip(
                ids, rows["factor_server"], rows["factor_connections"], strict=True
            ):
                if kind == "profile":
                    share = SCHEDULING[server, connections]
                    share += 0.01 * (2 * block - 3) * (share > 0)
                    named = {"scheduler": share / 2, "netpoll": share / 2, "read/write": 0.9 - share, "other": 0.1}
                    services = {"app": named, **({"front": {"read/write": 1.0}} if native else {})}
                    shares += [
                        {"trial_id": trial_id, "service": service, "category": name, "share": of.get(name, 0.0)}
                        for service, of in services.items()
                        for name in CATEGORIES
                    ]
                    keys = {"trial_id": trial_id, "host": "sut", "flat_share": 0.0, "flat_s": 0.01}
                    functions += [
                        {**keys, "service": "app", "function": "runtime.mcall", "cum_share": share},
                        {**keys, "service": "app", "function": "main.main", "cum_share": 1.0},
                    ]
                    functions += [{**keys, "service": "front", "function": "ngx_writev", "cum_share": 1.0}] * native
    for trial_id, server, connections in zip(
        measured["trial_id"], measured["factor_server"], measured["factor_connections"], strict=True
    ):
        telemetry += [
            {
                "trial_id": trial_id,
                "service": "app",
                "metric": "goroutines",
                "t_s": t,
                "value": GOROUTINES[server, connections],
            }
            for t in (0.0, 1.0, 2.0)
        ]
    tables = {
        name: pa.Table.from_pylist(rows, schema=arrow_schema(name)).to_pandas()
        for name, rows in (("profile_share", shares), ("profile", functions), ("telemetry", telemetry))
    }
    trials = pd.concat(parts, ignore_index=True).assign(server_cpu_s_per_request=2e-5)
    return replace(run, trials=trials, table=lambda name: tables.get(name, empty_frame(name)))


SECONDS = 5


STALL_S = 0.75


def with_series(run: StoredRun, seconds: int = SECONDS) -> StoredRun:
    """Return the run with a series of each measured trial; the first has a stall in its second 2."""
    rows = [
        {
            "trial_id": trial_id,
            "t_s": float(second),
            "rps": 1000.0,
            "in_flight": 8,
            "errors": 0,
            "latency_p50_s": 0.001,
            "latency_p99_s": STALL_S if place == 0 and second == 2 else 0.004,
        }
        for place, trial_id in enumerate(run.measured["trial_id"])
        for second in range(seconds)
    ]
    series = pa.Table.from_pylist(rows, schema=arrow_schema("series")).to_pandas()

    def table(name: str) -> pd.DataFrame:
        return series if name == "series" else empty_frame(name)

    return replace(run, table=table)


ROUNDS = 8


def sliced(run: StoredRun) -> StoredRun:
    """Return the run with eight slices of each measured trial, whose rates rise together from round to round."""
    rows = [
        {
            "trial_id": trial_id,
            "slice": number,
            "place": place,
            "started_s": 0.28 * (2 * number + place),
            "duration_s": 0.25,
            "late_s": 0.0,
            "requests": 100,
            "rps": rps * (1 + number / 10),
        }
        for place, (trial_id, rps) in enumerate(
            zip(run.measured["trial_id"], run.measured["rps"], strict=True), start=1
        )
        for number in range(1, ROUNDS + 1)
    ]
    slices = pa.Table.from_pylist(rows, schema=arrow_schema("slices")).to_pandas()

    def table(name: str) -> pd.DataFrame:
        return slices if name == "slices" else empty_frame(name)

    return replace(run, table=table, trials=run.trials.assign(slices=ROUNDS))
