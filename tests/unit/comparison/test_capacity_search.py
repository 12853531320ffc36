"""The search for a capacity, with simulated servers."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchkit.comparison.capacity_search import MAX_PROBES, CapacitySearch

CEILING = 10_000.0
PRECISION = 0.05


def searched(capacity: float, noise: float = 0.0, seed: int = 1, most: int = MAX_PROBES) -> CapacitySearch:
    """Return a finished search for a capacity that varies from probe to probe by this standard deviation of its log."""
    rng = np.random.default_rng(seed)
    search = CapacitySearch(CEILING, PRECISION)
    while not search.is_precise and len(search.probes) < most:
        rate = search.next_rate()
        search.add(rate, is_held=rate < capacity * math.exp(noise * rng.standard_normal()))
    return search


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7, 0.95, 1.1])
def test_a_steady_server_is_found_in_few_probes(share: float) -> None:
    search = searched(share * CEILING)
    assert search.is_precise
    assert search.interval.low <= share * CEILING <= search.interval.high
    assert search.interval.rps == pytest.approx(share * CEILING, rel=0.03)
    assert len(search.probes) <= 20
    assert search.violations == 0


def test_a_noisy_server_takes_more_probes_and_is_still_found() -> None:
    found = [searched(6_000, 0.03, seed) for seed in range(20)]
    assert sum(each.interval.low <= 6_000 <= each.interval.high for each in found) >= 18
    assert np.median([abs(math.log(each.interval.rps / 6_000)) for each in found]) < 0.03
    assert np.mean([len(each.probes) for each in found]) > len(searched(6_000).probes)


def test_the_interval_narrows_and_one_wrong_probe_does_not_end_the_search() -> None:
    search = CapacitySearch(CEILING, PRECISION)
    before = search.interval.precision
    search.add(5_000, is_held=True)
    search.add(7_000, is_held=False)
    assert search.interval.precision < before
    search.add(3_000, is_held=False)  # a stall far below the capacity
    assert search.interval.high > 5_000
    assert search.violations == 1
    for _ in range(3):
        search.add(5_000, is_held=True)
    assert 5_000 <= search.interval.rps <= 7_000


def test_rates_stay_within_what_full_speed_allows() -> None:
    search = CapacitySearch(CEILING, PRECISION)
    for _ in range(10):
        rate = search.next_rate()
        assert 0.01 * CEILING < rate < 1.3 * CEILING
        search.add(rate, is_held=True)
