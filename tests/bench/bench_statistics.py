"""Coverage, false alarms and power of the statistics over simulated runs: the tables behind the choice of methods."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest

from benchkit.models.design import ALPHA_PER_LOOK
from tests.support.simulation.figures import (
    CANDIDATES,
    adaptive_run,
    coverage,
    coverage_between_runs,
    coverage_unequal,
    false_alarms,
    power,
    student,
)
from tests.support.simulation.noise import MODELS
from tests.support.simulation.sliced_noise import RECORDED, coverage_with_limit, read_series, sliced

BLOCKS = (3, 4, 5, 6, 7, 8, 10, 15, 20, 30)
WIDTH = max(map(len, MODELS))
EXACT, MANY, FEW = 10_000, 4_000, 1_000
RUNS = "10,000 runs, 4,000 of 10 blocks, 1,000 of more"

Cell = Callable[[str, float], float | None]
"""Function from (name of a noise, column) to a share; None where there is none."""


def table(title: str, columns: Sequence[float], cell: Cell) -> list[float]:
    """Print a table of shares in percent with a row for each noise, and return its numbers."""
    print(f"\n{title}")
    print(f"{'':{WIDTH}}" + "".join(f"{column:7g}" for column in columns))
    found: list[float] = []
    for name in MODELS:
        values = [cell(name, column) for column in columns]
        print(f"{name:{WIDTH}}" + "".join(f"{'-':>7}" if value is None else f"{100 * value:7.1f}" for value in values))
        found += [value for value in values if value is not None]
    return found


def chance_deviation(share: float, runs: int) -> float:
    """Return the approximate deviation of a table's worst count from a true share by chance."""
    return 3 * math.sqrt(share * (1 - share) / runs)


def covered(candidate: str, cells: int, runs: int) -> Cell:
    interval = CANDIDATES[candidate]
    return lambda noise, blocks: coverage(interval, MODELS[noise], int(blocks), cells=cells, runs=runs)


def alarms(comparisons: int) -> Cell:
    return lambda noise, blocks: false_alarms(MODELS[noise], int(blocks), comparisons=comparisons, runs=_runs(blocks))


def detected(comparisons: int) -> Cell:
    return lambda noise, blocks: power(MODELS[noise], int(blocks), comparisons=comparisons, runs=_runs(blocks))


def planned(blocks: int) -> Cell:
    return lambda noise, pilot: power(MODELS[noise], blocks, comparisons=1, runs=FEW, pilot=int(pilot))


def _runs(blocks: float) -> int:
    """Return the number of runs, which is lower where each test goes over thousands of sign patterns."""
    return EXACT if blocks <= 8 else MANY if blocks <= 10 else FEW


def tolerance(share: float, blocks: float) -> float:
    """Return the tolerance of a count: zero where the number of runs makes it exact enough."""
    return 0.0 if _runs(blocks) == EXACT else chance_deviation(share, _runs(blocks))


def recorded(cell: Cell, found: dict[float, list[float]]) -> Cell:
    """Return the cell function, which also records its values by column."""

    def record(noise: str, column: float) -> float | None:
        value = cell(noise, column)
        if value is not None:
            found[column].append(value)
        return value

    return record


def between(*, relative: bool) -> Cell:
    return lambda noise, blocks: coverage_between_runs(MODELS[noise], int(blocks), relative=relative)


@pytest.mark.parametrize("cells", [2, 6])
@pytest.mark.parametrize("candidate", CANDIDATES)
def test_coverage_of_every_candidate(candidate: str, cells: int) -> None:
    runs = 20_000 if candidate == "t" else 2_000
    title = f"Coverage of 95 % intervals: {candidate}, {cells} cells, {runs:,} runs; by blocks"
    found = table(title, BLOCKS, covered(candidate, cells, runs))
    if candidate == "t":
        assert min(found) >= 0.92
        from_six = [share for i, share in enumerate(found) if BLOCKS[i % len(BLOCKS)] >= 6]
        assert min(from_six) >= 0.93
        assert max(from_six) <= 0.97


def test_coverage_of_sliced_blocks() -> None:
    """Print coverage and false alarms with recorded slices, 5 s of each cell in slices of 0.25 s."""
    blocks = (6, 8, 10, 15, 20)
    for name in RECORDED:
        for cells in (2, 3, 6):
            shares = [coverage(student, sliced(name, cells), each, cells=cells, runs=10_000) for each in blocks]
            print(f"\ncoverage, {name}, {cells} cells: " + _by_blocks(blocks, shares))
            assert min(shares) >= 0.93
            assert max(shares) <= 0.97
        alarms = [false_alarms(sliced(name, 2), each, comparisons=1, runs=_runs(each)) for each in blocks[:3]]
        print(f"false differences of two cells: {_by_blocks(blocks, alarms)}")
        for each, share in zip(blocks, alarms, strict=False):
            assert share <= 0.05 + tolerance(0.05, each)


def test_limit_of_unequal_disturbances() -> None:
    """Print what the limit `unequal` does to coverage and width of intervals; any limit must cover."""
    for name in RECORDED:
        print(f"\n{name}: blocks beyond a limit of unequal disturbance excluded, 4,000 runs of 6 and of 10 blocks")
        for limit in (0.01, 0.02, 0.05, 0.1, 0.2, math.inf):
            for blocks in (6, 10):
                found = coverage_with_limit(read_series(name), limit, blocks=blocks)
                print(
                    f"limit {limit:4g}, {blocks:2} blocks: {found.kept:.0%} kept, {found.decided:.1%} of runs decided, "
                    f"coverage {found.coverage:.1%}, half-width {found.half_width:.4f}"
                )
                assert found.coverage >= 0.93


def _by_blocks(blocks: Sequence[int], shares: Sequence[float]) -> str:
    return ", ".join(f"{share:.1%} of {each} blocks" for each, share in zip(blocks, shares, strict=False))


def test_coverage_with_unequal_noise() -> None:
    """Print the coverage for unequal noise, a known limit of the method that has no threshold."""
    title = "Coverage of 95 % intervals where one cell has twice the noise, 4,000 runs; by blocks"
    found = table(title, BLOCKS, lambda noise, blocks: coverage_unequal(MODELS[noise], int(blocks)))
    assert len(found) == len(MODELS) * len(BLOCKS)


@pytest.mark.parametrize("comparisons", [1, 3, 7])
def test_false_alarms_of_families(comparisons: int) -> None:
    title = f"Runs of equal cells with a false difference after Holm: {comparisons} comparisons, {RUNS}; by blocks"
    found: dict[float, list[float]] = {blocks: [] for blocks in (3, 5, 6, 7, 8, 10, 15, 30)}
    table(title, tuple(found), recorded(alarms(comparisons), found))
    for blocks, shares in found.items():
        assert max(shares) <= 0.05 + tolerance(0.05, blocks)


@pytest.mark.parametrize("comparisons", [1, 3, 7])
def test_power_at_the_minimum_detectable_effect(comparisons: int) -> None:
    title = f"Power at the minimum detectable effect: {comparisons} comparisons, {RUNS}; by blocks"
    found: dict[float, list[float]] = {blocks: [] for blocks in (5, 6, 7, 8, 10, 15, 30)}
    table(title, tuple(found), recorded(detected(comparisons), found))
    for blocks, shares in found.items():
        assert min(shares, default=1.0) >= 0.8 - tolerance(0.8, blocks)


def test_power_with_noise_from_a_pilot() -> None:
    title = "Power at the minimum detectable effect, noise from a pilot: 10 blocks, 1,000 runs; by blocks of the pilot"
    found = table(title, (3, 4, 6, 10), planned(10))
    of_noise = dict(zip(MODELS, (found[i : i + 4] for i in range(0, len(found), 4)), strict=True))
    print("Lower where a tenth of the trials are disturbed: a pilot may have too few of these, or none.")
    assert min(of_noise.pop("disturbed")) >= 0.75
    assert min(map(min, of_noise.values())) >= 0.8


def test_comparisons_of_two_runs() -> None:
    title = "Coverage of 95 % intervals between two runs, 2,000 runs; by blocks"
    found = table(f"{title}: relative to a cell that did not change", (3, 6, 10, 20, 30), between(relative=True))
    assert min(found) >= 0.93
    table(f"{title}: as they are", (3, 6, 10, 20, 30), between(relative=False))


@pytest.mark.parametrize("level", [0.05, ALPHA_PER_LOOK])
def test_runs_that_end_at_a_precision(level: float) -> None:
    precisions = (0.05, 0.07, 0.1)
    runs = {(name, p): adaptive_run(MODELS[name], p, level=level, runs=10_000) for name in MODELS for p in precisions}
    title = f"Runs that end at a precision, intervals and tests at {level:g}"
    right = table(f"{title}: coverage, 10,000 runs; by precision", precisions, lambda noise, p: runs[noise, p][0])
    wrong = table(f"{title}: false alarms, 500 runs; by precision", precisions, lambda noise, p: runs[noise, p][1])
    print("\nMean number of blocks")
    for name in MODELS:
        print(f"{name:{WIDTH}}" + "".join(f"{runs[name, p][2]:7.1f}" for p in precisions))
    if level == ALPHA_PER_LOOK:
        assert min(right) >= 0.95 - chance_deviation(0.95, 10_000)
        assert max(wrong) <= 0.05 + chance_deviation(0.05, 500)
