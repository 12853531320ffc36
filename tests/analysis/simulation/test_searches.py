from __future__ import annotations

import numpy as np
import pytest

from tests.analysis.simulation.noise import MODELS
from tests.analysis.simulation.searches import search

COMMITS = 32
SPREAD = 0.04
"""Deviation of a trial's logarithm in sliced blocks of slices of 1 s: 0.056 for a log-ratio."""


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_slowdown_of_a_tenth_is_found_among_commits_that_do_not_all_build(name: str) -> None:
    found = 0
    for seed in range(20):
        places = np.random.default_rng(seed)
        first_bad = int(places.integers(COMMITS))
        others = [i for i in range(COMMITS - 1) if i != first_bad]
        broken = frozenset(int(i) for i in places.choice(others, 4, replace=False))
        suspects = search(MODELS[name], seed=seed, first_bad=first_bad, broken=broken, spread=SPREAD).suspects
        found += f"c{first_bad}" in suspects and all(int(each[1:]) in broken | {first_bad} for each in suspects)
    assert found >= 18


@pytest.mark.long
@pytest.mark.parametrize("name", MODELS)
def test_history_without_a_slowdown_is_said_to_have_none(name: str) -> None:
    silent = sum(
        not search(MODELS[name], seed=100 + seed, first_bad=None, spread=SPREAD).suspects for seed in range(20)
    )
    assert silent >= 18
