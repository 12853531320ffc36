"""The cause of each pair of servers is named, and equal servers have none."""

from __future__ import annotations

import pytest

from tests.qualify.faults.fault_lab import FaultLab
from tests.qualify.why.pairs import EQUAL, PAIRS, CausePair, explain, run_pair


@pytest.mark.parametrize("pair", [*PAIRS, EQUAL], ids=lambda pair: pair.name)
def test_the_cause_is_named(pair: CausePair, why_lab: FaultLab) -> None:
    """Busy neighbours may hide a cause, or make one, but not in each of three runs; `make bench` counts every run."""
    runs = []
    for _ in range(3):
        runs.append(explain(why_lab.store, run_pair(pair, why_lab)))
        assert runs[-1].adds_up
        if pair.is_named(runs[-1].causes, runs[-1].parts):
            return
    pytest.fail(f"not named: {runs}")
