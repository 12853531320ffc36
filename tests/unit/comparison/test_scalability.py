"""The Universal Scalability Law, fitted to rates that follow it and to rates that do not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from benchkit.comparison.run_data import RunData
from benchkit.comparison.trends import Scalability, scalability_of
from benchkit.errors import InputError
from benchkit.models.run import Manifest

MakeTrials = Callable[..., pd.DataFrame]
MakeManifest = Callable[..., Manifest]
LEVELS = (1, 2, 4, 8, 16, 32)


@pytest.fixture
def fitted(make_trials: MakeTrials, make_manifest: MakeManifest) -> Callable[..., Scalability]:
    """A function that fits rates over connections, with noise and a level of its own in each block."""

    def fit(
        contention: float, coherency: float, *, blocks: int = 6, bump: float = 0.0, levels: tuple[int, ...] = LEVELS
    ) -> Scalability:
        rng = np.random.default_rng(4)
        shared = np.exp(0.2 * rng.standard_normal(blocks))
        rates = {}
        for n in levels:
            law = 1000 * n / (1 + contention * (n - 1) + coherency * n * (n - 1))
            noise = np.exp(0.01 * rng.standard_normal(blocks) + (bump if n == levels[len(levels) // 2] else 0))
            rates[f"connections={n}"] = law * shared * noise
        manifest = make_manifest([{"connections": n} for n in levels])
        (found,) = scalability_of(RunData(manifest, make_trials(rates)), "connections")
        return found

    return fit


@pytest.mark.parametrize(("contention", "coherency"), [(0.05, 0.001), (0.3, 0.0005), (0.02, 0.01)])
def test_the_parameters_of_the_law_are_found(
    fitted: Callable[..., Scalability], contention: float, coherency: float
) -> None:
    found = fitted(contention, coherency)
    assert found.fits
    assert found.contention is not None
    assert found.coherency is not None
    assert found.contention.value == pytest.approx(contention, rel=0.2, abs=0.01)
    assert found.coherency.value == pytest.approx(coherency, rel=0.2, abs=2e-4)
    assert found.contention.low <= found.contention.value <= found.contention.high
    assert found.peak == pytest.approx(np.sqrt((1 - contention) / coherency), rel=0.2)
    assert found.text.startswith("contention ")


def test_more_contention_is_seen_as_such(fitted: Callable[..., Scalability]) -> None:
    little, much = fitted(0.02, 0.0), fitted(0.2, 0.0)
    assert little.contention is not None
    assert much.contention is not None
    assert little.contention.high < much.contention.low


def test_rates_that_do_not_follow_the_law_are_named(fitted: Callable[..., Scalability]) -> None:
    found = fitted(0.05, 0.001, bump=0.4)
    assert not found.fits
    assert found.misfit is not None
    assert found.misfit[0] == 8
    assert found.text.startswith("the law does not fit: at 8 it is ")


def test_too_few_levels_or_blocks_have_a_reason(fitted: Callable[..., Scalability]) -> None:
    assert fitted(0.05, 0.001, levels=(1, 2, 4)).text == "no fit: 3 levels; the law needs 4"
    assert fitted(0.05, 0.001, blocks=2).text == "no fit: 2 blocks have every level; the law needs 3"


def test_another_factor_is_refused(make_trials: MakeTrials, make_manifest: MakeManifest) -> None:
    data = RunData(make_manifest([{"stack": "a"}, {"stack": "b"}]), make_trials({"stack=a": [1], "stack=b": [1]}))
    with pytest.raises(InputError, match="no trend over 'stack'"):
        scalability_of(data, "stack")
