"""Results of the recorded runs: ratios, claims and verdicts.

As a program, this module writes the fixture with which later versions are compared: after runs are recorded again.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pandas as pd

import benchkit
from benchkit.comparison.compare import compare_cells
from benchkit.comparison.runs.run_data import RunData, read_run_data
from benchkit.judge.evidence import RunEvidence
from benchkit.judge.verdicts import judge_run, verdict_of
from benchkit.models.run import Manifest
from benchkit.store.store import open_store
from benchkit.store.tables import RunTables
from tests.support.paths import ROOT, TESTS

RECORDED = ROOT / "notebooks" / "recorded"
STORES = {"runs": RECORDED, "history": RECORDED / "history"}
"""Stores of recorded runs, by their name in the fixture."""
FIXTURE = TESTS / "fixtures" / "recorded" / "results.json"

COMPARED = (
    "rps",
    "latency_p50_s",
    "latency_p99_s",
    "server_cpu_s_per_request",
    "server_memory_bytes",
    "bytes_per_s",
    "capacity_rps",
    "overload_goodput_rps",
)
"""Metrics whose ratios are compared."""

RATIO = ("cell_id", "baseline", "value", "baseline_value", "ratio", "low", "high", "p_holm", "outcome", "blocks")
CLAIMED = ("metric", "cell", "baseline", "ratio", "low", "high", "state")


NEWER = frozenset({"generator_cpu_s_per_request"})
"""Metrics of findings that the version of the fixture did not have."""


def results_of_store(folder: Path) -> dict[str, Any]:
    """Return the results of every run in a store, by run_id, as JSON has them.

    Sets of metrics that findings name are listed once under `metrics`, and stand elsewhere as their index.
    """
    store = open_store(folder)
    metrics: dict[tuple[str, ...], int] = {}
    runs: dict[str, Any] = {}
    for path in sorted(folder.glob("runs/*")):
        run_id = path.name
        data = read_run_data(store, store.run(run_id))
        rows = RunTables(store, data.manifest.scenario_name, run_id)
        tables = {name: rows.rows(name).to_pandas() for name in ("trials", "hosts", "slices", "verdicts")}
        measured = [name for name in COMPARED if tables["trials"][name].notna().any()]
        claims = benchkit.claims(run_id, store=folder)
        runs[run_id] = {
            "ratios": {name: _ratios(data, name) for name in measured},
            "claims": _records(claims[list(CLAIMED)]),
            "verdicts": _verdicts(data.manifest, tables, metrics),
        }
    return {"metrics": [[name for name in each if name not in NEWER] for each in metrics], "runs": runs}


def _ratios(data: RunData, metric: str) -> list[list[Any]]:
    return _records(compare_cells(data, [metric]).frame(full=True)[list(RATIO)])


def _records(frame: pd.DataFrame) -> list[list[Any]]:
    return [[None if pd.isna(value) else value for value in row] for row in frame.to_numpy(dtype=object).tolist()]


def _verdicts(
    manifest: Manifest, tables: dict[str, pd.DataFrame], metrics: dict[tuple[str, ...], int]
) -> list[list[Any]]:
    """Return [verdict, findings, skipped checks, trials]: findings of trials as stored, others found again."""
    stored: defaultdict[str, list[tuple[str, str, tuple[str, ...]]]] = defaultdict(list)
    of_trial = tables["verdicts"][tables["verdicts"]["scope"] == "trial"]
    for each in of_trial.to_dict("records"):
        stored[str(each["trial_id"])].append((str(each["check"]), str(each["severity"]), tuple(each["metrics"])))
    judgement = judge_run(RunEvidence(manifest, *(tables[name] for name in ("trials", "hosts", "slices"))))
    for row in judgement.verdicts:
        stored[row.trial_id].append((row.check, row.severity, row.metrics))
    unchecked: defaultdict[str, list[str]] = defaultdict(list)
    for skipped in judgement.unchecked:
        unchecked[skipped.trial_id].append(skipped.check)
    alike: defaultdict[tuple[Any, ...], list[str]] = defaultdict(list)
    for trial_id in map(str, tables["trials"]["trial_id"]):
        found = tuple(stored[trial_id])
        verdict = verdict_of(severity for _, severity, _ in found)
        indexed = tuple((check, severity, metrics.setdefault(names, len(metrics))) for check, severity, names in found)
        alike[verdict, indexed, tuple(unchecked[trial_id])].append(trial_id.removeprefix(f"{manifest.run_id}."))
    return [
        [verdict, [list(each) for each in found], list(codes), trials]
        for (verdict, found, codes), trials in alike.items()
    ]


if __name__ == "__main__":
    results = {name: results_of_store(folder) for name, folder in STORES.items()}
    FIXTURE.write_text(json.dumps(results, separators=(",", ":"), default=int) + "\n", encoding="utf-8")
