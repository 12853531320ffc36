from __future__ import annotations

import numpy as np
import pytest

from benchkit.comparison.runs.run_data import RunData
from benchkit.comparison.trends import trends_of
from tests.support.comparison.fixtures import manifest_of, trials_of

LEVELS = (100, 200, 400, 1600)


def test_interval_of_the_slope_and_band_keep_their_coverage() -> None:
    generator = np.random.default_rng(9)
    manifest = manifest_of([{"connections": n} for n in LEVELS])
    runs, slope, whole = 400, 0, 0
    for _ in range(runs):
        block = 0.2 * generator.standard_normal(6)
        made = {f"connections={n}": n**-0.5 * np.exp(block + 0.05 * generator.standard_normal(6)) for n in LEVELS}
        (trend,) = trends_of(RunData(manifest, trials_of(made)), "rps", "connections")
        assert trend.low is not None
        assert trend.high is not None
        slope += trend.low <= 2**-0.5 <= trend.high
        whole += all(point.band_low <= point.level**-0.5 <= point.band_high for point in trend.points)
    # Three standard errors of a share around 95 %; the band is exact for the whole line, and wider for its levels.
    assert slope / runs == pytest.approx(0.95, abs=0.033)
    assert whole / runs > 0.95 - 0.033
