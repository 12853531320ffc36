"""Tests of the agreement of load tools, on known differences and on noise alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchkit.comparison import agreement
from benchkit.comparison.agreement import Agreement


def of(found: tuple[Agreement, ...], metric: str) -> Agreement:
    (one,) = (each for each in found if each.metric == metric)
    return one


def test_false_alarms_on_noise_keep_the_error_rate() -> None:
    draw = np.random.default_rng(7)
    runs = 400
    alarms = sum(agreement._permutation_p(draw.standard_t(4, (6, 4)) * 0.09) < 0.05 for _ in range(runs))
    assert alarms / runs == pytest.approx(0.05, abs=0.03)  # three standard errors
