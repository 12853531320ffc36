"""The cause of each pair of servers is named, and equal servers have none."""

from __future__ import annotations

import pytest

from tests.qualify.faults.fault_lab import FaultLab
from tests.qualify.why.pairs import EQUAL, PAIRS, CausePair, explain


@pytest.mark.parametrize("pair", [*PAIRS, EQUAL], ids=lambda pair: pair.name)
def test_the_cause_is_named(pair: CausePair, why_lab: FaultLab) -> None:
    explained = explain(pair, why_lab)
    assert explained.adds_up
    assert pair.is_named(explained.causes, explained.parts), explained
