"""Searches for a capacity, simulated: how many probes they take, how exact they are, how often their intervals cover.

A simulated server keeps its objective below its capacity, which varies from probe to probe by the noise of labs. It is
independent, or has an autocorrelation of 0.7, as the speed of cores has it within minutes.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from benchkit.comparison.capacity_search import CapacitySearch, Interval
from benchkit.stats.inference import sign_flip_p_values, t_quantile, t_statistics
from tests.bench.real_runs import table

RUNS = 300
PRECISION = 0.05
MAX_PROBES = 40
CEILING = 10_000.0
"""Rate of a simulated server at full speed, requests/s."""
BLOCKS, COMPARISONS = 6, 400
NOISES = ((0.005, 0.0), (0.02, 0.0), (0.02, 0.7), (0.05, 0.0), (0.05, 0.7))
"""Standard deviation of the log-capacity from probe to probe, and its autocorrelation."""

Server = Callable[[float], bool]


def by_entropy(server: Server, ceiling: float) -> tuple[Interval, int]:
    """Search as benchkit does."""
    search = CapacitySearch(ceiling, PRECISION)
    while not search.is_precise and len(search.probes) < MAX_PROBES:
        rate = search.next_rate()
        search.add(rate, is_held=server(rate))
    return search.interval, len(search.probes)


def by_median(server: Server, ceiling: float) -> tuple[Interval, int]:
    """Search by probabilistic bisection: probe at the median of the same posterior."""
    search = CapacitySearch(ceiling, PRECISION)
    while not search.is_precise and len(search.probes) < MAX_PROBES:
        rate = search.interval.rps
        search.add(rate, is_held=server(rate))
    return search.interval, len(search.probes)


def by_bisection(server: Server, ceiling: float) -> tuple[Interval, int]:
    """Search by bisection in log-rate that believes every probe."""
    low, high, probes = 0.02 * ceiling, 1.25 * ceiling, 0
    while math.sqrt(high / low) - 1 > PRECISION:
        rate, probes = math.sqrt(low * high), probes + 1
        low, high = (rate, high) if server(rate) else (low, rate)
    return Interval(math.sqrt(low * high), low, high), probes


SEARCHES = {"least entropy (benchkit)": by_entropy, "probabilistic bisection": by_median, "bisection": by_bisection}


def _server(rng: np.random.Generator, capacity: float, noise: float, correlation: float) -> Server:
    """Return a server with that capacity, which varies from probe to probe."""
    state = noise * rng.standard_normal()

    def holds(rate: float) -> bool:
        nonlocal state
        state = correlation * state + math.sqrt(1 - correlation**2) * noise * rng.standard_normal()
        return rate < capacity * math.exp(state)

    return holds


def _simulate(
    search: Callable[[Server, float], tuple[Interval, int]], noise: float, correlation: float
) -> tuple[float, float, float]:
    """Return coverage, mean number of probes, and the 90th percentile of the error in log-rate."""
    rng = np.random.default_rng(1)
    covered, probes, errors = 0, [], []
    for _ in range(RUNS):
        capacity = CEILING * rng.uniform(0.2, 0.95)
        server = _server(rng, capacity, noise, correlation)
        interval, made = search(server, CEILING * math.exp(noise * rng.standard_normal()))
        covered += interval.low <= capacity <= interval.high
        probes.append(made)
        errors.append(abs(math.log(interval.rps / capacity)))
    return covered / RUNS, float(np.mean(probes)), float(np.percentile(errors, 90))


def test_searches_for_a_capacity() -> None:
    rows = []
    for name, search in SEARCHES.items():
        for noise, correlation in NOISES:
            coverage, probes, error = _simulate(search, noise, correlation)
            rows.append([name, f"{noise:.1%}", f"{correlation:g}", f"{coverage:.1%}", f"{probes:.1f}", f"{error:.1%}"])
            if search is by_entropy:
                assert coverage >= 0.9, (noise, correlation)
    print("\n" + table(["search", "noise", "autocorrelation", "covers", "probes", "error, p90"], rows))


def _compare(ratio: float, noise: float, correlation: float) -> tuple[float, float]:
    """Return the coverage of the ratio of two capacities over blocks, and the share of comparisons that see one."""
    rng = np.random.default_rng(2)
    logs = np.empty((COMPARISONS, BLOCKS))
    for blocks in logs:
        capacity = CEILING * rng.uniform(0.2, 0.8)
        for block in range(BLOCKS):
            found = [
                by_entropy(_server(rng, each, noise, correlation), CEILING * math.exp(noise * rng.standard_normal()))[0]
                for each in (capacity, ratio * capacity)
            ]
            blocks[block] = math.log(found[1].rps / found[0].rps)
    means, errors = t_statistics(logs)
    reach = t_quantile(0.95, BLOCKS - 1) * errors
    covered = np.abs(means - math.log(ratio)) <= reach
    return float(covered.mean()), float((sign_flip_p_values(logs) <= 0.05).mean())


def test_ratios_of_capacities() -> None:
    rows = []
    for noise, correlation in NOISES[2:]:
        for ratio in (1.0, 1.1):
            coverage, seen = _compare(ratio, noise, correlation)
            rows.append([f"{noise:.1%}", f"{correlation:g}", f"{ratio:g}", f"{coverage:.1%}", f"{seen:.1%}"])
            assert 0.93 <= coverage <= 0.97, rows[-1]
            assert ratio != 1 or seen <= 0.05, rows[-1]
    print("\n" + table(["noise", "autocorrelation", "true ratio", "covers", "differences"], rows))
