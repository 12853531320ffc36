"""The cause of each pair of servers is named, and equal servers have none."""

from __future__ import annotations

import pytest

from tests.qualify.faults.fault_lab import FaultLab
from tests.qualify.why.pairs import EQUAL, PAIRS, CausePair, explain, run_pair


@pytest.mark.parametrize("pair", [*PAIRS, EQUAL], ids=lambda pair: pair.name)
def test_the_cause_is_named(pair: CausePair, why_lab: FaultLab) -> None:
    """Run a pair once; busy neighbours may hide a cause, but not in each of two more runs."""
    runs = [explain(why_lab.store, run_pair(pair, why_lab))]
    if not pair.is_named(runs[0].causes, runs[0].parts):
        runs += [explain(why_lab.store, run_pair(pair, why_lab)) for _ in range(2)]
    assert all(each.adds_up for each in runs)
    assert all(pair.is_named(each.causes, each.parts) for each in runs[1:]), runs
