"""Counts of how often the cause of a pair of servers is named, in 20 runs of each (BENCHKIT_WHY_RUNS=…)."""

from __future__ import annotations

import os

from tests.qualify.faults.fault_lab import FaultLab
from tests.qualify.why.conftest import why_lab
from tests.qualify.why.pairs import EQUAL, PAIRS, explain

__all__ = ["why_lab"]
RUNS = int(os.environ.get("BENCHKIT_WHY_RUNS", "20"))


def test_how_often_causes_are_named(why_lab: FaultLab) -> None:
    print("\n| pair | runs | named | add up | first |\n|---|---|---|---|---|")
    for pair in (*PAIRS, EQUAL):
        found = [explain(pair, why_lab) for _ in range(RUNS)]
        named = sum(pair.is_named(each.causes, each.parts) for each in found)
        firsts = sorted({each.first for each in found})
        print(f"| {pair.name} | {RUNS} | {named} | {sum(each.adds_up for each in found)} | {', '.join(firsts)} |")
        assert all(each.adds_up for each in found)
