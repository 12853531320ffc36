"""Counts of how often the cause of a pair of servers is named, in 20 runs of each (BENCHKIT_WHY_RUNS=…).

They take hours. Each run is kept in build/bench/why.jsonl, and a second start goes on with those that are missing.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pandas as pd

from tests.qualify.faults.fault_lab import FaultLab
from tests.qualify.why.conftest import why_lab
from tests.qualify.why.pairs import EQUAL, PAIRS, explain
from tests.support.paths import ROOT

__all__ = ["why_lab"]
RUNS = int(os.environ.get("BENCHKIT_WHY_RUNS", "20"))
KEPT = ROOT / "build" / "bench" / "why.jsonl"


def test_how_often_causes_are_named(why_lab: FaultLab) -> None:
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    for number in range(RUNS):
        done = {row["pair"] for row in _rows(KEPT) if row["run"] == number}
        for pair in (*PAIRS, EQUAL):
            if pair.name in done:
                continue
            found = explain(pair, why_lab)
            named = pair.is_named(found.causes, found.parts)
            row = {"pair": pair.name, "run": number, "named": named, "adds_up": found.adds_up, "first": found.first}
            with KEPT.open("a") as file:
                file.write(json.dumps(row) + "\n")
    runs = pd.DataFrame(_rows(KEPT)).groupby("pair", sort=False)
    table = runs.agg(runs=("run", "size"), named=("named", "sum"), adds_up=("adds_up", "sum"), first=("first", set))
    print(f"\n{table.to_string()}")
    assert (table["adds_up"] == table["runs"]).all()


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
