from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.cpu_profiles import profiler_costs
from tests.support.comparison.fixtures import trials_of

Pairs = Mapping[str, Sequence[tuple[float, float]]]
"""Pairs of each cell: the rate with profiler, and the rate without."""


@pytest.fixture
def make_pass() -> Callable[[Pairs], pd.DataFrame]:
    """A run of two measured blocks, and a profile pass of these pairs after them."""

    def made(pairs: Pairs) -> pd.DataFrame:
        parts = [trials_of({cell: [100.0, 100.0] for cell in pairs} | {"a~control": [100.0, 100.0]})]
        for place, kind in enumerate(("profile", "control")):
            rows = trials_of({cell: [pair[place] for pair in each] for cell, each in pairs.items()}, kind=kind)
            parts.append(rows.assign(block=rows["block"] + 2, trial_id=rows["trial_id"] + f".{kind}"))
        return pd.concat(parts, ignore_index=True)

    return made


def test_pooled_interval_keeps_its_coverage(make_pass: Callable[[Pairs], pd.DataFrame]) -> None:
    true = dict(zip("abcdefgh", np.linspace(0.9, 1.0, 8), strict=True))
    trials = make_pass({cell: [(100 * ratio, 100)] * 2 for cell, ratio in true.items()})
    profiled, rates = trials["kind"] == "profile", trials["rps"]
    drawn = np.random.default_rng(1)
    hits = []
    for _ in range(80):
        noise = np.where(profiled, drawn.normal(0, 0.03, len(trials)), 0)
        _, *costs = profiler_costs(trials.assign(rps=rates * np.exp(noise)))
        hits += [
            cost.low is not None and cost.high is not None and cost.low <= true[str(cost.cell_id)] <= cost.high
            for cost in costs
        ]
    assert len(hits) == 640
    assert 0.92 <= sum(map(bool, hits)) / len(hits) <= 0.98
