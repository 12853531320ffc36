"""A history of runs with a step."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import numpy as np
import pytest

from benchkit.models.run import CodeState
from tests.support.comparison.fixtures import STARTED, manifest_of, store_run, trials_of

CELLS = [{"stack": "old"}, {"stack": "new"}]
RATIOS = [1.0] * 8 + [0.8] * 6


@pytest.fixture
def stored(environment: dict[str, str]) -> Path:
    """A store of fourteen runs, of which the ninth is slower, each with tags and the state of its code."""
    generator = np.random.default_rng(2)
    store = Path(environment["BENCHKIT_STORE"])
    for i, ratio in enumerate(RATIOS):
        noise = 1000 * np.exp(0.01 * generator.standard_normal((2, 8)))
        manifest = manifest_of(
            CELLS,
            run_id=f"r{i:02}",
            started_at=STARTED + timedelta(days=i),
            tags={"version": f"1.{i}"},
            code=CodeState(commit=f"{i:x}" * 40),
        )
        rates = {"stack=old": noise[0], "stack=new": ratio * noise[1]}
        store_run(store, manifest, trials_of(rates, run_id=f"r{i:02}", tool="wrk"))
    return store
