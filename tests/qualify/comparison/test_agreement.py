"""Tests of the agreement of load tools, on known differences and on noise alone."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison import agreement
from benchkit.comparison.agreement import Agreement


def trials(
    speed: Mapping[str, float],
    *,
    blocks: int = 6,
    noise: float = 0.05,
    seed: int = 1,
    connections: tuple[int, ...] = (8,),
) -> pd.DataFrame:
    """Return trials of tools whose rate is 10,000 times their factor, with noise of blocks and of trials."""
    draw = np.random.default_rng(seed)
    rows: list[dict[str, Any]] = []
    for block in range(1, blocks + 1):
        of_block = draw.lognormal(0, noise)
        for tool, count in itertools.product(speed, connections):
            rps = 10_000 * speed[tool] * of_block * draw.lognormal(0, noise)
            rows.append(
                {
                    "trial_id": f"{tool}.{count}.b{block}",
                    "kind": "measure",
                    "tool": tool,
                    "block": block,
                    "factor_tool": tool,
                    "factor_connections": float(count),
                    "rps": rps,
                    "latency_mean_s": 8 / rps,
                    "latency_p50_s": 7 / rps,
                    "latency_p99_s": 30 / rps,
                    "latency_resolution_s": 1e-6,
                    "server_cpu_s_per_request": None,
                }
            )
    return pd.DataFrame(rows)


def of(found: tuple[Agreement, ...], metric: str) -> Agreement:
    (one,) = (each for each in found if each.metric == metric)
    return one


def test_false_alarms_on_noise_keep_the_error_rate() -> None:
    draw = np.random.default_rng(7)
    runs = 400
    alarms = sum(agreement._permutation_p(draw.standard_t(4, (6, 4)) * 0.09) < 0.05 for _ in range(runs))
    assert alarms / runs == pytest.approx(0.05, abs=0.03)  # three standard errors
