"""Counts of how often the cause of a pair of servers is named, in 20 runs of each (BENCHKIT_WHY_RUNS=…).

They take hours. The runs are kept in build/bench/why, and a second start goes on with those that are missing. Causes
are found in the stored runs, by the code as it is then.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd

from benchkit.store.store import Store
from tests.qualify.why.conftest import why_lab_in
from tests.qualify.why.pairs import EQUAL, PAIRS, explain, run_pair
from tests.support.paths import ROOT

RUNS = int(os.environ.get("BENCHKIT_WHY_RUNS", "20"))
FOLDER = ROOT / "build" / "bench" / "why"
LIST = FOLDER / "runs.jsonl"
"""The pair, the number and the id of each run."""


def test_how_often_causes_are_named() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    pairs = {pair.name: pair for pair in (*PAIRS, EQUAL)}
    done = {(row["pair"], row["number"]) for row in _rows(LIST)}
    missing = [(name, number) for number in range(RUNS) for name in pairs if (name, number) not in done]
    if missing:
        with why_lab_in(FOLDER) as lab, LIST.open("a") as file:
            for name, number in missing:
                run_id = run_pair(pairs[name], lab)
                file.write(json.dumps({"pair": name, "number": number, "run_id": run_id}) + "\n")
                file.flush()
    explained = []
    for row in _rows(LIST):
        found = explain(Store(FOLDER / "store"), row["run_id"])
        named = pairs[row["pair"]].is_named(found.causes, found.parts)
        explained.append({"pair": row["pair"], "named": named, "adds_up": found.adds_up, "first": found.first})
    runs = pd.DataFrame(explained).groupby("pair", sort=False)
    table = runs.agg(runs=("named", "size"), named=("named", "sum"), adds_up=("adds_up", "sum"), first=("first", set))
    print(f"\n{table.to_string()}")
    assert (table["adds_up"] == table["runs"]).all()


def _rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
